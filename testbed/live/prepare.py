"""What a run needs on disk before anything starts: shares of data, and who hosts which devices."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from device_agent.availability import AbsenceKind
from device_agent.spec import DeviceSpec
from testbed.live.throttle.plan import relayed
from testbed.runfolder.paths import RunFolder
from testbed.scenario.model import Scenario
from testbed.world.absences import with_absences
from testbed.world.data import HELD_OUT, split
from testbed.world.devices import expand, write_population
from testbed.world.timeline import Action
from venn.wire.errors import UsageError

SWARM = "swarm"  # the host of the devices that have no process of their own


@dataclass(frozen=True, slots=True)
class DeviceHost:
    """A process that hosts devices: one (a ``venn agent``) or many (a ``venn swarm``)."""

    name: str
    devices: tuple[DeviceSpec, ...]  # at least one
    single: bool  # it is the process of one device, which a crash kills
    population: Path  # its devices, one per line


@dataclass(frozen=True, slots=True)
class Prepared:
    devices: tuple[DeviceSpec, ...]
    hosts: tuple[DeviceHost, ...]  # the swarm first
    held_out: Mapping[str, Path]  # by data set; only where something is held out
    timeline: tuple[Action, ...]  # what is done to the devices and programs, in order of time


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
    links = relayed(scenario)
    devices = tuple(_left_to_itself(device, linked=device.fleet in links) for device in with_absences(made, timeline))
    folder.population.parent.mkdir(parents=True, exist_ok=True)
    write_population(folder.population, devices)
    return Prepared(devices, _hosts(devices, folder), held_out, timeline.actions)


def _left_to_itself(device: DeviceSpec, *, linked: bool) -> DeviceSpec:
    """A device with a process to itself does not play that it is suspended: its process is. Nor does one with a relay
    play that it is cut off: its link is."""
    really = {AbsenceKind.SUSPEND} if device.alone else set()
    really |= {AbsenceKind.DISCONNECT, AbsenceKind.PARTITION} if linked else set()
    return replace(device, absences=tuple(each for each in device.absences if each.how not in really))


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
