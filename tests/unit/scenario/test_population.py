"""The key ``population``: what it takes, what is told of mistakes, and what comes of it."""

from pathlib import Path

import pytest

from testbed.scenario.loader import parse
from testbed.world.population import PopulationSpec
from tests.unit.scenario.conftest import problems

HEAD = "version: 1\nname: many\nbackend: sim\n"
JOBS = "jobs: {a: {file: digits.py, demand: 5, rounds: 2, deadline: 100s}}\n"
NEEDS = "jobs: {a: {file: digits.py, demand: 5, rounds: 2, deadline: 100s, requirement: cpu >= 7 and ramm >= 2}}\n"
# Each entry: what stands at the key, and on the next line the first thing that is told.
MISTAKES = [
    entry.split("\n") for entry in Path(__file__).with_name("population-mistakes.txt").read_text().strip().split("\n\n")
]


def told(population: str, head: str = HEAD, jobs: str = JOBS) -> list[str]:
    return [each.removeprefix("scenario.yaml:") for each in problems(f"{head}population: {population}\n{jobs}")]


def spec(population: str, folder: Path) -> PopulationSpec:
    scenario = parse(f"{HEAD}population: {population}\n{JOBS}", folder=folder)
    assert scenario.population is not None
    again = parse(scenario.dump())
    assert again == scenario
    return scenario.population.spec()


def test_as_many_phones_as_make_so_many_check_ins(folder: Path) -> None:
    assert spec("{check_ins_per_day: 1400000, replay: 5d}", folder) == PopulationSpec(count=140_711, replay_s=432_000.0)


def test_every_key(folder: Path) -> None:
    (folder / "phones.csv").touch()
    text = "{devices: phones.csv, count: 10, session: exp(5m), gap: 1h, swing: 1, peak: 0s, crash: 5%, slow: inference}"
    made = spec(text, folder)
    assert made.devices == folder / "phones.csv"
    assert (made.count, made.crash, made.slow) == (10, 0.05, "inference")
    assert (made.availability.session.mean, made.availability.gap.mean) == (300.0, 3600.0)
    assert (made.availability.day.swing, made.availability.day.peak_s) == (1.0, 0.0)


def test_files(folder: Path) -> None:
    (folder / "client_device_capacity").touch()  # as FedScale calls it
    (folder / "sessions.csv").touch()
    made = spec("{devices: client_device_capacity, sessions: sessions.csv}", folder)
    assert made.devices == folder / "client_device_capacity"
    assert made.sessions == folder / "sessions.csv"


@pytest.mark.parametrize(("population", "said"), MISTAKES)
def test_one_mistake_one_line(folder: Path, population: str, said: str) -> None:
    (folder / "there.csv").touch()
    assert told(population)[0] == said.replace("{folder}", str(folder))


def test_what_it_goes_against(folder: Path) -> None:
    other = HEAD.replace("backend: sim", "time_scale: 0.5")
    assert told("{count: 5}", other, f"fleets: {{a: {{count: 3}}}}\n{JOBS}") == [
        "3: time_scale: conflicts with population; remove it: virtual time needs no waiting",
        "4: population: works in the simulator only; write backend: sim, or describe fleets",
        "4: population: conflicts with fleets; keep one of the two",
    ]


def test_what_phones_do_not_report(folder: Path) -> None:
    known = "known are cpu, memory, fp16, inference, os, link"
    assert told("{count: 5}", jobs=NEEDS) == [f"5: jobs.a.requirement: no phone reports ramm; {known}"]


def test_a_requirement_that_names_devices(folder: Path) -> None:
    jobs = JOBS.replace("deadline: 100s", "deadline: 100s, requirement: not id in (phone-1; phone-2)")
    (line,) = told("{count: 5}", jobs=jobs)
    assert line == (
        "5: jobs.a.requirement: names devices, and those of a population have no names; compare capabilities"
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("crash: phones", "there is no fleet 'phones': a population has none; write all, or label=value"),
        ("crash: 5% of site=lab", "no phone has site=lab: phones have no labels; write all"),
        (
            "limit: all, link: 3g",
            "limit: the links of a population do not change; remove it, or describe fleets",
        ),
        ("crash: driver b", "there is no job 'b'; known are a"),
        (
            "leave: all, for: 595s",
            "ends at 605s, after the end of the run (10m); raise duration, or make it end earlier",
        ),
    ],
)
def test_timelines_that_it_cannot_have(folder: Path, entry: str, said: str) -> None:
    (line,) = told("{count: 5}", f"{HEAD}churn: [{{at: 10s, {entry}}}]\n")
    assert line.removeprefix("4: churn.0: ") == said
