"""The fake clock fires timers in order, at their times, and only when it is moved."""

from testbed.testing.clock import FakeClock


async def test_timers_fire_in_order_at_their_times() -> None:
    clock, fired = FakeClock(), list[tuple[str, float]]()
    clock.call_later(2.0, lambda: fired.append(("late", clock())))
    clock.call_later(1.0, lambda: fired.append(("early", clock())))
    clock.call_later(1.5, lambda: fired.append(("cancelled", clock()))).cancel()
    assert not fired
    await clock.advance(1.0)
    assert fired == [("early", 1.0)]
    await clock.advance(3.0)
    assert fired[1:] == [("late", 2.0)]
    assert clock() == 4.0
