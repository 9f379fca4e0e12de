"""Bounds on what a decoder may take for an input: in calls and in bytes, for a test asserts no time."""

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Stop(BaseException):
    """Leaves the code that is watched; no ``except Exception`` in it takes this."""


@contextmanager
def at_most(calls: int, memory: int | None = None) -> Iterator[None]:
    """Watch a block: so many calls of functions, in Python and in C, and so many bytes at once (None: any, which takes
    a quarter of the time).

    Raises AssertionError, for calls as soon as there is one too many.
    """
    left = calls

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        left -= event in ("call", "c_call")
        if left < 0:
            raise _Stop

    if memory is not None:
        tracemalloc.start(1)
    former = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    except _Stop:
        raise AssertionError(f"more than {calls} calls") from None
    finally:
        sys.setprofile(former)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert memory is None or peak <= memory, f"{peak} bytes at once, more than {memory}"
