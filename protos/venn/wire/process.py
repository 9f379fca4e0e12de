"""A process: the mark of its testbed, its memory, its files, and the lag of its event loop.

A process that belongs to a testbed has the testbed's mark in its environment; all else that does has it in its name. A
mark names the testbed's process by its id and the time at which the kernel started it, so that another process that got
the same id later is not taken for it. It holds letters, digits and ``-`` only.
"""

import asyncio
import ctypes
import gc
import os
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from venn.wire import RUN_MARK
from venn.wire.errors import PeerError
from venn.wire.files import JsonLines

LABEL = "venn.testbed.run"  # of containers, networks and volumes: its value is the mark
PREFIX = "venn-"  # of the names of all that it makes
MARK = re.compile(r"p(\d+)-s(\d+)")
_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
MOST_FILES = 65_536  # that a program asks to have open: a connection is one, and the usual limit is 1,024


@cache
def own_mark() -> str:
    """The mark of this process."""
    return mark_of(os.getpid()) or f"p{os.getpid()}-s0"


def mark_of(pid: int, proc: Path = _PROC) -> str | None:
    """The mark of a process; None if there is no such process, or no /proc."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # its name, which comes before, may hold anything
    return f"p{pid}-s{fields[19]}" if fields[0] not in "ZX" else None


def alive(mark: str, proc: Path = _PROC) -> bool:
    """Whether the testbed of a mark still runs."""
    found = MARK.fullmatch(mark)
    return found is not None and mark_of(int(found.group(1)), proc) == mark


def end_with_parent(*, known: bool = False) -> None:
    """Let this process be killed when its parent dies; at once, if the testbed that it belongs to has died already
    (unless it is ``known`` to live).

    Linux does this (prctl(2), PR_SET_PDEATHSIG), whatever ended the parent: it kills the child even where it stands
    still, and where it has become another program since. Elsewhere `venn down` removes what is left.
    The kernel waits for the parent's *thread* that made this process: programs are started in threads that last as long
    as their process, which an event loop's own does.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    mark = os.environ.get(RUN_MARK)
    if not known and mark is not None and not alive(mark):  # it died before the kernel was asked
        os._exit(128 + signal.SIGKILL)


def allow_many_files() -> int:
    """Raise the limit of open files as far as the system allows; returns how many this program may have open."""
    try:
        import resource  # not on every platform
    except ImportError:
        return MOST_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


# Parameters of mallopt(3), from glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
MESSAGE_BYTES = 2 * 2**20  # more than a chunk with its copies on the way
KEPT_BYTES = 8 * 2**20
# What an engine keeps is large, and what it throws away is seldom cyclic: with Python's defaults the collector takes
# 5 % of a busy coordinator's time, and a fifth of a simulation's event by event.
COLLECTOR_THRESHOLDS = (20_000, 20, 50)
NOBODY_WAITS = 2_000_000  # in place of the first: one collection of so many takes a fifth of a second


class _LeftBehind:
    """The objects that engines in this process have left behind."""

    objects = 0  # that the collector has not looked at


@contextmanager
def collecting_seldom(after: int = COLLECTOR_THRESHOLDS[0]) -> Iterator[None]:
    """Collect garbage seldom while an engine runs; objects that are there already are not looked at.

    ``after``: so many objects more than were freed. What an engine leaves behind, which is all reachable until it goes,
    is looked at only before another one runs, once it is as many.
    """
    if _LeftBehind.objects > after:
        gc.collect()
        _LeftBehind.objects = 0
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(after, *COLLECTOR_THRESHOLDS[1:])
    try:
        yield
    finally:
        _LeftBehind.objects += gc.get_count()[0]
        gc.freeze()
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def reuse_freed_memory() -> None:
    """Keep some freed memory for the next message, in one pool for all threads. Called before any thread starts.

    By default glibc maps and unmaps a buffer of half a megabyte for every copy of every chunk, and the page faults
    cost more than all the copying (six times the time to encode a chunk, measured); and each of gRPC's threads has a
    pool of its own, which together held half as much again. Other C libraries: no effect.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(M_MMAP_THRESHOLD, MESSAGE_BYTES)
    mallopt(M_ARENA_MAX, 1)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def return_freed_memory() -> None:
    """Give all freed memory back, before something large is made. Other C libraries: no effect."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


PROBE_S = 0.05
WINDOW_S = 5.0
REPORT_S = 1.0
STALL_S = 0.050  # later than this is a stall: the process stalled


class LagMonitor:
    """Measures the lag of the loop that ``run`` is a task on, and appends ``row()`` to ``path`` each second."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._lags: deque[tuple[float, float]] = deque()  # (loop time, seconds late), of the last 5 s, in order
        self._stalls: list[tuple[float, float]] = []  # (Unix time of the end, seconds), since the last row

    @property
    def p99_s(self) -> float:
        """The 99th percentile of how late a timer fired, over the last 5 s; 0 before the first probe."""
        ordered = sorted(late for _, late in self._lags)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else 0.0

    def row(self) -> dict[str, object]:
        """A row of the log: ``at`` (Unix seconds), ``lag_p99_s``, and ``stalls`` since the last row: [Unix time of the
        end, seconds].
        """
        stalls, self._stalls = self._stalls, []
        said = [[round(at, 3), round(late, 3)] for at, late in stalls]
        return {"at": round(time.time(), 3), "lag_p99_s": round(self.p99_s, 6), "stalls": said}

    def note(self, now: float, late: float) -> None:
        """Note a probe that came at this loop time, ``late`` seconds after it was due."""
        if late > STALL_S:
            self._stalls.append((time.time(), late))
        self._lags.append((now, max(0.0, late)))
        while self._lags[0][0] < now - WINDOW_S:
            self._lags.popleft()

    async def run(self) -> None:
        """Probe until cancelled."""
        loop = asyncio.get_running_loop()
        log = JsonLines(self.path) if self.path else None
        try:
            report_at = loop.time() + REPORT_S
            while True:
                due = loop.time() + PROBE_S
                await asyncio.sleep(PROBE_S)
                self.note(loop.time(), loop.time() - due)
                if log and loop.time() >= report_at:
                    report_at = loop.time() + REPORT_S
                    with suppress(PeerError):  # a full disk: a row is for people, and is left out
                        log.write(self.row())
        finally:
            if log:
                log.close()
