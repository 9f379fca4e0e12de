"""What a run needs before anything starts: files on disk, and a machine that is large enough.

Whether the machine is large enough is an estimate. What a program costs was measured (grpcio 1.85, Python 3.11, x86-64;
memory that is its own, not shared with others): a warm coordinator, driver or agent has 37 to 40 MB, its worker 21 MB
with NumPy alone, the testbed 150 MB once it draws. An idle device costs 54 kB in the coordinator and 90 kB in its
swarm; one that works, as much again for its driver. Each connection is an open file at both of its ends.
"""

import math
import os
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from device_agent.spec import DeviceSpec
from testbed.runfolder.paths import RunFolder
from testbed.scenario.model import Scenario
from testbed.scenario.requirements import meant_fleets
from testbed.world.absences import with_absences
from testbed.world.data import HELD_OUT, split
from testbed.world.fleets import expand, write_population
from testbed.world.limits import Limits, changed
from testbed.world.timeline import Action, Verb
from venn.wire.errors import CannotEnforceError, UsageError
from venn.wire.requirements import Selector

SWARM = "swarm"  # the host of the devices that have no process of their own


@dataclass(frozen=True, slots=True)
class DeviceHost:
    """A process that hosts one device (``venn agent``) or many (``venn swarm``)."""

    name: str
    devices: tuple[DeviceSpec, ...]  # at least one
    single: bool  # it is the process of one device, which a crash kills
    population: Path  # its devices, one per line


@dataclass(frozen=True, slots=True)
class Prepared:
    """What ``prepare`` has made of a scenario."""

    devices: tuple[DeviceSpec, ...]
    hosts: tuple[DeviceHost, ...]  # the swarm first
    held_out: Mapping[str, Path]  # by data set; only where something is held out
    timeline: tuple[Action, ...]  # what is done to the devices and programs, in order of time
    carried: Mapping[str, frozenset[Verb]]  # by device: what its backend does to it, whether it plays it as well or not


def prepare(scenario: Scenario, folder: RunFolder) -> Prepared:
    """Split the data, expand the fleets, write population files. Raises UsageError."""
    held_out, shares = {}, {}
    for name, data in scenario.data.items():
        where = folder.data(name)
        try:
            shares[name] = split(
                data.source,
                devices=scenario.devices,
                split=data.split,
                held_out=data.held_out,
                seed=scenario.seed,
                out=where,
            )
        except UsageError as error:
            error.where = f"data.{name}" + (f" ({error.where})" if error.where else "")
            raise
        if (where / HELD_OUT).exists():
            held_out[name] = where / HELD_OUT
    made = expand(scenario.fleet_specs(), seed=scenario.seed, time_scale=scenario.time_scale, data=shares)
    timeline = scenario.timeline(made)
    outside = _outside(scenario, made)
    devices = tuple(_left_to_itself(device, outside[device.device]) for device in with_absences(made, timeline))
    folder.population.parent.mkdir(parents=True, exist_ok=True)
    write_population(folder.population, devices)
    as_well = scenario.backend_spec.as_well | {Verb.LIMIT}
    carried = {device: verbs | as_well for device, verbs in outside.items()}
    return Prepared(devices, _hosts(devices, folder), held_out, timeline.actions, carried)


def changes_of(scenario: Scenario, fleet: str) -> tuple[Limits, ...]:
    """The limits that the timeline may set for devices of a fleet."""
    limits = scenario.fleets[fleet].limits
    return tuple(
        changed(limits, entry.change)
        for entry in scenario.churn
        if entry.change and isinstance(entry.of, Selector) and fleet in meant_fleets(scenario, entry.of)
    )


