"""What a simulation says on the way, and how it is stopped: by Ctrl-C, or because it is too large for a journal."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from testbed.simulator.model import Progress

EVERY_S = 5.0  # between two lines
_DAY_S = 86_400.0


class Watching:
    """A watch of a simulation. ``most_check_ins``: stopped when there are more."""

    def __init__(self, jobs: int, say: Callable[[str], None], most_check_ins: float) -> None:
        self.stopped_by = 0  # a signal
        self.too_many = False
        self._jobs, self._say, self._most = jobs, say, most_check_ins
        self._told = time.monotonic()
        self._check_ins = 0  # when it was told

    def __call__(self, progress: Progress) -> bool:
        now = time.monotonic()
        if now - self._told >= EVERY_S:
            per_s = (progress.check_ins - self._check_ins) / (now - self._told)
            self._say(progress_line(progress, self._jobs, per_s))
            self._told, self._check_ins = now, progress.check_ins
        self.too_many = progress.check_ins > self._most
        return not (self.stopped_by or self.too_many)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Ctrl-C, kill and a closed terminal stop it at the next look; a second one ends the process."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self.stopped_by:
                os._exit(128 + number)
            self.stopped_by = number

        # `nohup venn ...` goes on when its terminal is closed; a shell that ignores Ctrl-C for us does not mean kill.
        hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        numbers = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hangs_up else ()))
        before = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def progress_line(progress: Progress, jobs: int, per_s: float) -> str:
    """``day 2.31   12 of 50 jobs done   3,400,000 check-ins, 410,000 per s``; seconds in the first hour."""
    day = progress.now_s / _DAY_S
    when = f"day {day:.2f}" if progress.now_s >= 3600 else f"{progress.now_s:.0f} s"
    done = f"{progress.jobs_ended} of {jobs} jobs done"
    return f"{when}   {done}   {progress.check_ins:,} check-ins, {per_s:,.0f} per s"
