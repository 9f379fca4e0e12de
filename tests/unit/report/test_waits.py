from pathlib import Path

import pytest

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.requirements import AllDevices, Comparison
from testbed.report.journal import read_journal
from testbed.report.story import Story, tell
from testbed.report.waits import NO_DEVICE, waits
from tests.unit.report.world import World

BIG = Comparison("memory", ">=", 4.0)


def story_of(world: World, folder: Path) -> Story:
    return tell(read_journal(world.write(folder) / "events.jsonl"))


@pytest.fixture
def crowded() -> World:
    """``first`` takes two big devices before ``second`` gets one; a small one is of no use to ``second``."""
    world = World()
    for name, memory in (("big-1", 8.0), ("big-2", 8.0), ("big-3", 8.0), ("small", 1.0)):
        world.device(name, memory=memory)
        world.check_in(0.0, name)
    world.job(0.0, "first", AllDevices(), label="any", demand=3, rounds=1)
    world.job(0.0, "second", BIG, label="big", demand=1, rounds=1)
    first, second = world.open(1.0, "first", 1), world.open(1.0, "second", 1)
    world.lease(2.0, "big-1", first)
    world.lease(3.0, "small", first)
    world.lease(5.0, "big-2", first)
    world.lease(9.0, "big-3", second)
    return world


def test_every_second_goes_to_what_ended_it(crowded: World, tmp_path: Path) -> None:
    found = waits(story_of(crowded, tmp_path))
    assert found["second"] == {"behind first": 1.0 + 3.0, NO_DEVICE: 4.0}
    assert found["first"] == {NO_DEVICE: 4.0}


def test_a_pause_is_its_own_reason(crowded: World, tmp_path: Path) -> None:
    job = crowded.specs["second"].job
    lines = crowded.lines
    crowded.lines = []
    crowded.hear(6.0, past.TimePassed(), done.PauseJob(job, "DRIVER_AWAY", ""))
    crowded.hear(8.0, past.TimePassed(), done.ResumeJob(job))
    pause, crowded.lines = crowded.lines, lines
    crowded.lines[-2:-2] = pause  # before the lease at 9
    found = waits(story_of(crowded, tmp_path))
    assert found["second"] == {"behind first": 4.0, "paused: DRIVER_AWAY": 2.0, NO_DEVICE: 2.0}


def test_of_an_attempt_that_never_fills_the_delay_runs_to_the_end(tmp_path: Path) -> None:
    world = World()
    world.device("only", memory=8.0)
    world.job(0.0, "one", AllDevices(), label="any", demand=2, rounds=1)
    world.open(1.0, "one", 1)
    world.check_in(11.0, "only")
    assert waits(story_of(world, tmp_path)) == {"one": {NO_DEVICE: 10.0}}
