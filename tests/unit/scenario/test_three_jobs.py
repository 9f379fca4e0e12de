"""The scenario of the product's description: with its churn, and without."""

from collections import Counter
from fractions import Fraction
from pathlib import Path

from testbed.scenario import Scenario
from testbed.world.fleets import expand
from testbed.world.timeline import Verb
from tests.unit.scenario.conftest import PLAIN, THREE_JOBS, problems, write
from venn.wire.notation import Constant, Exponential, Uniform

REPOSITORY = Path(__file__).parents[3]


def test_its_jobs_have_what_they_inherit(three_jobs: Scenario, folder: Path) -> None:
    assert list(three_jobs.jobs) == ["handwriting", "tablet-pen", "label-count"]
    job = three_jobs.jobs["label-count"]
    assert (job.data, job.min_response, job.deadline, job.workload.compute) == ("digits", Fraction(4, 5), 15.0, 4.0)
    assert (job.over_commit, job.rounds, job.max_rounds, job.arrives) == (Fraction(1, 5), 8, None, 10.0)
    assert job.file == folder / "labels.py"
    assert three_jobs.jobs["tablet-pen"].params == {"epochs": 40}
    assert three_jobs.requirement_of("label-count") == ("powerful", "memory >= 4 GB and cpu >= 7")


def test_its_fleets_have_what_they_inherit(three_jobs: Scenario) -> None:
    fleet = three_jobs.fleets["bench"]
    assert (fleet.count, fleet.processes, fleet.cpu, fleet.memory) == (4, 4, Constant(8.0), Constant(8e9, "bytes"))
    assert (fleet.session, fleet.gap) == (Exponential(8.0, "duration"), Exponential(4.0, "duration"))
    assert (fleet.crash, fleet.tasks_per_session, fleet.tasks_per_day) == (Fraction(3, 10), 1, 0)
    assert three_jobs.fleets["budget"].cpu == Uniform(1.0, 4.0)
    assert three_jobs.devices == 104


def test_its_fleets_become_devices(three_jobs: Scenario) -> None:
    devices = expand(three_jobs.fleet_specs(), seed=three_jobs.seed, time_scale=three_jobs.time_scale, data={})
    assert len(devices) == 104
    assert [device.device for device in devices if device.process] == ["bench-01", "bench-02", "bench-03", "bench-04"]


def test_its_timeline(folder: Path) -> None:
    scenario = write(folder, THREE_JOBS)
    crash, cut = scenario.churn
    assert (crash.verb, crash.from_s, crash.to_s, crash.for_s) == (Verb.CRASH, 30.0, None, None)
    assert (str(crash.of), str(cut)) == ("25% of flagship", "{at: 45s, disconnect: 30% of budget, for: 10s}")
    actions = scenario.timeline(scenario.drawn_devices()).actions
    assert Counter(action.verb for action in actions) == {Verb.CRASH: 5, Verb.DISCONNECT: 14}


def test_the_error_of_the_description(folder: Path) -> None:
    text = PLAIN.replace("requirement: roomy", "requirment: roomy")
    line = 1 + text[: text.index("requirment")].count("\n")
    assert problems(text) == [
        f"scenario.yaml:{line}: jobs.tablet-pen.requirment: unknown key; did you mean requirement?"
    ]


def test_the_packaged_file_is_the_description(folder: Path) -> None:
    packaged = (REPOSITORY / "examples" / "three-jobs.yaml").read_text()
    assert write(folder, packaged) == write(folder, THREE_JOBS)


def test_what_is_expected_is_judged_by_the_summary(three_jobs: Scenario) -> None:
    summary = {
        "unfinished_jobs": 0,
        "responses_lost": 1,
        "jobs": [{"name": "handwriting", "accuracy": 0.93}, {"name": "tablet-pen", "accuracy": None}],
    }
    assert three_jobs.verdicts(summary) == [
        ("unfinished_jobs == 0", 0.0, True),
        ("jobs.handwriting.accuracy >= 0.90", 0.93, True),
        ("jobs.tablet-pen.accuracy >= 0.90", None, False),
        ("responses_lost == 0", 1.0, False),
    ]
