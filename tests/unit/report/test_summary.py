import json
from pathlib import Path

import pytest

from coordinator.engine.model import JobEnd, SessionEnd
from coordinator.engine.requirements import AllDevices
from testbed.report.record import load_run
from testbed.report.summary import summarise, to_json
from testbed.runfolder.summary import JobFigures, Summary
from tests.unit.report.contended import ContendedRun
from tests.unit.report.world import World


@pytest.fixture
def summary(folder: Path) -> Summary:
    return summarise(load_run(folder))


def job(summary: Summary, name: str) -> JobFigures:
    return next(job for job in summary.jobs if job.name == name)


def test_times_of_a_job_are_those_that_were_written(summary: Summary) -> None:
    wide, narrow = job(summary, "wide"), job(summary, "narrow")
    assert (wide.jct_s, wide.delay_s, wide.collect_s, wide.gaps_s) == (25.0, 2.0 + 2.0, 13.0 + 3.0, 5.0)
    assert (narrow.jct_s, narrow.delay_s, narrow.collect_s) == (28.0, 3.0 + 1.0, 12.0 + 2.0)
    assert summary.mean_jct_s == 26.5
    assert (wide.rounds, wide.aborts, wide.accuracy, narrow.accuracy) == (1, 1, 0.92, None)


def test_time_adds_up_for_every_job(tmp_path: Path) -> None:
    found = summarise(load_run(ContendedRun().run().write(tmp_path)))
    assert len(found.jobs) == 3
    for one in found.jobs:
        assert one.jct_s is not None
        assert one.gaps_s is not None
        assert one.delay_s + one.collect_s + one.gaps_s == pytest.approx(one.jct_s)
        assert one.gaps_s >= -1e-9
        assert sum(wait.seconds for wait in one.waits) == pytest.approx(one.delay_s)


def test_leases_responses_and_sessions_add_up(tmp_path: Path) -> None:
    found = summarise(load_run(ContendedRun().run().write(tmp_path)))
    assert found.leases.adds_up
    assert found.leases.granted > 150
    assert found.sessions == sum(found.sessions_by_end.values())
    places = (found.responses_in_rounds, found.responses_in_aborted, found.responses_pending, found.responses_lost)
    assert found.responses_acknowledged == sum(places) == found.leases.responses


def test_counts(summary: Summary) -> None:
    assert (summary.leases.granted, summary.leases.responses, summary.leases.failed, summary.leases.lost) == (
        6,
        4,
        1,
        1,
    )
    assert (summary.responses_acknowledged, summary.responses_in_aborted, summary.responses_lost) == (4, 1, 0)
    assert (summary.devices, summary.devices_lost_in_task, summary.processes_killed) == (3, 1, 1)
    assert summary.lost_in_task_by_end == {"connection_ended": 1}
    assert summary.sessions_by_end == {"connection_ended": 1, "goodbye_session_over": 1, "open": 1}
    assert (summary.duration_s, summary.unfinished_jobs, summary.interrupted) == (29.0, 0, False)


def test_wasted_is_the_time_on_leases_that_are_in_no_closed_round(summary: Summary) -> None:
    assert job(summary, "wide").wasted_device_s == (10.0 - 6.0) + (11.0 - 7.0)
    assert job(summary, "narrow").wasted_device_s == 12.0 - 8.0  # leased until its end, its device being gone since 9.0


def test_a_goodbye_in_mid_task_is_a_device_lost_in_task_too(tmp_path: Path) -> None:
    world = World()
    world.device("a", cpu=1.0)
    world.job(0.0, "one", AllDevices(), label="any", demand=1, rounds=1)
    world.check_in(1.0, "a")
    world.lease(2.0, "a", world.open(2.0, "one", 1))
    world.leave(3.0, "a", SessionEnd.GOODBYE_SESSION_OVER)
    found = summarise(load_run(world.write(tmp_path, digest=None)))
    assert (found.devices_lost_in_task, found.processes_killed) == (1, 0)
    assert (found.unfinished_jobs, found.mean_jct_s, found.jobs[0].jct_s, found.jobs[0].gaps_s) == (1, None, None, None)
    assert found.interrupted
    assert found.leases.live == 1
    assert found.digest
    assert not found.passed


def test_a_job_that_never_arrived_is_unfinished(world: World, tmp_path: Path) -> None:
    folder = world.write(tmp_path)
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**about, "jobs": ["wide", "narrow", "never"]}))
    assert summarise(load_run(folder)).unfinished_jobs == 1


def test_a_cancelled_job_says_why(world: World, tmp_path: Path) -> None:
    world.job(40.0, "third", AllDevices(), label="any", demand=1, rounds=1)
    world.finish(41.0, "third", JobEnd.CANCELLED, "nobody wants it")
    third = job(summarise(load_run(world.write(tmp_path))), "third")
    assert (third.finished, third.message) == (False, "nobody wants it")


def test_expectations_are_held_against_the_summary(world: World, tmp_path: Path) -> None:
    world.about["expect"] = ["jobs.wide.accuracy >= 0.95", "leases.granted < 100", "no.such.thing == 1"]
    found = summarise(load_run(world.write(tmp_path)))
    assert [(one.expect, one.held) for one in found.expectations] == [
        ("unfinished_jobs == 0", True),
        ("jobs.wide.accuracy >= 0.95", False),
        ("leases.granted < 100", True),
        ("no.such.thing == 1", False),
    ]
    assert not found.passed


def test_the_json_has_what_was_promised(world: World, tmp_path: Path) -> None:
    world.logs["jobs/wide/rounds"][-1]["metrics"] = {"accuracy": 0.9, "loss": float("nan")}
    value = to_json(summarise(load_run(world.write(tmp_path))))
    said = json.loads(json.dumps(value, allow_nan=False))
    assert said["jobs"][0]["metrics"] == {"accuracy": 0.9, "loss": None}
    keys = {"name", "policy", "seed", "backend", "devices", "duration_s", "jobs", "unfinished_jobs", "mean_jct_s"}
    keys |= {"devices_lost_in_task", "sessions_by_end", "processes_killed", "responses_acknowledged", "responses_lost"}
    keys |= {"responses_counted_twice", "leases", "host", "expectations", "digest", "interrupted", "audit"}
    assert keys <= said.keys()
    job_keys = {
        "name",
        "finished",
        "rounds",
        "aborts",
        "accuracy",
        "metrics",
        "jct_s",
        "delay_s",
        "collect_s",
        "gaps_s",
    }
    assert job_keys | {"stragglers", "wasted_device_s"} <= said["jobs"][0].keys()
