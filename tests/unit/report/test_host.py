import json
from pathlib import Path

import pytest

from coordinator.engine import events as past
from coordinator.engine.ids import LeaseSeq, SessionSeq
from coordinator.engine.model import Outcome
from device_agent.activity import LOAD_S
from testbed.report.host import judge_host, stall_line
from testbed.report.record import load_run
from testbed.runfolder.summary import HostSummary
from tests.unit.report.world import World, unix

JOBS = {"wide": (0.0, 100.0), "narrow": (0.0, 10.0)}


def judged(world: World, folder: Path) -> HostSummary:
    return judge_host(load_run(world.write(folder)), (0.0, 100.0), JOBS)


def test_a_quiet_host_can_be_trusted(tmp_path: Path) -> None:
    world = World()
    for second in range(20):
        world.busy(second, 0.84 if second % 2 else 0.2, lag_s=0.049)
    found = judged(world, tmp_path)
    assert (found.saturated, found.cpu_max, found.lag_p99_max_s) == (False, 0.84, {"coordinator": 0.049})
    assert found.cpu_mean == pytest.approx(0.52)


@pytest.mark.parametrize(("busy_for", "saturated"), [(4, False), (5, True), (9, True)])
def test_busy_means_for_five_seconds(tmp_path: Path, busy_for: int, saturated: bool) -> None:
    world = World()
    for second in range(20):
        world.busy(second, 0.95 if 5 <= second < 5 + busy_for else 0.3)
    assert judged(world, tmp_path).saturated is saturated


def stalling(world: World, place: str, *stalls: tuple[float, float]) -> None:
    """Recorded samples of a process: each stall by its end, on the run's clock, and its length in seconds."""
    for end, late in stalls:
        world.log(place, "load", at=unix(end + 0.5), lag_p99_s=late, stalls=[[unix(end), late]])


def test_one_stall_touches_the_jobs_that_were_open_and_is_told_apart_from_a_busy_machine(tmp_path: Path) -> None:
    world = World()
    stalling(world, ".", (5.0, 0.09), (40.0, 0.4))
    found = judged(world, tmp_path)
    assert (found.saturated, found.reasons) == (False, ())
    assert [(stall.process, stall.jobs) for stall in found.stalls] == [
        ("coordinator", ("wide", "narrow")),
        ("coordinator", ("wide",)),
    ]
    assert [(stall.at_s, stall.for_s) for stall in found.stalls] == [
        (pytest.approx(4.91, abs=1e-6), 0.09),
        (pytest.approx(39.6, abs=1e-6), 0.4),
    ]
    assert found.stalled_s == {"wide": pytest.approx(0.49), "narrow": pytest.approx(0.09)}
    assert stall_line(found) == (
        "2 stalls of our processes, the longest coordinator at 39.6 s for 400 ms; "
        "touched: wide by at most 0.49 s, narrow by at most 0.09 s"
    )


def test_a_stall_disqualifies_only_what_it_touched_by_too_much(tmp_path: Path) -> None:
    world = World()
    stalling(world, ".", (5.0, 0.3))
    [reason] = judged(world, tmp_path).reasons
    assert reason == (
        "processes stalled for 0.3 s of the 10.0 s of narrow (the limit is 1%); "
        "the longest was coordinator at 4.7 s for 0.30 s: run it again, or make the job longer"
    )


def test_a_driver_that_stalls_touches_its_own_job(tmp_path: Path) -> None:
    world = World()
    stalling(world, "jobs/wide", (5.0, 0.3))
    found = judged(world, tmp_path)
    assert (found.saturated, found.stalled_s) == (False, {"wide": pytest.approx(0.3)})


def test_stalls_at_the_same_time_count_once(tmp_path: Path) -> None:
    world = World()
    for place in (".", "devices/swarm", "jobs/wide"):
        stalling(world, place, (50.0, 0.6))
    assert judged(world, tmp_path).stalled_s == {"wide": pytest.approx(0.6)}


def test_a_process_that_stalls_again_and_again_is_a_busy_machine(tmp_path: Path) -> None:
    world = World()
    stalling(world, ".", (20.0, 0.06), (21.5, 0.08), (24.9, 0.06), (60.0, 0.06))
    [reason] = judged(world, tmp_path).reasons
    assert reason.startswith("coordinator stalled repeatedly between 19.9 s and 24.9 s, 0.2 s in all: run fewer")
    world = World()
    stalling(world, ".", (20.0, 0.06), (21.5, 0.08), (25.1, 0.06))
    assert judged(world, tmp_path / "apart").reasons == ()


