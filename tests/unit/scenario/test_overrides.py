"""``--set PATH=VALUE``: validated like the file, told as what the user typed."""

from pathlib import Path

import pytest

from testbed.scenario import ScenarioError, load
from testbed.scenario.loader import as_words
from tests.unit.scenario.conftest import PLAIN, problems


@pytest.fixture
def file(folder: Path) -> Path:
    (folder / "s.yaml").write_text(PLAIN)
    return folder / "s.yaml"


def test_values_of_every_shape(file: Path) -> None:
    scenario = load(
        file,
        [
            "seed=11",
            "jobs.handwriting.demand=30",
            "jobs.tablet-pen.workload.compute=2s",
            "jobs.label-count.params={bins: 10, name: x=y}",
            "every_job.deadline=20s",
            "fleets.budget.cpu=2..3",
            "fleets.extra={count: 2, memory: 4 GB}",
            "requirements.roomy=memory >= 6 GB",
            "expect.0=unfinished_jobs <= 1",
        ],
    )
    assert scenario.seed == 11
    assert scenario.jobs["handwriting"].demand == 30
    assert [job.workload.compute for job in scenario.jobs.values()] == [4.0, 2.0, 4.0]
    assert scenario.jobs["label-count"].params == {"bins": 10, "name": "x=y"}
    assert {job.deadline for job in scenario.jobs.values()} == {20.0}
    assert str(scenario.fleets["budget"].cpu) == "2..3"
    assert scenario.fleets["extra"].crash == scenario.fleets["budget"].crash
    assert scenario.requirements["roomy"] == "memory >= 6 GB"
    assert str(scenario.expect[0]) == "unfinished_jobs <= 1"


def test_the_last_one_wins(file: Path) -> None:
    assert load(file, ["seed=1", "seed=2"]).seed == 2


def test_null_takes_an_inherited_key_away(file: Path) -> None:
    fleet = load(file, ["fleets.bench={count: 4, session: null, gap: null, crash: null}"]).fleets["bench"]
    assert (fleet.session, fleet.gap, fleet.crash, fleet.tasks_per_session) == (None, None, 0, 1)


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--policy=fif", "there is no policy 'fif'; did you mean fifo?"),
        ("--seed=x", "'x' is not a whole number; write e.g. 1"),
        ("--rounds-scale=0", "0 is not above 0; write e.g. 1"),
    ],
)
def test_a_flag_is_told_as_the_user_gave_it(folder: Path, flag: str, told: str) -> None:
    assert problems(PLAIN, flag)[0] == f"{flag}: {told}"


def test_they_stand_on_a_command_line_as_they_were_given() -> None:
    assert as_words(["jobs.a.demand=3", "--policy=fifo"]) == ["--set", "jobs.a.demand=3", "--policy=fifo"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("jobs.handwriting.demnd=3", "jobs.handwriting.demnd: unknown key; did you mean demand?"),
        ("jobs.handwriting.demand=0", "jobs.handwriting.demand: 0 is too small; it is at least 1"),
        ("every_job.deadline=5", "every_job.deadline: '5' has no unit, and a duration needs one; "
         "write e.g. 15s, 250ms, 2m or 1h"),
        ("every_job.deadline=1:30", 'YAML reads 1:30 as 90; write 90s for a time, or "1:30" in quotes for text'),
        ("jobs.handwritten.demand=3", "there is no handwritten in jobs; did you mean handwriting?"),
        ("fleets.phones.count=3", "there is no phones in fleets; known are budget, midrange, flagship, bench"),
        ("seed.x=3", "seed has no keys; set it whole"),
        ("expect.9=a == 1", "expect is a list of 4; name an entry by its number, from 0"),
        ("expect.x=a == 1", "expect is a list of 4; name an entry by its number, from 0"),
        ("seed", "is not PATH=VALUE; write e.g. --set jobs.handwriting.demand=30"),
        ("=3", "is not PATH=VALUE; write e.g. --set jobs.handwriting.demand=30"),
        ("jobs..demand=3", "is not PATH=VALUE; write e.g. --set jobs.handwriting.demand=30"),
        (f"{'.'.join('seed' * 6)}=3", "is not PATH=VALUE; write e.g. --set jobs.handwriting.demand=30"),
        ("seed=", "seed: has no value; write one, or remove the key"),
        ("requirements.any=[", "the file ends where a value should be; is it cut off?"),
    ],
)  # fmt: skip
def test_mistakes_are_told_as_typed(folder: Path, text: str, told: str) -> None:
    assert problems(PLAIN, text)[0] == f"--set {text}: {told}"


def test_a_mistake_in_the_file_keeps_its_line(folder: Path) -> None:
    told = problems(PLAIN.replace("demand: 16", "demand: 0"), "seed=8", "every_job.deadline=0s")
    assert told == [
        "--set every_job.deadline=0s: every_job.deadline: '0s' is not a time; write e.g. 15s",
        "scenario.yaml:22: jobs.tablet-pen.demand: 0 is too small; it is at least 1",
    ]


def test_paths_in_an_override_start_at_the_scenario(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file.parent / "elsewhere").mkdir()
    monkeypatch.chdir(file.parent / "elsewhere")
    loaded = load(Path("../s.yaml"), ["jobs.handwriting.file=labels.py"])
    assert loaded.jobs["handwriting"].file.samefile(file.parent / "labels.py")
    with pytest.raises(ScenarioError, match=r"no file .*labels\.py"):
        load(Path("../s.yaml"), ["jobs.handwriting.file=elsewhere/labels.py"])
