"""What jobs ask for against what devices there are, before anything is simulated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Requirement
from testbed.simulator.model import SimulatedJob, Simulation

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Contention:
    """Of the jobs with one requirement, or of all."""

    requirement: str  # its name
    jobs: int
    rounds: int
    demand: int  # devices over all rounds
    supply_per_day: float  # check-ins of devices that meet it

    @property
    def days(self) -> float:
        """How long the devices that meet it would take, if these jobs had them all."""
        return self.demand / self.supply_per_day if self.supply_per_day else np.inf


def contention(simulation: Simulation) -> list[Contention]:
    """By requirement, the one most jobs have first, and all together at the end.

    The supply is that of the first day, or of as much of it as the trace has.
    """
    per_day = _check_ins_per_day(simulation)
    groups: dict[str, list[SimulatedJob]] = {}
    for job in simulation.jobs:
        groups.setdefault(job.spec.requirement_name, []).append(job)
    found = [
        _of(name, jobs, float(sum(per_day[_eligible(simulation, [jobs[0].spec.requirement])])))
        for name, jobs in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    ]
    anybody = _eligible(simulation, [jobs[0].spec.requirement for jobs in groups.values()])
    return [*found, _of("all jobs", simulation.jobs, float(sum(per_day[anybody])))]


def _check_ins_per_day(simulation: Simulation) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """By kind of device."""
    counts = np.zeros(len(simulation.kinds))
    last = 0.0
    for block in simulation.trace():
        today = block.start_s < DAY_S
        counts += np.bincount(block.kind[today], minlength=len(counts))
        last = float(block.start_s[-1])
        if last >= DAY_S:
            return counts
    return counts * (DAY_S / max(last, 1.0))


def _eligible(simulation: Simulation, requirements: Sequence[Requirement]) -> list[int]:
    """The kinds that meet any of them."""
    nobody = DeviceId("")
    return [
        number
        for number, kind in enumerate(simulation.kinds)
        if any(requirement.matches(nobody, kind) for requirement in requirements)
    ]


def _of(name: str, jobs: Sequence[SimulatedJob], supply: float) -> Contention:
    return Contention(
        requirement=name,
        jobs=len(jobs),
        rounds=sum(job.rounds for job in jobs),
        demand=sum(job.rounds * job.spec.demand for job in jobs),
        supply_per_day=supply,
    )