def test_a_stall_beyond_a_second_disqualifies_however_long_the_job_is(tmp_path: Path) -> None:
    world = World()
    stalling(world, ".", (50.0, 1.2))
    found = judge_host(load_run(world.write(tmp_path)), (0.0, 1000.0), {"wide": (0.0, 1000.0)})
    [reason] = found.reasons
    assert reason.startswith("coordinator stalled for 1.2 s at 48.8 s (the limit is 1 s: time-outs may have run out)")


def test_when_the_processor_was_busy_is_said_with_what_to_do(tmp_path: Path) -> None:
    world = World()
    for second in range(30):
        world.busy(float(second), 0.95 if 5 <= second < 12 else 0.3)
    [reason] = judged(world, tmp_path).reasons
    assert reason.startswith(
        "the processor was over 85% busy for 7 s between 4 s and 11 s (the limit is 5 s): run fewer"
    )


def test_what_is_judged_ends_with_the_last_job(tmp_path: Path) -> None:
    """While parts are being stopped everything may be late."""
    world = World()
    for second in range(101, 120):
        world.busy(float(second), 0.99)
    stalling(world, ".", (101.0, 0.4), (101.5, 0.4), (102.0, 2.0))
    for lease in range(1, 101):
        late_s = 0.5 if lease > 95 else 0.0
        at = 101.0 if lease > 95 else 1.0
        world.hear(at, past.TaskFinished(SessionSeq(1), LeaseSeq(lease), Outcome.COUNTED, 1.0, late_s))
    found = judged(world, tmp_path)
    assert (found.saturated, found.late_fraction, found.stalls) == (False, 0.0, ())


def test_what_happened_outside_of_the_run_does_not_count(tmp_path: Path) -> None:
    world = World()
    for second in range(200, 220):
        world.busy(second, 0.99, lag_s=0.5)
    found = judged(world, tmp_path)
    assert (found.saturated, found.cpu_max) == (False, None)


def test_late_tasks_count_by_their_share(tmp_path: Path) -> None:
    world = World()
    for lease in range(1, 101):
        late_s = 0.5 if lease <= 3 else 0.0
        world.hear(1.0, past.TaskFinished(SessionSeq(1), LeaseSeq(lease), Outcome.COUNTED, 1.0, late_s))
    found = judged(world, tmp_path)
    assert (found.late_fraction, found.saturated) == (0.03, True)


def test_a_machine_that_was_too_small_is_not_called_busy(tmp_path: Path) -> None:
    world = World()
    world.about["too_small"] = ["this machine is too small: 99 programs share 2 cores"]
    found = judged(world, tmp_path)
    assert (found.saturated, found.too_small) == (False, ("this machine is too small: 99 programs share 2 cores",))


def test_what_was_made_to_stand_still_is_late_on_purpose(tmp_path: Path) -> None:
    world = World()
    world.busy(1.0, 0.2, lag_s=0.012)
    at = world.about.get("at", 1_700_000_002.0)
    world.log("devices/bench-01", "load", at=at, lag_p99_s=3.9, stalls=[[at, 3.9]])
    world.log("jobs/wide", "load", at=at, lag_p99_s=2.0, stalls=[[at, 2.0]])
    folder = world.write(tmp_path)
    rows = [{"verb": "suspend", "target": target, "at": at} for target in ("bench-01", "driver wide")]
    (folder / "churn.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = judge_host(load_run(folder), (0.0, 100.0), JOBS)
    assert (found.saturated, found.lag_p99_max_s) == (False, {"coordinator": 0.012})


@pytest.mark.parametrize(("ready", "reasons"), [(-1.0, 0), (2.5, 1)])
def test_devices_are_there_before_the_first_job(tmp_path: Path, ready: float, reasons: int) -> None:
    world = World()
    world.log("devices/early", "load", at=unix(-0.5), lag_p99_s=0.0)
    world.log("devices/swarm", "load", at=unix(ready + LOAD_S), lag_p99_s=0.0)
    found = judged(world, tmp_path)
    assert len(found.reasons) == reasons
    said = "1 of 2 programs with devices were ready only after the first job had come, swarm 2.5 s after it"
    assert all(reason.startswith(said) for reason in found.reasons)
