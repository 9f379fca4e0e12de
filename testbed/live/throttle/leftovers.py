"""What testbeds have made on this machine, found by its mark, and taken away.

Everything names the testbed that made it: processes in their environment, groups and namespaces in their names (a
cable goes with its namespace), containers, networks and volumes in their labels. So it is found after the testbed was
killed, and nothing else is touched. What belongs to a testbed that still runs is left alone, unless all is asked for.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from testbed.live.throttle import cgroup, namespace
from testbed.live.throttle.namespace import RefusedError, run
from testbed.scenario.backends import Leftover
from venn.wire import RUN_MARK
from venn.wire.process import MARK, PREFIX

GONE_WITHIN_S = 5.0
_NAMED = re.compile(rf"{PREFIX}({MARK.pattern})(-[\w-]+)?")


def find() -> Iterator[Leftover]:
    """All that this user can see, in the order in which it can be removed."""
    yield from _processes()
    yield from _namespaces()
    yield from _groups()


def _processes(proc: Path = Path("/proc")) -> Iterator[Leftover]:
    for place in sorted(proc.iterdir()):
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            words = (place / "environ").read_bytes().split(b"\0")
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it is gone, or somebody else's
        begin = f"{RUN_MARK}=".encode()
        marks = [word[len(begin) :].decode(errors="replace") for word in words if word.startswith(begin)]
        if marks and MARK.fullmatch(marks[0]) and command:
            pid = int(place.name)
            yield Leftover("process", f"{pid} {command[:80]}", marks[0], partial(_kill, pid))


def _kill(pid: int) -> None:
    """It is gone when this returns. Raises TimeoutError (an OSError): it does not go."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    last = time.monotonic() + GONE_WITHIN_S
    while _lives(pid):
        if time.monotonic() > last:
            raise TimeoutError(f"process {pid} does not end")
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    """A zombie, which only waits for its parent, is gone."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _namespaces(place: Path = Path("/var/run/netns")) -> Iterator[Leftover]:
    for name in sorted(os.listdir(place)) if place.is_dir() else ():
        if found := _NAMED.fullmatch(name):
            yield Leftover("namespace", name, found.group(1), partial(_forget, name))


def _forget(name: str) -> None:
    with suppress(RefusedError):  # one that was cut short while it was made is no namespace, and its file stays
        namespace.remove(name)
    if (path := Path("/var/run/netns") / name).exists():
        run("umount", "--lazy", str(path))
        path.unlink(missing_ok=True)


def _groups() -> Iterator[Leftover]:
    for tree in cgroup.mounted():
        for parent, names, _ in os.walk(tree):  # a testbed's groups lie below its own one, which need not be ours
            for name in sorted(names):
                if found := _NAMED.fullmatch(name):
                    path = Path(parent) / name
                    yield Leftover("cgroup", str(path), found.group(1), partial(cgroup.remove, path))
            names[:] = [name for name in names if not _NAMED.fullmatch(name)]
