"""How one tells that something belongs to a testbed: a process by its environment, all else by its name.

A mark names the testbed's process by its id and the time at which the kernel started it, so that another process that
got the same id later is not taken for it. It holds letters, digits and ``-`` only.
"""

import os
import re
from functools import cache
from pathlib import Path

LABEL = "venn.testbed.run"  # of containers, networks and volumes: its value is the mark
PREFIX = "venn-"  # of the names of all that it makes
MARK = re.compile(r"p(\d+)-s(\d+)")
_PROC = Path("/proc")


@cache
def own_mark() -> str:
    """Of this process."""
    return mark_of(os.getpid()) or f"p{os.getpid()}-s0"


def mark_of(pid: int, proc: Path = _PROC) -> str | None:
    """Of a process; None if there is none, or no /proc."""
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
