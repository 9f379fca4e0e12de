"""The shell around the engine: what is recorded before what leaves, and one timer."""

import asyncio
import errno
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from coordinator.engine.effects import Effect, ResumeJob, RunLease
from coordinator.engine.engine import Engine
from coordinator.engine.events import DeviceHeard, DriverFollowed, Event, TimePassed, TurnEnded
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, SessionSeq
from coordinator.engine.model import EngineSettings
from coordinator.service.facts import DriverAt, Fact
from coordinator.service.host import Host
from coordinator.service.journal import RESERVE_BYTES, Journal, Start
from coordinator.service.sealed import unseal
from venn.wire.errors import PeerError


class ObedientEngine:
    """Answers every event with one effect, and wants to be called at ``deadline``."""

    def __init__(self) -> None:
        self.events: list[tuple[float, Event]] = []
        self.deadline: float | None = None
        self.broken = self.unsettled = False
        self.now = 0.0

    def handle(self, event: Event, now: float) -> list[Effect]:
        if self.broken:
            raise RuntimeError("a bug of ours")
        self.events.append((now, event))
        if isinstance(event, TimePassed):
            self.deadline = None
        self.unsettled = isinstance(event, DriverFollowed)
        return [RunLease(LeaseSeq(len(self.events)), DeviceId("phone-1"))]

    def next_deadline(self, until: float = math.inf) -> float | None:
        return self.deadline


class Recorder:
    """A journal that says when it was flushed, and may have no space."""

    def __init__(self, said: list[str]) -> None:
        self.said, self.full, self.is_long = said, False, False

    def append(self, now: float, event: Event, effects: list[Effect]) -> None:
        self.said.append("append")

    def note(self, now: float, fact: Fact) -> None:
        self.said.append("note")

    def flush(self) -> None:
        if self.full:
            raise PeerError("OUT_OF_SPACE", "no space is left on the disk")
        self.said.append("flush")

    def close(self) -> None:
        self.said.append("close")


class Timers:
    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def call_later(self, delay: float, call: Callable[[], None]) -> "Timers":
        self.set.append((delay, call))
        return self

    def cancel(self) -> None:
        self.cancelled += 1


class Bench:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.time = 0.0
        self.engine, self.journal, self.timers = ObedientEngine(), Recorder(self.said), Timers()
        self.host = Host(
            cast(Engine, self.engine),
            clock=lambda: self.time,
            wall_ms=1_000_000,
            incarnation=1_000_000,
            call_later=self.timers.call_later,
            journal=cast(Journal, self.journal),
        )
        self.host.listen(RunLease, lambda now, effect: self.said.append(f"lease {effect.lease}"))


async def turn() -> None:
    await asyncio.sleep(0)


HEARD = DeviceHeard(SessionSeq(1))


async def test_a_turn_is_recorded_once_and_before_its_effects_leave() -> None:
    bench = Bench()
    bench.host.handle(HEARD, lambda effects: bench.said.append("recorded"))
    bench.host.handle(HEARD)
    assert bench.said == ["append", "append"]
    await turn()
    assert bench.said == ["append", "append", "flush", "recorded", "lease 1", "lease 2"]


async def test_the_engine_plans_once_for_all_events_of_a_turn() -> None:
    bench = Bench()
    followed = DriverFollowed(JobId("ann/digits/1"), 1)
    for _ in range(3):
        bench.host.handle(followed)
    assert [event for _, event in bench.engine.events] == [followed] * 3
    await turn()
    assert [event for _, event in bench.engine.events] == [followed] * 3 + [TurnEnded()]
    assert bench.said == ["append"] * 4 + ["flush", *(f"lease {number}" for number in (1, 2, 3, 4))]
    await bench.host.ask(HEARD)
    assert [event for _, event in bench.engine.events[4:]] == [HEARD]  # there was nothing to plan for


async def test_an_answer_comes_after_the_record() -> None:
    bench = Bench()
    effects = await bench.host.ask(HEARD)
    assert effects == [RunLease(LeaseSeq(1), DeviceId("phone-1"))]
    assert "flush" in bench.said


AT = DriverAt(JobId("ann/digits/1"), "127.0.0.1:1", 1)


async def test_the_facts_of_an_event_are_recorded_with_it_and_before_its_effects_leave() -> None:
    bench = Bench()
    effects = await bench.host.ask(HEARD, lambda made: [AT for effect in made if isinstance(effect, RunLease)])
    assert effects == [RunLease(LeaseSeq(1), DeviceId("phone-1"))]
    assert bench.said == ["append", "note", "flush", "lease 1"]
    assert list(bench.host.facts) == [AT]


async def test_a_fact_is_recorded_before_its_keeper_goes_on() -> None:
    bench = Bench()
    await bench.host.keep(AT)
    assert (bench.said, list(bench.host.facts)) == (["note", "flush"], [AT])
    assert bench.engine.events == []


async def test_events_of_listeners_are_the_next_turn() -> None:
    bench = Bench()
    bench.host.listen(RunLease, lambda now, effect: bench.host.handle(HEARD) if effect.lease == LeaseSeq(1) else None)
    bench.host.handle(HEARD)
    await turn()
    assert bench.said == ["append", "flush", "lease 1", "append"]
    await turn()
    assert bench.said[4:] == ["flush", "lease 2"]


async def test_time_never_goes_back() -> None:
    bench = Bench()
    bench.time = 5.0
    await bench.host.ask(HEARD)
    bench.time = 4.0
    await bench.host.ask(HEARD)
    assert [now for now, _ in bench.engine.events] == [5.0, 5.0]


