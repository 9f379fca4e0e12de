"""Engine time: seconds since the first coordinator of a run started, by a clock that goes on in a suspended machine."""

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

Clock = Callable[[], float]  # engine seconds, never decreasing


class Timer(Protocol):
    """What ``call_later`` gives."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]  # delay in seconds


def boot_clock() -> Clock:
    """A clock that starts at 0 now."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)  # Linux only
    read = time.monotonic if boot_time is None else partial(time.clock_gettime, boot_time)
    started = read()
    return lambda: read() - started
