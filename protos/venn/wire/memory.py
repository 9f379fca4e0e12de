"""Memory settings of a program: the allocator for large messages, and when garbage is collected."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Parameters of mallopt(3), from glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
MESSAGE_BYTES = 2 * 2**20  # more than a chunk with its copies on the way
KEPT_BYTES = 8 * 2**20
# What an engine keeps is large, and what it throws away is seldom cyclic: with Python's defaults the collector takes
# 5 % of a busy coordinator's time, and a fifth of a simulation's event by event.
COLLECTOR_THRESHOLDS = (20_000, 20, 50)
NOBODY_WAITS = 2_000_000  # in place of the first: one collection of so many takes a fifth of a second


class _LeftBehind:
    """What engines in this process have left behind."""

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
