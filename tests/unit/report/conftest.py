"""Runs made by hand, written to a folder."""

from pathlib import Path

import pytest

from coordinator.engine.model import SessionEnd
from coordinator.engine.requirements import AllDevices, Comparison
from tests.unit.report.world import World


def small() -> World:
    """Two jobs, three devices: one round each, an abort, a straggler, a loss, a failure. Every number is known."""
    world = World()
    world.device("a", fleet="small", cpu=2.0, memory=2e9)
    world.device("b", fleet="large", cpu=8.0, memory=8e9)
    world.device("c", fleet="bench", process="c", cpu=8.0, memory=8e9)
    world.job(1.0, "wide", AllDevices(), label="any", demand=2, rounds=1)
    world.job(2.0, "narrow", Comparison("memory", ">=", 4e9), label="roomy", demand=1, rounds=1)
    for t, device in ((3.0, "a"), (3.5, "b"), (4.0, "c")):
        world.check_in(t, device)
    wide = world.open(5.0, "wide", 1)
    narrow = world.open(5.0, "narrow", 1)
    first = world.lease(6.0, "b", wide)
    second = world.lease(7.0, "a", wide)  # wide is full: delay 2 s
    third = world.lease(8.0, "c", narrow)  # narrow is full: delay 3 s
    world.leave(9.0, "c", SessionEnd.CONNECTION_ENDED)
    world.respond(10.0, first)
    world.fail(11.0, second, "ValueError: no <rows>")
    world.lose(12.0, third)
    world.abort(20.0, wide)
    world.abort(20.0, narrow)
    again = world.open(21.0, "wide", 1, attempt=2)
    world.respond(25.0, world.lease(22.0, "a", again))
    world.respond(26.0, world.lease(23.0, "b", again))  # wide is done: JCT 25 s
    world.metrics(again, accuracy=0.92)
    world.finish(26.0, "wide")
    last = world.open(27.0, "narrow", 1, attempt=2)
    late = world.lease(28.0, "b", last)
    world.respond(30.0, late)  # narrow is done: JCT 28 s
    world.finish(30.0, "narrow")
    world.leave(31.0, "a")
    world.about["expect"] = ["jobs.wide.accuracy >= 0.90", "responses_lost == 0"]
    return world


@pytest.fixture
def world() -> World:
    return small()


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    return world.write(tmp_path / "run")
