"""An asynchronous job in the report: rounds of one request, staleness, and what the auditor holds against it."""

from pathlib import Path

import pytest

from coordinator.engine.model import Asynchronous, Outcome
from coordinator.engine.requirements import AllDevices
from testbed.report.audit import audit
from testbed.report.history import read_history
from testbed.report.record import load_run
from testbed.report.summary import summarise
from testbed.report.words import job_lines
from testbed.runfolder.summary import Staleness
from tests.unit.report.world import World


@pytest.fixture
def world() -> World:
    """Two devices at work, a flush at each response: b was given the model before round 1, and counts in round 2."""
    world = World()
    for name in ("a", "b"):
        world.device(name)
        world.check_in(0.5, name)
    world.job(1.0, "wide", AllDevices(), label="any", demand=2, rounds=2, asynchronous=Asynchronous(1))
    first = world.open(1.0, "wide", 1)
    leases = [world.lease(1.0, name, first) for name in ("a", "b")]
    world.respond(3.0, leases[0])
    again = world.lease(3.0, "a", first)  # its place is free, and the next model is not there yet
    second = world.open(3.5, "wide", 2)
    world.respond(5.0, leases[1], into=second)
    world.respond(6.0, again, Outcome.STRAGGLER, into=second)
    world.finish(6.0, "wide")
    return world


def test_it_adds_up(world: World, tmp_path: Path) -> None:
    found = audit(load_run(world.write(tmp_path)))
    assert found.findings == ()
    assert (found.leases.granted, found.responses, found.in_rounds, found.lost) == (3, 2, 2, 0)


def test_a_round_lasts_from_flush_to_flush(world: World, tmp_path: Path) -> None:
    record = load_run(world.write(tmp_path))
    attempts = [one for job in read_history(record.journal).jobs.values() for one in job.attempts]
    assert [(one.round, one.opened_at, one.ended_at) for one in attempts] == [(1, 1.0, 3.0), (2, 3.0, 5.0)]
    assert [one.split(9.0) for one in attempts] == [(0.0, 2.0), (0.0, 2.0)]
    (job,) = summarise(record).jobs
    assert (job.delay_s, job.collect_s, job.jct_s, job.aborts) == (0.0, 4.0, 4.0, 0)


def test_a_round_may_end_before_the_coordinator_hears_that_it_began(world: World, tmp_path: Path) -> None:
    """Its driver records responses and opens the round in calls of their own, and either may come first."""
    lines = [(line["event"], line) for line in world.lines]
    opened = next(line for event, line in lines if isinstance(event, list) and event[:5:3] == ["AttemptOpened", 2])
    world.lines.remove(opened)
    closed = max(place for place, line in enumerate(world.lines) if "EndAttempt" in str(line))
    world.lines.insert(closed + 1, {**opened, "t": 5.0})
    record = load_run(world.write(tmp_path))
    assert audit(record).findings == ()
    attempts = [one for job in read_history(record.journal).jobs.values() for one in job.attempts]
    assert [(one.round, one.opened_at, one.ended_at) for one in attempts] == [(1, 1.0, 3.0), (2, 3.0, 5.0)]


def test_staleness_is_told(world: World, tmp_path: Path) -> None:
    summary = summarise(load_run(world.write(tmp_path)))
    assert summary.jobs[0].staleness == Staleness(0.5, 1)
    (line,) = job_lines(summary)
    assert line.startswith("wide is asynchronous: 2 flushes, responses 0.5 rounds stale on average, 1 at most")


def test_a_response_of_a_later_round_that_is_missing_is_found(world: World, tmp_path: Path) -> None:
    world.logs["jobs/wide/manifest"] = [row for row in world.logs["jobs/wide/manifest"] if row.get("of_round") is None]
    found = audit(load_run(world.write(tmp_path)))
    assert {"NO_DECISION", "RESPONSE_LOST"} <= {finding.kind for finding in found.findings}


def test_more_at_work_than_its_concurrency_is_found(world: World, tmp_path: Path) -> None:
    for name in ("c", "d", "e"):
        world.device(name)
        world.check_in(7.0, name)
    world.job(7.0, "other", AllDevices(), label="any", demand=2, rounds=2, asynchronous=Asynchronous(1))
    attempt = world.open(7.0, "other", 1)
    for name in ("c", "d", "e"):
        world.lease(8.0, name, attempt)
    found = audit(load_run(world.write(tmp_path)))
    assert {finding.kind for finding in found.findings} == {"TOO_MANY_LEASES"}
