"""A journal written as the coordinator writes it, by a real engine; replayed, and spoilt."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.engine import Engine
from coordinator.engine.ids import DeviceId, JobId, SessionSeq
from coordinator.engine.model import EngineSettings, JobSpec, Outcome
from coordinator.engine.requirements import AllDevices, Capabilities
from coordinator.policies.registry import load_policy
from coordinator.service.journal import Journal, Start
from coordinator.service.sealed import seal
from testbed.report.replay import describe, replay, replay_here
from testbed.runfolder.journal import read_journal
from venn.wire.errors import UsageError

JOB = JobId("me/one/r1")
SPEC = JobSpec(JOB, AllDevices(), "any", 2, 2, Fraction(1), Fraction(0), 15.0, 15.0)


class Live:
    """An engine and its journal."""

    def __init__(self, folder: Path) -> None:
        settings = EngineSettings(seed=7, policy="random")
        self.now = 0.0
        self.engine = Engine(settings, load_policy("random"))
        start = Start(settings, incarnation=9, wall_ms=1000, name="x", software="0")
        self.journal = Journal(folder / "events.jsonl", start)

    def hear(self, event: past.Event) -> list[done.Effect]:
        self.now += 1 / 7
        effects = self.engine.handle(event, self.now)
        self.journal.append(self.now, event, effects)
        return effects + self.hear(past.TurnEnded()) if self.engine.unsettled else effects

    def play(self) -> None:
        self.hear(past.JobSubmitted(SPEC, 1))
        self.hear(past.DriverFollowed(JOB, 1))
        for index in range(6):
            capabilities = Capabilities({"cpu": 1.0 + index / 3})
            self.hear(past.DeviceCheckedIn(SessionSeq(index + 1), DeviceId(f"d{index}"), "aa" * 16, 1, capabilities))
        for number in (1, 2):
            effects = self.hear(past.AttemptOpened(JOB, 1, number, 1, 3 - number))
            for offer in [effect for effect in effects if isinstance(effect, done.OfferLease)]:
                self.hear(past.LeaseAccepted(offer.session, offer.lease))
                self.hear(past.ResponsesRecorded(JOB, 1, number, 1, ((offer.lease, Outcome.COUNTED),)))
                self.hear(past.TaskFinished(offer.session, offer.lease, Outcome.COUNTED))
            self.engine.set_policy(load_policy("fifo"))
            self.hear(past.PolicyChanged("fifo"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    live = Live(tmp_path)
    try:
        live.play()
    finally:
        live.journal.close()
    return tmp_path


def spoil(folder: Path, line: int, change: dict[str, object]) -> None:
    """Change a line, with checksums that fit."""
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines()
    lines[line] = json.dumps({**json.loads(lines[line]), **change})
    rows = [json.loads(one) for one in lines]
    sealed, _ = seal((json.dumps({key: row[key] for key in row if key != "crc"}) for row in rows), 0)
    path.write_bytes(sealed)


def granting_line(folder: Path) -> int:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return next(index for index, line in enumerate(lines) if "OfferLease" in line)


def test_a_fresh_process_with_another_hash_seed_decides_the_same(folder: Path) -> None:
    found = replay(folder)
    assert found.same
    assert found.difference is None
    assert (found.digest, found.events) == (found.recorded_digest, 43)
    assert found.hash_seed.isdecimal()


def test_the_first_difference_is_shown(folder: Path) -> None:
    line = granting_line(folder)
    effects = json.loads((folder / "events.jsonl").read_text().splitlines()[line])["effects"]
    spoil(folder, line, {"effects": effects[:-1]})
    found = replay_here(folder / "events.jsonl")
    assert not found.same
    assert found.difference is not None
    assert found.difference.line == line + 1
    said = list(describe(found.difference))
    assert said[0].startswith("first difference at event")
    assert len([each for each in said if each.startswith("  again")]) == 1


def test_another_digest_is_a_difference_too(folder: Path) -> None:
    spoil(folder, -1, {"digest": "0" * 16})
    found = replay_here(folder / "events.jsonl")
    assert found.difference is None
    assert not found.same


def test_a_run_that_was_killed_is_compared_as_far_as_it_goes(folder: Path) -> None:
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-60])
    found = replay_here(path)
    assert found.same
    assert found.recorded_digest == ""


def test_what_cannot_be_replayed_says_why(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no events"):
        replay(tmp_path / "nowhere.jsonl")
    line = granting_line(folder)
    spoil(folder, line, {"event": ["Nonsense"]})
    with pytest.raises(UsageError, match=rf"events\.jsonl:{line + 1}"):
        replay_here(folder / "events.jsonl")
    start = json.loads((folder / "events.jsonl").read_text().splitlines()[0])
    spoil(folder, 0, {"settings": {**start["settings"], "policy": "of-mine"}})
    with pytest.raises(UsageError, match="of-mine"):
        replay(folder)


@pytest.mark.parametrize("instead", [[], ['{"n": 1}']])
def test_a_journal_with_a_hole_is_damaged(folder: Path, instead: list[str]) -> None:
    """An event without effects would leave no trace in the digest."""
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines()
    lines[5:6] = instead
    path.write_text("\n".join(lines) + "\n")
    for read in (replay_here, read_journal):
        with pytest.raises(UsageError, match="a line before it is missing") as error:
            read(path)
        assert error.value.where == f"{path}:6"