async def test_events_of_a_turn_happen_at_once_and_its_plan_when_it_ends() -> None:
    bench = Bench()
    followed = DriverFollowed(JobId("ann/digits/1"), 1)
    for bench.time in (5.0, 6.0):
        bench.host.handle(followed)
    bench.time = 7.0
    await turn()
    await bench.host.ask(HEARD)
    assert bench.engine.events == [(5.0, followed), (5.0, followed), (7.0, TurnEnded()), (7.0, HEARD)]


async def test_one_timer_wakes_the_engine_at_its_deadline() -> None:
    bench = Bench()
    bench.engine.deadline = 3.0
    await bench.host.ask(HEARD)
    ((delay, fire),) = bench.timers.set
    assert delay == 3.0
    bench.engine.deadline = 8.0  # has moved on: no new timer
    await bench.host.ask(HEARD)
    assert len(bench.timers.set) == 1
    bench.time = 3.0
    fire()  # too early: set again
    assert [delay for delay, _ in bench.timers.set] == [3.0, 5.0]
    bench.time = 8.0
    bench.timers.set[1][1]()
    assert bench.engine.events[-1] == (8.0, TimePassed())


async def test_an_earlier_deadline_replaces_the_timer() -> None:
    bench = Bench()
    bench.engine.deadline = 9.0
    await bench.host.ask(HEARD)
    bench.engine.deadline = 2.0
    await bench.host.ask(HEARD)
    assert [delay for delay, _ in bench.timers.set] == [9.0, 2.0]
    assert bench.timers.cancelled == 1


async def test_nothing_happens_while_the_disk_is_full_and_all_of_it_once_there_is_space() -> None:
    bench, changes = Bench(), list[bool]()
    bench.host.watch_space(changes.append)
    bench.journal.full = True
    bench.host.handle(HEARD)
    await turn()
    bench.host.handle(DriverFollowed(JobId("ann/digits/1"), 1))
    bench.host.note(AT)
    await turn()
    assert (bench.said, bench.host.full, changes) == (["append"], True, [True])
    assert [event for _, event in bench.engine.events] == [HEARD]
    ((delay, retry),) = bench.timers.set
    retry()
    assert bench.host.full
    bench.journal.full, bench.time = False, delay
    bench.timers.set[-1][1]()
    await turn()
    assert (bench.host.full, changes) == (False, [True, False])
    assert bench.said[1:] == ["flush", "lease 1", "append", "note", "append", "flush", "lease 2", "lease 3"]


async def test_a_timer_that_fires_while_the_disk_is_full_is_set_again() -> None:
    bench = Bench()
    bench.engine.deadline = 3.0
    await bench.host.ask(HEARD)
    bench.journal.full = True
    bench.host.handle(HEARD)
    await turn()
    bench.time = 3.0
    bench.timers.set[0][1]()
    assert len(bench.engine.events) == 2
    bench.journal.full = False
    bench.timers.set[1][1]()
    await turn()
    assert bench.timers.set[2][0] < 0.01
    bench.timers.set[2][1]()
    assert bench.engine.events[-1] == (3.0, TimePassed())


async def test_a_disk_that_stays_full_to_the_end_is_an_error_then() -> None:
    bench = Bench()
    bench.journal.full = True
    bench.host.handle(HEARD)
    await turn()
    bench.host.close()
    with pytest.raises(PeerError, match="no space"):
        bench.host.failure.result()
    assert bench.said == ["append"]


async def test_a_bug_of_the_engine_stops_the_coordinator_and_not_a_peer() -> None:
    bench = Bench()
    bench.engine.broken = True
    bench.host.handle(HEARD)
    with pytest.raises(RuntimeError):
        bench.host.failure.result()


async def test_closing_records_the_last_turn() -> None:
    bench = Bench()
    bench.host.handle(HEARD)
    bench.host.close()
    assert bench.said == ["append", "flush", "lease 1", "flush", "close"]
    assert bench.host.failure.cancelled()


async def test_listeners_hear_their_kind_only() -> None:
    bench = Bench()
    heard: list[Effect] = []
    bench.host.listen(ResumeJob, lambda now, effect: heard.append(effect))
    await bench.host.ask(HEARD)
    assert not heard


class FullFile:
    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: Any) -> int:
        if self._room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._file.write(data[: self._room])
        self._room -= written
        return int(written)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def seek(self, place: int) -> None:
        self._file.seek(place)


def test_a_full_disk_leaves_whole_turns_only(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    settings = EngineSettings(seed=1, policy="fifo")
    journal = Journal(path, Start(settings, incarnation=1, wall_ms=1, name="", software="1"))
    journal.append(0.5, HEARD, [])
    journal.flush()
    whole = path.read_bytes()
    file = journal._file
    journal._file = FullFile(file, 10)  # type: ignore[assignment]
    journal.append(0.75, HEARD, [])
    with pytest.raises(PeerError) as caught:
        journal.flush()
    assert caught.value.reason == "OUT_OF_SPACE"
    assert path.read_bytes() == whole
    journal._file = file
    journal.flush()
    assert path.read_bytes().startswith(whole)
    assert unseal(path.read_bytes()).torn == 0
    assert len(path.read_bytes().splitlines()) == 3
    file.close()


def test_room_is_reserved_for_what_is_to_be_synced_and_given_back(tmp_path: Path) -> None:
    path, settings = tmp_path / "events.jsonl", EngineSettings(seed=1, policy="fifo")
    journal = Journal(path, Start(settings, incarnation=1, wall_ms=1, name="", software="1"), reserves=True)
    assert path.stat().st_size == RESERVE_BYTES
    journal.append(0.5, HEARD, [])
    journal.flush()
    journal.sync()
    assert path.stat().st_size == RESERVE_BYTES
    assert len(unseal(path.read_bytes()).bodies) == 2
    journal.close()
    assert path.read_bytes().count(b"\0") == 0
    assert len(path.read_bytes().splitlines()) == 3
