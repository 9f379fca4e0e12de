"""A driver that is started again when it crashes: ``venn job run --supervised``.

The supervisor is a process of its own that runs nothing of the job. A driver that was killed, or that ended with a bug,
is started again with ``--resume``, after a wait that doubles. One that ends otherwise (its job is over, its command is
wrong, its coordinator is away for too long) has ended.
"""

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from venn.wire.errors import ExitCode, UsageError
from venn.wire.logs import log

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
STEADY_S = 60.0  # a driver that lived so long did not crash at its start
MOST_CRASHES = 10  # one after the other, each before it was steady
FLAG = "--supervised"
logger = logging.getLogger(__name__)


def supervise_this(folder: Path | None) -> int:
    """Supervise the driver of this process's own command; ``folder``: where it keeps what it goes on from."""
    if folder is None:
        fix = "name a folder: --dir DIR"
        raise UsageError("USAGE", "a driver that is started again needs its folder", where=FLAG, fix=fix)
    return supervise(this_command(time.strftime("%Y%m%d-%H%M%S")))


def this_command(run: str) -> list[str]:
    """The command of this process without supervision, and with the name of this run unless it names or resumes one."""
    words = [word for word in sys.argv if word != FLAG]
    named = any(word in ("--run", "--resume") or word.startswith("--run=") for word in words)
    return [sys.executable, *words, *([] if named else ["--run", run])]


def supervise(
    command: Sequence[str],
    *,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run a driver's command until it ends otherwise than by a crash; returns its exit code, or that of its last crash
    if there were too many. What stops this process stops the driver.
    """
    crashes, resumed = 0, list(command)
    while True:
        began = clock()
        code = _once(resumed)
        if code >= 0 and code != ExitCode.BUG:
            return code
        crashes = 1 if clock() - began >= STEADY_S else crashes + 1
        what = f"was killed by signal {-code}" if code < 0 else "ended with a bug"
        if crashes >= MOST_CRASHES:
            log(logger, logging.ERROR, f"the driver {what}, {crashes} times in a row: it is given up")
            return code if code >= 0 else ExitCode.BUG
        delay_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (crashes - 1))
        log(logger, logging.WARNING, f"the driver {what}; it is started again in {delay_s:g} s")
        wait(delay_s)
        if "--resume" not in resumed:
            resumed.append("--resume")


def _once(command: Sequence[str]) -> int:
    """Run it once; signals that end this process are handed on to it, and it says how it ends."""
    process = subprocess.Popen(command)
    stopped: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopped.append(number)
        process.send_signal(number)

    former = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        code = process.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    return 128 + stopped[0] if stopped and code < 0 else code
