"""The devices of a simulation: those of fleets or of a population.

The devices of a simulation, wherever they come from.

The devices of a scenario's fleets, as the live testbed has them: the same ones, there at the same times.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Capabilities, Requirement
from device_agent.spec import DeviceSpec
from testbed.scenario.model import Scenario
from testbed.scenario.population import Population
from testbed.scenario.requirements import capabilities
from testbed.simulate.model import Cut
from testbed.world.absences import with_absences
from testbed.world.arrays import CheckIns
from testbed.world.cut import on_population
from testbed.world.devices import check_ins_of, expand
from testbed.world.limits import Limits, changed
from testbed.world.links import Course, course
from testbed.world.matching import check_ins
from testbed.world.timeline import Action, Entry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crowd:
    """The fields of ``Simulation`` that are about devices."""

    devices: int
    kinds: tuple[Capabilities, ...]
    trace: Callable[[], Iterator[CheckIns]]
    of_kind: tuple[int, ...] = ()  # of a population: how many devices of each kind
    names: tuple[DeviceId, ...] = ()
    tasks_per_session: int = 0
    tasks_per_day: int = 0
    limits: tuple[tuple[int, int], ...] = ()
    links: tuple[Course | None, ...] = ()
    actions: tuple[Action, ...] = ()
    cuts: Mapping[tuple[int, float], Cut] = field(default_factory=dict)


def population_crowd(
    population: Population, seed: int, requirements: Sequence[Requirement], timeline: Sequence[Entry]
) -> Crowd:
    """Of a scenario's ``population``; ``requirements`` are those of all jobs. Raises UsageError."""
    made = check_ins(population.spec(), seed=seed, requirements=requirements)
    made, actions = on_population(timeline, made, seed=seed)
    return Crowd(
        devices=made.devices,
        kinds=made.kinds,
        trace=made.trace,
        of_kind=made.of_kind,
        tasks_per_session=population.tasks_per_session,
        tasks_per_day=population.tasks_per_day,
        actions=actions,
    )


def fleet_devices(scenario: Scenario) -> list[DeviceSpec]:
    """All devices, with data that nobody reads. Raises UsageError for fleets that no devices can be made of."""
    devices = _undisturbed(scenario)
    return with_absences(devices, scenario.timeline(devices))


def fleet_crowd(scenario: Scenario) -> Crowd:
    """Of ``scenario.fleets``. Raises UsageError for fleets that no devices can be made of."""
    undisturbed = _undisturbed(scenario)
    timeline = scenario.timeline(undisturbed)
    devices = with_absences(undisturbed, timeline)
    first = list({_kind(device): device for device in reversed(devices)}.values())[::-1]  # one of each kind
    number = {_kind(device): index for index, device in enumerate(first)}
    kind = [number[_kind(device)] for device in devices]
    limits = tuple((device.tasks_per_session, device.tasks_per_day) for device in first)
    alike = len(set(limits)) == 1
    return Crowd(
        devices=len(devices),
        kinds=tuple(capabilities(device) for device in first),
        trace=partial(check_ins_of, devices, kind),
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


def _links(scenario: Scenario, devices: Sequence[DeviceSpec], actions: Sequence[Action]) -> tuple[Course | None, ...]:
    """Of each device; empty: none is limited at any time."""
    own = {name: fleet.limits for name, fleet in scenario.fleets.items()}
    changes: dict[str, list[tuple[float, float, Limits]]] = {}
    fleet = {device.device: device.fleet for device in devices}
    for each in actions:
        if each.change is not None:
            until = math.inf if each.until_s is None else each.until_s
            change = (each.at_s, until, changed(own[fleet[each.target]], each.change))
            changes.setdefault(each.target, []).append(change)
    links = tuple(
        course(own[device.fleet], changes.get(device.device, ()))
        if own[device.fleet].link or device.device in changes
        else None
        for device in devices
    )
    return links if any(links) else ()


def _kind(device: DeviceSpec) -> tuple[object, ...]:
    """What devices of one kind have in common."""
    labels = tuple(sorted(device.labels.items()))
    return tuple(sorted(device.numbers.items())), labels, device.tasks_per_session, device.tasks_per_day
