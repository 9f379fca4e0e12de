"""``every_job`` and ``every_device``."""

from pathlib import Path

import pytest

from testbed.scenario import Scenario, parse
from tests.unit.scenario.conftest import problems

HEAD = "version: 1\nname: x\n"
FLEETS = "fleets: {a: {count: 2}}\n"


@pytest.fixture(autouse=True)
def job_file(folder: Path) -> None:
    (folder / "job.py").write_text("job = 1\n")


def jobs(every_job: str, job: str) -> Scenario:
    return parse(f"{HEAD}every_job: {every_job}\njobs: {{a: {job}}}\n{FLEETS}")


def test_what_a_job_says_itself_counts() -> None:
    scenario = jobs("{file: job.py, demand: 4, rounds: 3, deadline: 5s}", "{demand: 2}")
    assert (scenario.jobs["a"].demand, scenario.jobs["a"].rounds) == (2, 3)


def test_mappings_are_inherited_key_by_key() -> None:
    scenario = jobs(
        "{file: job.py, demand: 1, rounds: 1, deadline: 5s, params: {a: 1, b: 2}}", "{params: {b: 3, c: text}}"
    )
    assert scenario.jobs["a"].params == {"a": 1, "b": 3, "c": "text"}


@pytest.mark.parametrize(("shared", "own"), [("rounds: 9", "max_rounds: 4"), ("max_rounds: 9", "rounds: 4")])
def test_either_way_to_count_rounds_replaces_the_other(shared: str, own: str) -> None:
    job = jobs(f"{{file: job.py, demand: 1, deadline: 5s, {shared}}}", f"{{{own}}}").jobs["a"]
    assert {job.rounds, job.max_rounds} == {4, None}


def test_null_takes_away() -> None:
    text = f"{HEAD}jobs: {{a: {{file: job.py, demand: 1, rounds: 1, deadline: 5s}}}}\n"
    text += "every_device: {session: 5s, gap: 1s, cpu: 2}\n"
    text += "fleets:\n  a: {count: 1}\n  b: {count: 1, session: null, gap: null}\n"
    fleets = parse(text).fleets
    assert fleets["a"].session is not None
    assert fleets["b"].session is None
    assert str(fleets["b"].cpu) == "2"


def test_a_mistake_that_all_inherit_is_told_once_and_where_it_stands() -> None:
    text = f"{HEAD}every_job: {{deadlne: 5s}}\njobs:\n"
    text += "".join(f"  {name}: {{file: job.py, demand: 1, rounds: 1, deadline: 5s}}\n" for name in "ab")
    assert problems(text + FLEETS) == ["scenario.yaml:3: every_job.deadlne: unknown key; did you mean deadline?"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("every_job: 3\njobs: {a: {file: job.py}}\n", "scenario.yaml:3: every_job: 3 where keys should be"),
        ("every_job: {demand: 1}\njobs: 3\n", "scenario.yaml:4: jobs: 3 where keys should be"),
        ("jobs: {a: 3}\n", "scenario.yaml:3: jobs.a: 3 where keys should be"),
        ("jobs: {}\n", "scenario.yaml:3: jobs: there is no job; add one"),
        ("jobs: [a]\n", "scenario.yaml:3: jobs: a list where keys should be"),
    ],
)
def test_what_is_no_mapping(text: str, told: str) -> None:
    assert problems(HEAD + text + FLEETS)[0].startswith(told)


def test_no_fleet_and_an_empty_one() -> None:
    text = f"{HEAD}jobs: {{a: {{file: job.py, demand: 1, rounds: 1, deadline: 5s}}}}\n"
    assert problems(text + "fleets: {}\n") == ["scenario.yaml:4: fleets: there is no device; add a fleet"]
    assert problems(text + "fleets: {phones: {count: 0}}\n") == [
        "scenario.yaml:4: fleets.phones.count: 0 is too small; it is at least 1"
    ]
    assert problems(text) == ["scenario.yaml:1: fleets: there is no device; add a fleet"]


@pytest.mark.parametrize("text", ["just words\n", "- a\n- b\n", "3\n"])
def test_a_file_that_is_no_mapping(text: str) -> None:
    (told,) = problems(text)
    assert told.startswith("scenario.yaml:1: ")
    assert told.endswith(" where the keys of a scenario should be; write key: value lines")


def test_what_is_given_to_many_is_bounded() -> None:
    """A small file could make a thousand million values: so many keys times so many jobs."""
    shared = ", ".join(f"k{number}: 1" for number in range(300))
    heirs = ", ".join(f"j{number}: {{}}" for number in range(200))
    told = problems(f"{HEAD}every_job: {{{shared}}}\njobs: {{{heirs}}}\n{FLEETS}")
    assert told == ["scenario.yaml:3: every_job: gives more than 50000 values to the 200 jobs; write fewer keys there"]
