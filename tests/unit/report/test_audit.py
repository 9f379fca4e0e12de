"""Each fault that is planted in one of the three logs must be found by the other two."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId
from coordinator.engine.model import LeaseEnd, Outcome, Repeat
from coordinator.engine.requirements import AllDevices
from testbed.report.audit import audit
from testbed.report.record import load_run
from testbed.runfolder.summary import Audit
from tests.unit.report.contended import ContendedRun
from tests.unit.report.world import World


def check(world: World, folder: Path) -> Audit:
    return audit(load_run(world.write(folder)))


def kinds(found: Audit) -> set[str]:
    return {finding.kind for finding in found.findings}


def test_a_clean_run_has_nothing_to_find(world: World, tmp_path: Path) -> None:
    found = check(world, tmp_path)
    assert found.findings == ()
    assert (found.leases.granted, found.responses, found.in_rounds, found.in_aborted, found.lost) == (6, 4, 3, 1, 0)


def test_a_large_clean_run_has_nothing_to_find(tmp_path: Path) -> None:
    found = check(ContendedRun().run(), tmp_path)
    assert found.findings == ()
    assert found.responses == found.in_rounds + found.in_aborted


def test_a_device_that_has_its_receipt_may_be_leased_before_its_driver_has_recorded_it(tmp_path: Path) -> None:
    """A driver records in batches; meanwhile the device says Finished, which frees it at once."""
    world = World()
    world.device("a")
    world.job(0.0, "wide", AllDevices(), label="any", demand=1, rounds=2)
    world.job(0.0, "other", AllDevices(), label="any", demand=1, rounds=1)
    world.check_in(1.0, "a")
    first = world.lease(1.0, "a", world.open(1.0, "wide", 1))
    world.hear(2.0, past.TaskFinished(first.session, first.lease, Outcome.COUNTED))
    second = world.lease(2.0, "a", world.open(1.5, "other", 1))
    world.respond(2.01, first)
    world.respond(3.0, second)
    assert check(world, tmp_path).findings == ()


def test_a_count_that_reaches_the_coordinator_after_the_lease_has_ended_corrects_its_end(tmp_path: Path) -> None:
    world = World()
    world.device("a")
    world.job(0.0, "wide", AllDevices(), label="any", demand=1, rounds=1)
    world.check_in(1.0, "a")
    lease = world.lease(1.0, "a", world.open(1.0, "wide", 1))
    world.hear(2.0, past.TimePassed(), end(int(lease.lease), LeaseEnd.EXPIRED))
    world.respond(2.5, lease)
    assert check(world, tmp_path).findings == ()


@pytest.mark.parametrize(("repeat", "expected"), [(Repeat.ONCE, {"REPEATED"}), (Repeat.ALLOW, set())])
def test_a_device_that_counts_twice_in_a_round_is_found(tmp_path: Path, repeat: Repeat, expected: set[str]) -> None:
    world = World()
    world.device("a")
    world.job(0.0, "wide", AllDevices(), label="any", demand=2, rounds=1, repeat=repeat)
    world.check_in(1.0, "a")
    attempt = world.open(1.0, "wide", 1)
    for t in (2.0, 3.0):
        world.respond(t + 0.5, world.lease(t, "a", attempt))
    assert kinds(check(world, tmp_path)) == expected


def test_a_device_may_count_in_an_attempt_and_in_the_one_after_it(tmp_path: Path) -> None:
    world = World()
    for name in "ab":
        world.device(name)
    world.job(0.0, "wide", AllDevices(), label="any", demand=2, rounds=1)
    world.check_in(1.0, "a")
    world.check_in(1.0, "b")
    aborted = world.open(1.0, "wide", 1)
    world.respond(2.5, world.lease(2.0, "a", aborted))
    world.abort(16.0, aborted)
    retry = world.open(16.0, "wide", 1, 2)
    for t, device in ((17.0, "a"), (18.0, "b")):
        world.respond(t + 0.5, world.lease(t, device, retry))
    assert check(world, tmp_path).findings == ()


def test_every_single_manifest_line_is_missed(tmp_path: Path) -> None:
    """The log that decides what is in the model: no line of it can vanish unseen."""
    world = ContendedRun(devices=30).run()
    for job in world.specs:
        lines = world.logs[f"jobs/{job}/manifest"]
        closed = {(row["round"], row["attempt"]) for row in lines if row.get("status") == "closed"}
        for index in range(0, len(lines), 7):
            world.logs[f"jobs/{job}/manifest"] = lines[:index] + lines[index + 1 :]
            found = check(world, tmp_path / f"{job}-{index}")
            gone = lines[index]
            assert found.findings, gone
            if gone.get("outcome", "counted") == "counted" and (gone["round"], gone["attempt"]) in closed:
                assert found.lost >= 1
                assert "RESPONSE_LOST" in kinds(found)
        world.logs[f"jobs/{job}/manifest"] = lines


def drop_sum(world: World) -> None:
    rows = world.logs["jobs/wide/manifest"]
    rows[:] = [row for row in rows if row.get("status") != "closed"]


def lease_out_of_sum(world: World) -> None:
    row = next(row for row in world.logs["jobs/wide/manifest"] if row.get("status") == "closed")
    row["leases"] = row["leases"][:-1]  # type: ignore[index]


def lease_twice_in_sum(world: World) -> None:
    row = next(row for row in world.logs["jobs/wide/manifest"] if row.get("status") == "closed")
    row["leases"] = [*row["leases"], row["leases"][0]]  # type: ignore[index, misc]


def other_bytes(world: World) -> None:
    world.logs["devices/swarm/receipts"][0]["digest"] = "00" * 32


def other_outcome(world: World) -> None:
    world.logs["devices/swarm/receipts"][0]["outcome"] = "straggler"


def other_device(world: World) -> None:
    world.logs["devices/swarm/receipts"][0]["device"] = "c"


def decided_for_another(world: World) -> None:
    world.logs["jobs/wide/manifest"][0]["device"] = "c"


def unknown_lease(world: World) -> None:
    row = dict(world.logs["jobs/wide/manifest"][0], lease=999)
    world.logs["jobs/wide/manifest"].append(row)


def decided_twice(world: World) -> None:
    world.logs["jobs/wide/manifest"].append(dict(world.logs["jobs/wide/manifest"][0], outcome="straggler"))


def another_status(world: World) -> None:
    row = next(row for row in world.logs["jobs/wide/manifest"] if row.get("status") == "aborted")
    row["status"] = "closed"


def closed_alone(world: World) -> None:
    world.log("jobs/wide", "manifest", kind="attempt", round=2, attempt=1, status="closed", leases=[])


def ended_twice(world: World) -> None:
    world.hear(31.0, past.TimePassed(), end(1, LeaseEnd.EXPIRED))


def never_granted(world: World) -> None:
    world.hear(31.0, past.TimePassed(), end(77, LeaseEnd.EXPIRED))


def two_leases(world: World) -> None:
    world.check_in(32.0, "a")
    attempt = world.open(33.0, "wide", 2)
    world.lease(34.0, "a", attempt)
    world.lease(35.0, "a", attempt)


def too_many(world: World) -> None:
    world.check_in(32.0, "c")
    world.check_in(32.0, "a")
    attempt = world.open(33.0, "narrow", 2)
    world.lease(34.0, "a", attempt)
    world.lease(35.0, "c", attempt)


def ineligible(world: World) -> None:
    world.check_in(32.0, "a")  # has 2 GB, where 4 GB are required
    world.lease(34.0, "a", world.open(33.0, "narrow", 2))


def leaked(world: World) -> None:
    world.check_in(32.0, "a")
    world.lease(34.0, "a", world.open(33.0, "wide", 2))  # and wide is finished


def end(lease: int, reason: LeaseEnd) -> done.EndLease:
    return done.EndLease(LeaseSeq(lease), DeviceId("b"), RequestId(1), JobId("me/wide/r1"), 1, 1, reason)


@pytest.mark.parametrize(
    ("plant", "kind", "lost"),
    [
        (drop_sum, "NO_SUM", 2),
        (lease_out_of_sum, "OTHER_SUM", 1),
        (lease_twice_in_sum, "COUNTED_TWICE", 0),
        (other_bytes, "OTHER_RESPONSE", 0),
        (other_outcome, "OTHER_OUTCOME", 0),
        (other_device, "UNKNOWN_RECEIPT", 0),
        (decided_for_another, "OTHER_LEASE", 0),
        (unknown_lease, "NEVER_GRANTED", 0),
        (decided_twice, "DECIDED_TWICE", 0),
        (another_status, "OTHER_STATUS", 0),
        (closed_alone, "NOT_CLOSED", 0),
        (ended_twice, "ENDED_TWICE", 0),
        (never_granted, "NEVER_GRANTED", 0),
        (two_leases, "TWO_LEASES", 0),
        (too_many, "TOO_MANY_LEASES", 0),
        (ineligible, "INELIGIBLE", 0),
        (leaked, "LEAKED", 0),
    ],
)
def test_a_planted_fault_is_found(
    world: World, tmp_path: Path, plant: Callable[[World], None], kind: str, lost: int
) -> None:
    plant(world)
    found = check(world, tmp_path)
    assert kind in kinds(found)
    assert found.lost == lost


def test_what_was_acknowledged_before_a_run_was_killed_is_pending_and_not_lost(tmp_path: Path) -> None:
    world = World()
    for device in ("a", "b"):
        world.device(device, cpu=1.0)
        world.check_in(1.0, device)
    world.job(2.0, "one", AllDevices(), label="any", demand=2, rounds=3)
    attempt = world.open(3.0, "one", 1)
    world.respond(5.0, world.lease(4.0, "a", attempt))
    last = world.lease(5.0, "b", attempt)
    found = audit(load_run(world.write(tmp_path / "open", digest=None)))
    assert (found.responses, found.pending, found.lost, found.findings) == (1, 1, 0, ())
    world.respond(6.0, last)
    world.logs["jobs/one/manifest"].pop()  # closed, and the driver was killed before it wrote that down
    found = audit(load_run(world.write(tmp_path / "closed", digest=None)))
    assert (found.responses, found.pending, found.lost, found.findings) == (2, 2, 0, ())
    world.finish(7.0, "one")  # a finished job has no such excuse
    found = audit(load_run(world.write(tmp_path / "finished")))
    assert (found.pending, found.lost) == (0, 2)


def test_receipts_of_an_earlier_coordinator_are_not_ours(world: World, tmp_path: Path) -> None:
    receipts = world.logs["devices/swarm/receipts"]
    receipts.append(dict(receipts[0], lease=500, incarnation=1))
    assert check(world, tmp_path).findings == ()


def test_a_repeated_receipt_is_what_the_first_one_said(world: World, tmp_path: Path) -> None:
    receipts = world.logs["devices/swarm/receipts"]
    receipts[0] = dict(receipts[0], outcome="duplicate", first_outcome="counted")
    found = check(world, tmp_path)
    assert found.findings == ()
    assert found.responses == 4
