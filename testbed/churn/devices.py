"""The timeline of a scenario on the devices of its fleets."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from device_agent.absences import without
from device_agent.availability import Interval, always, generated, traced
from testbed.churn.expand import Expansion, expand_timeline
from testbed.churn.members import Member, Members
from testbed.churn.timeline import Entry
from testbed.population import DeviceSpec
from venn.wire.notation import Constant, parse_distribution


def own_intervals(device: DeviceSpec) -> Iterator[Interval]:
    """When it would be there by itself, as its agent has it."""
    if device.trace is not None:
        return traced(device.seed, device.device, {device.device: device.trace}, device.crash)
    if device.session is None:
        return always()
    gap = Constant(0.0, "duration") if device.gap is None else parse_distribution(device.gap)
    return generated(device.seed, device.device, parse_distribution(device.session), gap, device.crash)


def intervals(device: DeviceSpec) -> Iterator[Interval]:
    """When it is there, as its agent has it."""
    own = own_intervals(device)
    return without(own, device.absences) if device.absences else own


def expanded(entries: Sequence[Entry], devices: Iterable[DeviceSpec], *, seed: int, scale: float) -> Expansion:
    """The timeline on these devices; ``scale`` is the scenario's time scale."""
    members = [Member(one.device, one.fleet, one.labels, own_intervals(one)) for one in devices]
    return expand_timeline(entries, Members(members), seed=seed, scale=scale)


def churned(devices: Sequence[DeviceSpec], expansion: Expansion) -> list[DeviceSpec]:
    """The devices that were expanded, in their order, each with its absences."""
    return [
        replace(device, absences=tuple(expansion.absences.get(number, ()))) for number, device in enumerate(devices)
    ]
