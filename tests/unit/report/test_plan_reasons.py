"""The words of a run's plans, from its journal."""

from pathlib import Path

from coordinator.engine import events as past
from coordinator.engine.ids import JobId
from coordinator.engine.requirements import AllDevices
from testbed.report.explain import plan_reasons
from testbed.runfolder.journal import read_journal
from tests.unit.report.world import World

FIRST, SECOND = JobId("me/first/r1"), JobId("me/second/r1")


def contended(policy: str) -> World:
    """Two jobs for the same devices, of which one is there; the second one's request is the smaller."""
    world = World(policy)
    world.device("only")
    world.check_in(0.5, "only")
    for name, demand in (("first", 3), ("second", 1)):
        world.job(1.0, name, AllDevices(), label="any", demand=demand, rounds=1)
        world.hear(1.0, past.DriverFollowed(world.specs[name].job, 1))
        world.hear(2.0, past.AttemptOpened(world.specs[name].job, 1, 1, 1, 1))
        world.hear(2.0, past.TurnEnded())
    return world


def test_they_are_found_by_playing_the_journal_again(tmp_path: Path) -> None:
    world = contended("fifo")
    world.hear(7.0, past.PolicyChanged("srsf"))
    world.hear(7.0, past.TurnEnded())
    journal = read_journal(world.write(tmp_path) / "events.jsonl")
    assert plan_reasons(journal) == [
        (2.0, {SECOND: f"behind {FIRST}: its job arrived earlier"}),
        (7.0, {FIRST: f"behind {SECOND}: its request needs fewer devices"}),
    ]


def test_no_code_is_run_that_the_journal_names(tmp_path: Path) -> None:
    file = tmp_path / "evil.py"
    file.write_text("raise SystemExit('this must not run')")
    for name in (f"{file}:Evil", "nobody-knows-it"):
        journal = read_journal(contended(name).write(tmp_path / "run") / "events.jsonl")
        assert plan_reasons(journal) == []
