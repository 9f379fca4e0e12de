"""What holds a worker, read back from the kernel where it tells, and in words."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from device_agent.confine.orders import Orders
from venn.wire.files import write_atomic
from venn.wire.notation import format_bytes

CONFINED = "confined.json"  # in the folder of an agent: what holds its job code
# As /proc/PID/limits calls them.
NAMES = {
    "RLIMIT_CORE": "Max core file size",
    "RLIMIT_FSIZE": "Max file size",
    "RLIMIT_NOFILE": "Max open files",
    "RLIMIT_DATA": "Max data size",
    "RLIMIT_AS": "Max address space",
    "RLIMIT_MSGQUEUE": "Max msgqueue size",
    "RLIMIT_MEMLOCK": "Max locked memory",
    "RLIMIT_NPROC": "Max processes",
}


class NotInForceError(OSError):
    """The error of a worker that is not held as it said, as the kernel tells."""


@dataclass(slots=True)
class InForce:
    """What holds the job code of a worker: it says so itself, and its agent checks it."""

    user: int | None = None  # its own user ID
    namespaces: bool = False  # of processes, network and IPC
    files: bool = False  # a view of files of its own
    landlock: int = 0  # the version of the interface; 0: none
    limits: dict[str, int] = field(default_factory=dict)
    why_not: dict[str, str] = field(default_factory=dict)  # by means: why it is not in force
    readable: list[str] = field(default_factory=list)  # secrets that it could read

    @property
    def holds(self) -> bool:
        """Whether secrets are out of reach, and what the code starts ends with its worker."""
        return not self.readable and (self.namespaces or self.user is not None or self.landlock >= 6)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def means(self) -> str:
        """The means that hold it, in a few words."""
        found = {"user": self.user is not None, "namespaces": self.namespaces, "files": self.files}
        found |= {f"Landlock {self.landlock}": self.landlock > 0, "rlimits": bool(self.limits)}
        return ", ".join(name for name, holds in found.items() if holds) or "nothing"

    def __str__(self) -> str:
        said = [f"user {self.user}"] if self.user is not None else []
        said += ["namespaces (processes, network, IPC" + (", files)" if self.files else ")")] if self.namespaces else []
        said += [f"Landlock {self.landlock}"] if self.landlock else []
        said += [f"rlimits ({self._limits()})"] if self.limits else []
        lacks = [f"{means}: {why}" for means, why in self.why_not.items() if why]
        lacks += [f"{path} can be read" for path in self.readable]
        return (", ".join(said) or "nothing") + (f"; not in force: {'; '.join(lacks)}" if lacks else "")

    def _limits(self) -> str:
        named = {"RLIMIT_DATA": "data", "RLIMIT_FSIZE": "file"}
        said = [f"{name} {format_bytes(self.limits[key])}" for key, name in named.items() if key in self.limits]
        counted = {"RLIMIT_NOFILE": "open files", "RLIMIT_NPROC": "processes"}
        said += [f"{self.limits[key]} {name}" for key, name in counted.items() if key in self.limits]
        return ", ".join(said)


def write_in_force(path: Path, held: InForce) -> None:
    """Write a file that ``read_in_force`` reads. Raises OSError."""
    write_atomic(path, json.dumps(held.to_json(), indent=2) + "\n")


def read_in_force(path: Path) -> InForce | None:
    """What an agent wrote down of its workers; None: nothing that can be read."""
    try:
        return InForce(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def read_back(pid: int, told: Mapping[str, Any], orders: Orders, proc: Path = Path("/proc")) -> InForce:
    """What holds a worker: what it told, checked against the kernel. Raises NotInForceError or OSError."""
    held = InForce(**told)
    if sys.platform != "linux" or not orders.means:
        return held
    status = _table(proc / str(pid) / "status")
    checks = {"NoNewPrivs": "1", "CapEff": f"{0:016x}"}
    if held.user is not None:
        checks |= {"Uid": "\t".join([str(held.user)] * 4), "Gid": "\t".join([str(held.user)] * 4), "Groups": ""}
    for name, wanted in checks.items():
        if status.get(name, wanted) != wanted:
            raise NotInForceError(f"{name} of the worker is {status[name]!r}, not {wanted!r}")
    if held.namespaces and len(status["NSpid"].split()) <= len(_table(proc / "self" / "status")["NSpid"].split()):
        raise NotInForceError("the worker has no namespace of processes")
    _check_limits((proc / str(pid) / "limits").read_text(), held.limits)
    return held


def _check_limits(text: str, limits: Mapping[str, int]) -> None:
    for name, value in limits.items():
        line = next(line for line in text.splitlines() if line.startswith(NAMES[name]))
        most = line[len(NAMES[name]) :].split()[1]
        if most != str(value):
            raise NotInForceError(f"{name} of the worker is {most}, not {value}")


def _table(path: Path) -> dict[str, str]:
    rows = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in rows}
