import json
from pathlib import Path

import pytest

from coordinator.engine import events as past
from coordinator.engine.ids import LeaseSeq, SessionSeq
from coordinator.engine.model import Outcome
from device_agent.journal import LOAD_S
from testbed.report.hostload import HostSummary, judge_host
from testbed.report.record import load_run
from tests.unit.report.world import World, unix


def judged(world: World, folder: Path) -> HostSummary:
    return judge_host(load_run(world.write(folder)), (0.0, 100.0))


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


def test_a_late_event_loop_is_named(tmp_path: Path) -> None:
    world = World()
    world.busy(1.0, 0.2, lag_s=0.012)
    world.log("devices/swarm", "load", at=world.about.get("at", 1_700_000_002.0), lag_p99_s=0.08)
    found = judged(world, tmp_path)
    assert found.saturated
    assert "devices swarm" in found.reasons[0]
    assert "80 ms" in found.reasons[0]


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
    world.log("devices/bench-01", "load", at=at, lag_p99_s=3.9)
    world.log("jobs/wide", "load", at=at, lag_p99_s=2.0)
    folder = world.write(tmp_path)
    rows = [{"verb": "suspend", "target": target, "at": at} for target in ("bench-01", "driver wide")]
    (folder / "churn.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = judge_host(load_run(folder), (0.0, 100.0))
    assert (found.saturated, found.lag_p99_max_s) == (False, {"coordinator": 0.012})


@pytest.mark.parametrize(("ready", "reasons"), [(-1.0, 0), (2.5, 1)])
def test_devices_are_there_before_the_first_job(tmp_path: Path, ready: float, reasons: int) -> None:
    world = World()
    world.log("devices/early", "load", at=unix(-0.5), lag_p99_s=0.0)
    world.log("devices/swarm", "load", at=unix(ready + LOAD_S), lag_p99_s=0.0)
    found = judged(world, tmp_path)
    assert len(found.reasons) == reasons
    said = "1 of 2 programs with devices were ready only after the first job had come, swarm 2.5 s after it"
    assert all(reason == said for reason in found.reasons)
