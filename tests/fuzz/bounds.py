"""Bounds on what a decoder may take for an input: in calls and in bytes, for a test asserts no time."""

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Stop(BaseException):
    """Leaves the code that is watched; no ``except Exception`` in it takes this."""


@contextmanager
def at_most(calls: int, memory: int) -> Iterator[None]:
    """Watch a block: so many calls of functions, in Python and in C, and so many bytes at once.

    Raises AssertionError, for calls as soon as there is one too many.
    """
    left = calls

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        left -= event in ("call", "c_call")
        if left < 0:
            raise _Stop

    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start(1)
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    former = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    except _Stop:
        raise AssertionError(f"more than {calls} calls") from None
    finally:
        sys.setprofile(former)
        _, peak = tracemalloc.get_traced_memory()
        if started:
            tracemalloc.stop()
    assert peak - before <= memory, f"{peak - before} bytes at once, more than {memory}"
