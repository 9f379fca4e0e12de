"""The devices of a simulation: a population, or those of fleets as the live testbed has them, at the same times."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Capabilities, Ids, Requirement, leaves
from device_agent.spec import DeviceSpec
from testbed.scenario.model import Scenario
from testbed.scenario.population import Population
from testbed.scenario.requirements import capabilities
from testbed.simulate.model import Cut
from testbed.world.absences import with_absences
from testbed.world.arrays import CheckIns
from testbed.world.cut import on_population
from testbed.world.fleets import check_ins_of, expand
from testbed.world.limits import Limits, changed
from testbed.world.links import LinkSchedule, link_schedule
from testbed.world.matching import check_ins
from testbed.world.timeline import Action, Entry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Devices:
    """The fields of ``Simulation`` that are about devices."""

    devices: int
    kinds: tuple[Capabilities, ...]
    trace: Callable[[], Iterator[CheckIns]]
    samples: tuple[DeviceId, ...] = ()
    of_kind: tuple[int, ...] = ()  # of a population: how many devices of each kind
    names: tuple[DeviceId, ...] = ()
    tasks_per_session: int = 0
    tasks_per_day: int = 0
    limits: tuple[tuple[int, int], ...] = ()
    links: tuple[LinkSchedule | None, ...] = ()
    actions: tuple[Action, ...] = ()
    cuts: Mapping[tuple[int, float], Cut] = field(default_factory=dict)


def population_devices(
    population: Population, seed: int, requirements: Sequence[Requirement], timeline: Sequence[Entry]
) -> Devices:
    """The devices of a scenario's ``population``; ``requirements`` are those of all jobs. Raises UsageError."""
    made = check_ins(population.spec(), seed=seed, requirements=requirements)
    made, actions = on_population(timeline, made, seed=seed)
    return Devices(
        devices=made.devices,
        kinds=made.kinds,
        trace=made.trace,
        of_kind=made.of_kind,
        tasks_per_session=population.tasks_per_session,
        tasks_per_day=population.tasks_per_day,
        actions=actions,
    )


def device_specs(scenario: Scenario) -> list[DeviceSpec]:
    """All devices, with data that nobody reads. Raises UsageError for fleets that no devices can be made of."""
    devices = _undisturbed(scenario)
    return with_absences(devices, scenario.timeline(devices))


def fleet_devices(scenario: Scenario, requirements: Sequence[Requirement]) -> Devices:
    """The devices of ``scenario.fleets``; ``requirements`` are those of all jobs.

    Raises UsageError for fleets that no devices can be made of.
    """
    undisturbed = _undisturbed(scenario)
    timeline = scenario.timeline(undisturbed)
    devices = with_absences(undisturbed, timeline)
    named = [each for one in requirements for each in leaves(one) if isinstance(each, Ids)]
    of = [_kind(device, named) for device in devices]
    number = {kind: index for index, kind in enumerate(dict.fromkeys(of))}
    kind = [number[each] for each in of]
    first = [devices[kind.index(each)] for each in range(len(number))]  # one of each kind
    limits = tuple((device.tasks_per_session, device.tasks_per_day) for device in first)
    alike = len(set(limits)) == 1
    return Devices(
        devices=len(devices),
        kinds=tuple(capabilities(device) for device in first),
        trace=partial(check_ins_of, devices, kind),
        samples=tuple(DeviceId(device.device) for device in first) if named else (),
        names=tuple(DeviceId(device.device) for device in devices),
        tasks_per_session=limits[0][0] if alike else 0,
        tasks_per_day=limits[0][1] if alike else 0,
        limits=() if alike else limits,
        links=_links(scenario, devices, timeline.actions),
        actions=timeline.actions,
        cuts=_cuts(devices),
    )


def _undisturbed(scenario: Scenario) -> list[DeviceSpec]:
    """All devices, as they would be without ``churn``."""
    nowhere = [Path("share.npz")] * scenario.devices
    data = dict.fromkeys(scenario.data, nowhere)
    return expand(scenario.fleet_specs(), seed=scenario.seed, time_scale=scenario.time_scale, data=data)


def _cuts(devices: Sequence[DeviceSpec]) -> dict[tuple[int, float], Cut]:
    """When each gets out of reach, and how."""
    return {
        (number, absence.from_s): Cut(absence.how.value)
        for number, device in enumerate(devices)
        for absence in device.absences
        if absence.how.value in set(Cut)
    }


def _links(
    scenario: Scenario, devices: Sequence[DeviceSpec], actions: Sequence[Action]
) -> tuple[LinkSchedule | None, ...]:
    """The link of each device over time; empty: none is limited at any time."""
    own = {name: fleet.limits for name, fleet in scenario.fleets.items()}
    changes: dict[str, list[tuple[float, float, Limits]]] = {}
    fleet = {device.device: device.fleet for device in devices}
    for each in actions:
        if each.change is not None:
            until = math.inf if each.until_s is None else each.until_s
            change = (each.at_s, until, changed(own[fleet[each.target]], each.change))
            changes.setdefault(each.target, []).append(change)
    links = tuple(
        link_schedule(own[device.fleet], changes.get(device.device, ()))
        if own[device.fleet].link or device.device in changes
        else None
        for device in devices
    )
    return links if any(links) else ()


def _kind(device: DeviceSpec, named: Sequence[Ids]) -> tuple[object, ...]:
    """What devices of one kind have in common; ``named``: the requirements that name devices."""
    has = tuple(sorted(device.numbers.items())), tuple(sorted(device.labels.items()))
    limits = device.tasks_per_session, device.tasks_per_day
    return has, limits, tuple(DeviceId(device.device) in each.ids for each in named)
