"""How the devices of this process are slowed down: read from a file that the testbed wrote.

Only the worker is slowed down, never the session beside it: a device that computes slowly still answers. The link is
another matter: all channels of a device go through its one proxy.
"""

import json
import os
import resource
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from venn.wire.errors import UsageError

CONTAINER = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))  # its own group as it sees it, version 2 or 1
UNLIMITED = {"cpu.max": "max", "cpu.cfs_quota_us": "-1"}  # what the file of version 2, or 1, begins with
ANY = "*"  # every device of the process

# Enters each cgroup named before --, then becomes what stands after it.
_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1"/cgroup.procs || exit 96; shift; done; shift; exec "$@"'


@dataclass(frozen=True, slots=True)
class Throttle:
    start_in: tuple[Path, ...] = ()  # cgroups that a worker is born in: its memory counts from the first byte
    work_in: tuple[Path, ...] = ()  # cgroups that it enters when it is warm
    duty_cores: float | None = None  # in place of a cgroup: it is stopped and continued to so many cores
    memory_bytes: int | None = None  # in place of a cgroup: the limit of its data (RLIMIT_DATA)
    proxies: Mapping[str, str] = field(default_factory=dict)  # device, or ANY, -> host:port

    def launch(self, command: Sequence[str]) -> list[str]:
        """The command line that starts a worker where it belongs."""
        if not self.start_in:
            return list(command)
        return ["/bin/sh", "-c", _ENTER, "sh", *map(str, self.start_in), "--", *command]

    def held_back(self) -> int | None:
        """In how many periods the workers used up their processor time, as the kernel counts.

        Where they have no group of their own it is that of the container; None where there is none, or it has no limit.
        """
        for cgroup in self.work_in or CONTAINER:
            if _unlimited(cgroup):
                continue
            with suppress(OSError):  # it is gone, or has another controller
                for line in (cgroup / "cpu.stat").read_text().splitlines():
                    if line.startswith("nr_throttled "):
                        return int(line.split()[1])
        return None

    def slow_down(self, pid: int) -> None:
        """A worker that is warm. Raises OSError: it is not slowed down."""
        for cgroup in self.work_in:
            (cgroup / "cgroup.procs").write_text(f"{pid}\n")
        if self.memory_bytes is not None:
            resource.prlimit(pid, resource.RLIMIT_DATA, (self.memory_bytes, self.memory_bytes))

    def proxy(self, device: str) -> str | None:
        """What all of its channels go through."""
        return self.proxies.get(device, self.proxies.get(ANY))


def _unlimited(cgroup: Path) -> bool:
    """Whether it says that its processor time has no limit."""
    for name, says in UNLIMITED.items():
        with suppress(OSError):
            return (cgroup / name).read_text().split()[:1] == [says]
    return False


NOTHING = Throttle()


def read_throttle(path: Path | None) -> Throttle:
    """Raises UsageError THROTTLE."""
    if path is None:
        return NOTHING
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return Throttle(
            start_in=tuple(Path(str(each)) for each in value["start_in"]),
            work_in=tuple(Path(str(each)) for each in value["work_in"]),
            duty_cores=None if value["duty_cores"] is None else float(value["duty_cores"]),
            memory_bytes=None if value["memory_bytes"] is None else int(value["memory_bytes"]),
            proxies={str(device): str(proxy) for device, proxy in value["proxies"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"cannot be read: {type(error).__name__}: {error}"
        raise UsageError("THROTTLE", message, where=str(path), fix="take the file as `venn run` wrote it") from error


def write_throttle(path: Path, throttle: Throttle) -> None:
    """What ``read_throttle`` reads."""
    value = {
        "start_in": [os.fspath(each) for each in throttle.start_in],
        "work_in": [os.fspath(each) for each in throttle.work_in],
        "duty_cores": throttle.duty_cores,
        "memory_bytes": throttle.memory_bytes,
        "proxies": dict(throttle.proxies),
    }
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")
