"""How much memory a process gets that is limited as a device's worker is, before it is killed or refused."""

import os
import subprocess
import sys

from device_agent.throttle import Throttle
from testbed.live.throttle import cgroup
from testbed.live.throttle.probe import CGROUP, Machine
from testbed.world.limits import Limits
from venn.wire.marks import own_mark

BEYOND = 2  # times the limit, which is more than it may ever get


def got_bytes(machine: Machine, means: str, asked: int) -> int:
    """The most that was held: resident bytes in a cgroup, bytes of data under RLIMIT_DATA."""
    if means != CGROUP:
        return _held(Throttle(memory_bytes=asked), asked)[1]
    group = cgroup.make(machine.trees, own_mark(), f"bench-memory-{os.getpid()}", Limits(memory_bytes=asked))
    try:
        return _held(Throttle(start_in=group.start_in, work_in=group.work_in), asked)[0]
    finally:
        for path in reversed(group.made):
            cgroup.remove(path)


def _held(throttle: Throttle, asked: int) -> tuple[int, int]:
    command = throttle.launch([sys.executable, "-m", "testbed.bench.loads.hog", str(BEYOND * asked)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # it is warm
        throttle.slow_down(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        whole = [
            line for line in process.stdout if line.endswith("\n")
        ]  # one that was killed ends in the middle of one
    resident, data = whole[-1].split() if whole else ("0", "0")
    return int(resident), int(data)
