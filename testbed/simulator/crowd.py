"""The devices of a simulation, wherever they come from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Capabilities, Requirement
from testbed.churn.population import churned
from testbed.churn.timeline import Action, Entry
from testbed.population.arrays import CheckIns
from testbed.population.check_ins import check_ins
from testbed.scenario.population import Population
from testbed.simulator.links import Course
from testbed.simulator.model import Cut


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
    made, actions = churned(made, timeline, seed)
    return Crowd(
        devices=made.devices,
        kinds=made.kinds,
        trace=made.trace,
        of_kind=made.of_kind,
        tasks_per_session=population.tasks_per_session,
        tasks_per_day=population.tasks_per_day,
        actions=actions,
    )
