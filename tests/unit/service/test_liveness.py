"""Devices that say nothing: their sessions end, unless it was this process that did not listen."""

from typing import Any, cast

from coordinator.engine.engine import Engine
from coordinator.engine.ids import SessionSeq
from coordinator.engine.model import EngineSettings
from coordinator.policies.registry import load_policy
from coordinator.service.allowances import Allowance
from coordinator.service.host import Host
from coordinator.service.liveness import LivenessMonitor
from coordinator.service.sessions import Session
from testbed.testing.clock import FakeClock


class Bench:
    """Sessions by number, and those that fell silent."""

    def __init__(self, recovery_grace_s: float = 0.0, heartbeat_s: float = 3.0) -> None:
        self.time = FakeClock()
        settings = EngineSettings(seed=1, policy="fifo", recovery_grace_s=recovery_grace_s, heartbeat_s=heartbeat_s)
        self.host = Host(
            Engine(settings, load_policy("fifo")),
            clock=self.time,
            wall_ms=0,
            incarnation=1,
            call_later=self.time.call_later,
        )
        self.sessions: dict[SessionSeq, Session] = {}
        self.silent: list[tuple[float, int]] = []
        self.longer: dict[int, float] = {}  # how much longer than 10 s a session may be silent
        self.monitor = LivenessMonitor(self.host, settings, self.sessions, self._silent_at, self._fell_silent)

    def check_in(self, number: int) -> Session:
        session = Session(SessionSeq(number), cast(Any, None), Allowance(1, 1), Allowance(1, 1))
        session.open, session.heard_at = True, self.time.now
        self.sessions[session.seq] = session
        self.monitor.watch(session.seq)
        return session

    def _silent_at(self, session: Session) -> float:
        return session.heard_at + 10.0 + self.longer.get(session.seq, 0.0)

    def _fell_silent(self, session: Session) -> None:
        self.silent.append((self.time.now, session.seq))
        session.open = False


async def test_a_session_is_silent_a_liveness_interval_after_it_was_heard() -> None:
    bench = Bench()
    first, _ = bench.check_in(1), bench.check_in(2)
    await bench.time.advance(8.0)
    first.heard_at = 8.0
    await bench.time.advance(100.0)
    assert bench.silent == [(10.0, 2), (18.0, 1)]
    bench.check_in(3)
    await bench.time.advance(11.0)
    assert bench.silent[2:] == [(118.0, 3)]


async def test_a_session_that_is_closed_falls_not_silent() -> None:
    bench = Bench()
    bench.check_in(1).open = False
    bench.check_in(2)
    del bench.sessions[SessionSeq(2)]
    await bench.time.advance(20.0)
    assert bench.silent == []


async def test_after_a_start_nobody_is_silent_for_the_recovery_grace() -> None:
    bench = Bench(recovery_grace_s=20.0)
    bench.check_in(1)
    await bench.time.advance(30.0)
    assert bench.silent == [(20.0, 1)]


async def test_after_this_process_stood_still_silence_is_counted_anew() -> None:
    """What devices said meanwhile has not been read yet."""
    bench = Bench()
    session = bench.check_in(1)
    await bench.time.advance(9.0)
    bench.time.now = 40.0  # no timer rang for 31 s
    await bench.time.advance(0.0)
    assert bench.silent == []
    session.heard_at = 41.0  # it is read now
    await bench.time.advance(30.0)
    assert bench.silent == [(51.0, 1)]


async def test_a_short_delay_of_a_timer_is_no_excuse() -> None:
    bench = Bench()
    bench.check_in(1)
    await bench.time.advance(9.5)
    bench.time.now = 12.0
    await bench.time.advance(0.0)
    assert bench.silent == [(12.0, 1)]


async def test_halts_that_are_short_beside_the_interval_hide_nobody_however_short_a_heartbeat_is() -> None:
    bench = Bench(heartbeat_s=0.05)
    bench.check_in(1)
    for _ in range(20):
        bench.time.now += 1.0  # no timer rang meanwhile
        await bench.time.advance(0.0)
    assert bench.silent == [(10.0, 1)]


async def test_a_session_of_a_slower_pace_is_silent_later() -> None:
    bench = Bench()
    bench.longer[1] = 50.0
    bench.check_in(1)
    await bench.time.advance(100.0)
    assert bench.silent == [(60.0, 1)]


async def test_a_session_whose_pace_was_slow_is_silent_a_liveness_interval_after_it_was_heard_at_its_task() -> None:
    bench = Bench()
    bench.longer[1] = 50.0
    session = bench.check_in(1)
    await bench.time.advance(24.5)
    session.heard_at, bench.longer[1] = 24.5, 0.0  # it accepts an offer
    await bench.time.advance(100.0)
    assert bench.silent == [(34.5, 1)]
