"""Marks of what belongs to a testbed: a process has one in its environment, all else in its name.

A mark names the testbed's process by its id and the time at which the kernel started it, so that another process that
got the same id later is not taken for it. It holds letters, digits and ``-`` only.
"""

import os
import re
import signal
import sys
from functools import cache
from pathlib import Path

from venn.wire import RUN_MARK

LABEL = "venn.testbed.run"  # of containers, networks and volumes: its value is the mark
PREFIX = "venn-"  # of the names of all that it makes
MARK = re.compile(r"p(\d+)-s(\d+)")
_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1


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


def end_with_parent() -> None:
    """Let this process be killed when its parent dies; at once, if the testbed that it belongs to has died already.

    Linux does this (prctl(2), PR_SET_PDEATHSIG), whatever ended the parent: it kills the child even where it stands
    still, and where it has become another program since. Elsewhere `venn down` removes what is left.
    The kernel waits for the parent's *thread* that made this process: programs are started in threads that last as long
    as their process, which an event loop's own does.
    """
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    mark = os.environ.get(RUN_MARK)
    if mark is not None and not alive(mark):  # it died before the kernel was asked
        os._exit(128 + signal.SIGKILL)
