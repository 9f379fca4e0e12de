"""The Venn diagram of a run: job groups, their regions, supply and demand, and who served whom."""

from collections import Counter
from dataclasses import dataclass

from coordinator.engine.ids import DeviceId, GroupId, JobId
from coordinator.engine.requirements import group_of
from testbed.report.history import History


@dataclass(frozen=True, slots=True)
class Group:
    group: GroupId  # the canonical text of the requirement
    name: str  # for people
    jobs: tuple[JobId, ...]
    devices: frozenset[DeviceId]  # eligible
    check_ins: int  # of them
    demand: int  # places that its jobs asked for, over all attempts


@dataclass(frozen=True, slots=True)
class Region:
    """A cell of the diagram."""

    groups: tuple[str, ...]  # names, in the order of ``Diagram.groups``; empty: no job wants these devices
    devices: tuple[DeviceId, ...]
    check_ins: int
    leases: dict[str, int]  # job name -> leases that these devices had


@dataclass(frozen=True, slots=True)
class Diagram:
    groups: tuple[Group, ...]  # the widest first
    regions: tuple[Region, ...]  # by devices, descending
    span_s: float  # that check-ins are counted over


def diagram(history: History) -> Diagram:
    """Cut the devices that were seen into regions."""
    groups = _groups(history)
    region_of = {
        device: tuple(group.name for group in groups if device in group.devices)
        for device in sorted(history.capabilities)
    }
    check_ins = Counter(region_of[session.device] for session in history.sessions.values())
    leases: dict[tuple[str, ...], Counter[str]] = {}
    for lease in history.leases.values():
        leases.setdefault(region_of[lease.device], Counter())[history.jobs[lease.job].name] += 1
    members: dict[tuple[str, ...], list[DeviceId]] = {}
    for device, region in region_of.items():
        members.setdefault(region, []).append(device)
    regions = [
        Region(names, tuple(devices), check_ins[names], dict(leases.get(names, Counter())))
        for names, devices in members.items()
    ]
    regions.sort(key=lambda region: (-len(region.devices), region.groups))
    return Diagram(groups, tuple(regions), history.ended_s)


def eligible(history: History, device: DeviceId, job: JobId) -> bool:
    """Says whether a device may serve a job."""
    return history.jobs[job].spec.requirement.matches(device, history.capabilities[device])


def _groups(history: History) -> tuple[Group, ...]:
    jobs: dict[GroupId, list[JobId]] = {}
    for key, job in history.jobs.items():
        jobs.setdefault(group_of(job.spec.requirement), []).append(key)
    names = Counter(history.jobs[keys[0]].spec.requirement_name for keys in jobs.values())
    groups = []
    for group, keys in jobs.items():
        first = history.jobs[keys[0]]
        name = first.spec.requirement_name
        devices = frozenset(
            device
            for device, capabilities in history.capabilities.items()
            if first.spec.requirement.matches(device, capabilities)
        )
        check_ins = sum(session.device in devices for session in history.sessions.values())
        demand = sum(attempt.places for key in keys for attempt in history.jobs[key].attempts)
        unique = name if name and names[name] == 1 else str(group)
        groups.append(Group(group, unique, tuple(keys), devices, check_ins, demand))
    groups.sort(key=lambda group: (-len(group.devices), group.group))
    return tuple(groups)
