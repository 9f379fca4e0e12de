"""Engine time: seconds since the first coordinator of a run started, by a clock that goes on in a suspended machine."""

import time
from collections.abc import Callable
from typing import Protocol

Clock = Callable[[], float]  # engine seconds, never decreasing


class Timer(Protocol):
    """What ``call_later`` gives."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]  # delay in seconds


def boot_clock() -> Clock:
    """A clock that starts at 0 now."""
    started = _boot_time()
    return lambda: _boot_time() - started


def _boot_time() -> float:
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)  # Linux only
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)
