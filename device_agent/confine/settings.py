"""What job code may use on this machine, as the device's owner says."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import psutil

from device_agent.confine.inforce import InForce, NotInForceError
from device_agent.confine.orders import Means, Orders

DISK_BYTES, FILES, PROCESSES = 256 * 10**6, 256, 64  # unless the owner says otherwise
LEAST_FILES, LEAST_PROCESSES = 32, 8  # with which Python and NumPy work
LEAST_MEMORY, ROUND = 10**9, 10**8
MOST_NAMED = 32  # paths of one folder; of more than that the folder is named


class Wanted(StrEnum):
    """Whether job code must be held."""

    REQUIRED = "required"  # where it could read the agent's files, or outlive it, nothing starts
    POSSIBLE = "possible"  # by what this machine has
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What job code may use. Limits are for each worker process. Those of an emulated device come on top."""

    wanted: Wanted = Wanted.POSSIBLE
    memory_bytes: int = 0  # data of a process; 0: ``fair_memory``
    disk_bytes: int = DISK_BYTES  # of the temporary folder, and of a file
    files: int = FILES  # open at once
    processes: int = PROCESSES  # with their threads
    reads: tuple[Path, ...] = ()  # beside Python, its packages and the job's data
    secrets: tuple[Path, ...] = ()  # which each worker tries to read
    means: frozenset[Means] = frozenset(Means)  # that may be used

    def for_workers(self, count: int) -> "Confinement":
        """The same, with the memory that each of so many workers gets."""
        return self if self.memory_bytes else replace(self, memory_bytes=fair_memory(count))

    def uses(self, means: Means) -> bool:
        return self.wanted is not Wanted.OFF and means in self.means

    def check(self, in_force: InForce) -> None:
        """Check that a worker is held as the owner wants it. Raises NotInForceError."""
        if self.wanted is Wanted.REQUIRED and not in_force.holds:
            raise NotInForceError(f"job code is not confined as --confine required wants it: held by {in_force}")

    def orders(
        self, nice: int, data: Iterable[Path], user: int | None, why_no_user: str, device_bytes: int | None = None
    ) -> Orders:
        """The orders of one worker, whose job may read ``data``."""
        return Orders(
            nice=nice,
            agent=os.getpid(),
            memory_bytes=self.memory_bytes,
            disk_bytes=self.disk_bytes,
            files=self.files,
            processes=self.processes,
            means=() if self.wanted is Wanted.OFF else tuple(sorted(self.means)),
            device_bytes=device_bytes,
            user=user,
            why_no_user=why_no_user,
            reads=tuple(str(path) for path in (*self.reads, *data)),
            secrets=tuple(map(str, self.secrets)),
        )


def fair_memory(workers: int) -> int:
    """Half of this machine's memory, shared by the workers; at least 1 GB, rounded down. In bytes."""
    share = psutil.virtual_memory().total // (2 * workers)
    return max(LEAST_MEMORY, share - share % ROUND)


def named_together(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths, in order. Where one folder has more than a few of them, the folder stands for them."""
    folders: dict[Path, set[Path]] = {}
    for path in paths:
        folders.setdefault(path.parent, set()).add(path)
    return tuple(
        sorted(one for folder, own in folders.items() for one in (own if len(own) <= MOST_NAMED else {folder}))
    )
