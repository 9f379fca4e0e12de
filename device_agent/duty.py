"""A processor limit without cgroups: workers are stopped and continued, twenty milliseconds a period.

What they may use is an account: it gains ``cores`` seconds per second, and the processor time that the kernel has
counted for them is taken from it. So the mean is right even where a thread wakes late; only the grain is coarse.
"""

import os
import signal
import threading
import time
from contextlib import suppress

PERIOD_S = 0.02
LEAST_WAIT_S = 0.0005
IDLE_S = 0.005  # between two looks at workers that use less than they may


class Account:
    """Processor time that may be used. Times never decrease."""

    def __init__(self, cores: float, now: float) -> None:
        self._cores, self._now = cores, now
        self._credit = self._share = cores * PERIOD_S

    def book(self, now: float, used_s: float) -> None:
        """So much was used since the last call. What was not used is not kept for longer than a period."""
        self._credit = min(2 * self._share, self._credit + self._cores * (now - self._now) - used_s)
        self._now = now

    @property
    def empty(self) -> bool:
        return self._credit <= 0

    @property
    def full(self) -> bool:
        """A period's share is there: they may run again."""
        return self._credit >= self._share

    def wait_s(self, running: bool) -> float:
        """Until it may be empty (they run), or is full (they are stopped)."""
        if running:
            return max(LEAST_WAIT_S, self._credit)
        return max(LEAST_WAIT_S, (self._share - self._credit) / self._cores)


class DutyCycle:
    """Stops and continues the processes that were added, all on one account. ``cores`` is above 0."""

    def __init__(self, cores: float) -> None:
        self._account = Account(cores, time.monotonic())
        self._used: dict[int, float] = {}  # by process, the processor time at the last look
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._running = True
        self.stops = 0  # so far
        self._thread = threading.Thread(target=self._turn, name="duty-cycle", daemon=True)
        self._thread.start()

    def add(self, pid: int) -> None:
        with self._lock:
            used = processor_time(pid)
            if used is not None:
                self._used[pid] = used

    def close(self) -> None:
        """All that are left run on."""
        self._over.set()
        self._thread.join()
        with self._lock:
            self._signal(signal.SIGCONT)

    def _turn(self) -> None:
        wait_s = 0.0
        while not self._over.wait(wait_s):
            with self._lock:
                wait_s = self._look()

    def _look(self) -> float:
        """Book, decide, and say when to look again."""
        used_s = 0.0
        for pid, before in list(self._used.items()):
            now_used = processor_time(pid)
            if now_used is None:
                del self._used[pid]
            else:
                used_s += now_used - before
                self._used[pid] = now_used
        self._account.book(time.monotonic(), used_s)
        if self._running and self._account.empty:
            self._running = False
            self.stops += 1
            self._signal(signal.SIGSTOP)
        elif not self._running and self._account.full:
            self._running = True
            self._signal(signal.SIGCONT)
        wait_s = self._account.wait_s(self._running)
        return wait_s if self._used and (used_s or not self._running) else IDLE_S

    def _signal(self, number: int) -> None:
        for pid in self._used:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def processor_time(pid: int) -> float | None:
    """Seconds that a process has used, to the nanosecond; None if there is none."""
    clock = (~pid << 3) | 2  # how Linux numbers the processor-time clock of another process (clock_getcpuclockid)
    try:
        return time.clock_gettime(clock)
    except OSError:
        return None