def _outside(scenario: Scenario, devices: Iterable[DeviceSpec]) -> dict[str, frozenset[Verb]]:
    """What its backend does to each device from outside, so that the device does not play it."""
    spec = scenario.backend_spec
    of = dict.fromkeys(scenario.fleets, spec.outside)
    if spec.outside_of:
        of = {name: spec.outside & frozenset(spec.call(spec.outside_of, scenario, name)) for name in scenario.fleets}
    shared = {name: verbs - {Verb.SUSPEND} for name, verbs in of.items()}  # a program of several is never paused
    return {device.device: (of if device.alone else shared)[device.fleet] for device in devices}


def _left_to_itself(device: DeviceSpec, outside: frozenset[Verb]) -> DeviceSpec:
    """Take the absences out of a device that its backend causes from outside."""
    return replace(device, absences=tuple(each for each in device.absences if Verb(each.how) not in outside))


def _hosts(devices: tuple[DeviceSpec, ...], folder: RunFolder) -> tuple[DeviceHost, ...]:
    members: dict[str, list[DeviceSpec]] = {}
    for device in devices:
        members.setdefault(device.process or SWARM, []).append(device)
    hosts = []
    for name in sorted(members, key=lambda host: (host != SWARM, host)):
        own = folder.device_host(name)
        own.mkdir(parents=True, exist_ok=True)
        write_population(own / "population.jsonl", members[name])
        single = [device.device for device in members[name]] == [name]
        hosts.append(DeviceHost(name, tuple(members[name]), single, own / "population.jsonl"))
    return tuple(hosts)


TESTBED_BYTES = 160_000_000
PROGRAM_BYTES = 45_000_000
WORKER_BYTES = 25_000_000  # a job that imports more than NumPy has more
DEVICE_BYTES = 250_000
PROGRAMS_PER_CORE = 8  # that only wait, most of the time: emulated devices share a program, and their tasks are short
OTHER_FILES = 64  # of a program, beside its connections


@dataclass(frozen=True, slots=True)
class Capacity:
    """Cores, memory and open files of this machine."""

    cores: int
    memory_bytes: int  # that could be had now
    files: int  # that one program may have open


@dataclass(frozen=True, slots=True)
class Need:
    """What a run takes of a machine, by estimate."""

    programs: int
    memory_bytes: int
    files: int  # of the program with the most connections


def capacity() -> Capacity:
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Capacity(os.cpu_count() or 1, psutil.virtual_memory().available, most_files)


def need(scenario: Scenario, prepared: Prepared, cores: int) -> Need:
    backend = scenario.backend_spec
    hosts = prepared.hosts if backend.devices_here else ()
    alone = sum(host.single for host in hosts)
    workers = alone + (len(hosts) - alone) * max(1, cores - 1)  # a swarm's pool leaves one core
    programs = 1 + len(scenario.jobs) + len(hosts)
    memory = TESTBED_BYTES + programs * (PROGRAM_BYTES + backend.overhead_bytes) + workers * WORKER_BYTES
    if backend.each_device and backend.devices_here:
        programs -= sum(fleet.count for fleet in scenario.fleets.values() if fleet.cores)  # they have their own limit
    most_together = max((len(host.devices) for host in prepared.hosts), default=0)
    busy = sum(job.demand for job in scenario.jobs.values())
    return Need(
        programs,
        memory + len(prepared.devices) * DEVICE_BYTES,
        max(len(prepared.devices), most_together + min(most_together, busy)) + OTHER_FILES,
    )


def check_fits(scenario: Scenario, asked: Need, have: Capacity) -> None:
    """Check that devices, where each is a container or the like, fit into memory. Raises CannotEnforceError."""
    backend = scenario.backend_spec
    if not backend.each_device or not backend.devices_here or asked.memory_bytes <= have.memory_bytes:
        return
    each = PROGRAM_BYTES + WORKER_BYTES + backend.overhead_bytes + DEVICE_BYTES
    fit = max(0, scenario.devices - math.ceil((asked.memory_bytes - have.memory_bytes) / each))
    message = f"{scenario.devices} {backend.each_device}s take about {_gb(asked.memory_bytes)} of memory, and "
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
