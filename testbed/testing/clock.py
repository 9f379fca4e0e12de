"""A clock that stands still until a test moves it, and its timers."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

TURNS = 4  # of the event loop after each timer: enough for what it starts to come to rest


class FakeTimer:
    """What ``FakeClock.call_later`` gives."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the timer: it does not fire any more."""
        self.cancelled = True


class FakeClock:
    """A clock in seconds from 0, as a coordinator takes it: ``clock=fake, call_later=fake.call_later``."""

    def __init__(self) -> None:
        self.now = 0.0  # seconds; set it to let time jump without firing a timer
        self._timers: list[tuple[float, int, FakeTimer, Callable[[], None]]] = []
        self._numbers = count()

    def __call__(self) -> float:
        """The time that it shows, in seconds."""
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> FakeTimer:
        """Call ``call`` when ``delay`` seconds have passed."""
        timer = FakeTimer()
        heapq.heappush(self._timers, (self.now + delay, next(self._numbers), timer, call))
        return timer

    async def advance(self, seconds: float) -> None:
        """Let time pass, timer by timer, and give the event loop its turns after each."""
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            at, _, timer, call = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            if not timer.cancelled:
                call()
            for _ in range(TURNS):
                await asyncio.sleep(0)
        self.now = until
