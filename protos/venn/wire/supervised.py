"""A program that was started by another of ours ends with it, whatever ended that: SIGKILL, too.

Linux does this (prctl(2), PR_SET_PDEATHSIG): it kills the child even where it stands still, and where it has become
another program since. Elsewhere `venn down` removes what is left.
"""

import os
import signal
import sys

from venn.wire import RUN_MARK
from venn.wire.marks import alive

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """From now on this process is killed when its parent dies; at once, if the testbed that it belongs to has died.

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
