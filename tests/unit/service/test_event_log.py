"""The live view's log: what becomes known later is added to a line, and what can become known no more is forgotten."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

from coordinator.engine import effects
from coordinator.engine.engine import Engine
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import AttemptEndReason, AttemptStatus, EngineSettings, LeaseEnd
from coordinator.policies.fifo import Fifo
from coordinator.service.event_log import EventLog
from coordinator.service.host import Host
from coordinator.service.jobs import Ledger

JOB = JobId("ann/digits/1")


class Bench:
    """Stands in for the host."""

    def __init__(self) -> None:
        self.engine = Engine(EngineSettings(seed=1, policy="fifo"), Fifo())
        self._listeners: defaultdict[type, list[Callable[[float, Any], None]]] = defaultdict(list)
        self.log = EventLog(cast(Host, self), Ledger(cast(Host, self)))

    def watch_space(self, changed: Callable[[bool], None]) -> None:
        self.space_changed = changed

    def listen(self, kind: type, listener: Callable[[float, Any], None]) -> None:
        self._listeners[kind].append(listener)

    def say(self, effect: effects.Effect) -> None:
        for listener in self._listeners[type(effect)]:
            listener(1.0, effect)

    def open(self, round_: int) -> None:
        opened = (RequestId(round_), JOB, round_, 1, AttemptStatus.OPEN, 1, 2, 60.0)
        self.say(effects.AcceptAttempt(*opened))

    def close(self, round_: int) -> None:
        ended = (RequestId(round_), JOB, round_, 1, AttemptStatus.CLOSED, AttemptEndReason.ENOUGH, 1)
        self.say(effects.EndAttempt(*ended))

    def offer(self, round_: int, lease: int, device: str) -> None:
        ids = (SessionSeq(lease), DeviceId(device), LeaseSeq(lease), RequestId(round_))
        self.say(effects.OfferLease(*ids, JOB, round_, 1, 60.0))

    def expire(self, round_: int, lease: int, device: str) -> None:
        ids = (LeaseSeq(lease), DeviceId(device), RequestId(round_))
        self.say(effects.EndLease(*ids, JOB, round_, 1, LeaseEnd.EXPIRED))

    def texts(self) -> list[str]:
        return [entry.text for entry in self.log.latest()]


def test_who_gets_a_lost_place_is_told() -> None:
    bench = Bench()
    bench.open(1)
    bench.offer(1, 1, "phone")
    bench.expire(1, 1, "phone")
    bench.offer(1, 2, "tablet")
    assert bench.texts() == ["phone in digits round 1: its lease ran out; its place went to tablet"]


def test_a_place_that_is_lost_after_the_close_waits_for_nobody() -> None:
    bench = Bench()
    for round_ in range(1, 101):
        bench.open(round_)
        bench.offer(round_, round_, "phone")
        bench.close(round_)
        bench.expire(round_, round_, "phone")
    assert bench.texts()[0] == "phone in digits round 100: its lease ran out"
    assert bench.log.awaited == 0
