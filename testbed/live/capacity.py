"""Whether this machine is large enough for a fleet: an estimate, made before anything starts.

What a program costs was measured (grpcio 1.85, Python 3.11, x86-64; memory that is its own, not shared with others): a
warm coordinator, driver or agent has 37 to 40 MB, its worker 21 MB with NumPy alone, the testbed 150 MB once it draws.
An idle device costs 54 kB in the coordinator and 90 kB in its swarm; one that works, as much again for its driver. Each
connection is an open file at both of its ends.
"""

import math
import os
import resource
from dataclasses import dataclass

import psutil

from testbed.live.prepare import Prepared
from testbed.scenario.model import Scenario
from venn.wire.errors import CannotEnforceError

TESTBED_BYTES = 160_000_000
PROGRAM_BYTES = 45_000_000
WORKER_BYTES = 25_000_000  # a job that imports more than NumPy has more
DEVICE_BYTES = 250_000
CONTAINER_BYTES = 15_000_000  # of the engine, for each
PROGRAMS_PER_CORE = 8  # that only wait, most of the time: emulated devices share a program, and their tasks are short
OTHER_FILES = 64  # of a program, beside its connections


@dataclass(frozen=True, slots=True)
class Capacity:
    """What this machine has."""

    cores: int
    memory_bytes: int  # that could be had now
    files: int  # that one program may have open


@dataclass(frozen=True, slots=True)
class Need:
    """What a run takes, by estimate."""

    programs: int
    memory_bytes: int
    files: int  # of the program with the most connections


def capacity() -> Capacity:
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Capacity(os.cpu_count() or 1, psutil.virtual_memory().available, most_files)


def need(scenario: Scenario, prepared: Prepared, cores: int) -> Need:
    alone = sum(host.single for host in prepared.hosts)
    workers = alone + (len(prepared.hosts) - alone) * max(1, cores - 1)  # a swarm's pool leaves one core
    programs = 1 + len(scenario.jobs) + len(prepared.hosts)
    memory = TESTBED_BYTES + programs * PROGRAM_BYTES + workers * WORKER_BYTES
    if scenario.backend == "compose":
        memory += programs * CONTAINER_BYTES
        programs -= sum(fleet.count for fleet in scenario.fleets.values() if fleet.cores)  # they have their own limit
    most_together = max((len(host.devices) for host in prepared.hosts), default=0)
    busy = sum(job.demand for job in scenario.jobs.values())
    return Need(
        programs,
        memory + len(prepared.devices) * DEVICE_BYTES,
        max(len(prepared.devices), most_together + min(most_together, busy)) + OTHER_FILES,
    )


def check_containers(scenario: Scenario, asked: Need, have: Capacity) -> None:
    """Raises CannotEnforceError TOO_LARGE: they would not fit, and how many would."""
    if scenario.backend != "compose" or asked.memory_bytes <= have.memory_bytes:
        return
    each = PROGRAM_BYTES + WORKER_BYTES + CONTAINER_BYTES + DEVICE_BYTES
    fit = max(0, scenario.devices - math.ceil((asked.memory_bytes - have.memory_bytes) / each))
    message = f"{scenario.devices} containers take about {_gb(asked.memory_bytes)} of memory, and "
    message += f"{_gb(have.memory_bytes)} are free: {fit} would fit"
    raise CannotEnforceError("TOO_LARGE", message, where="fleets", fix=f"have at most {fit} devices")


def shortfalls(asked: Need, have: Capacity) -> list[str]:
    """One line for each thing that this machine has too little of; none if it is large enough."""
    lines = []
    if asked.memory_bytes > have.memory_bytes:
        lines.append(
            f"this machine is too small: the run takes about {_gb(asked.memory_bytes)} of memory and "
            f"{_gb(have.memory_bytes)} are free; have fewer devices or processes"
        )
    if asked.programs > PROGRAMS_PER_CORE * have.cores:
        lines.append(
            f"this machine is too small: {asked.programs} programs share {have.cores} cores, more than "
            f"{PROGRAMS_PER_CORE} each; lower processes of the fleets"
        )
    if asked.files > have.files:
        lines.append(
            f"this machine is too small: one program needs about {asked.files} open files and may have {have.files}; "
            "raise it (ulimit -Hn), or have fewer devices"
        )
    return lines


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
