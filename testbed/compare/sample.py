"""The first sessions of a trace: enough to say what its devices are like."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Requirement
from testbed.population.arrays import CheckIns, Ids, Kinds, Matching, Reals
from testbed.simulator.model import SimulatedJob, Simulation

SAMPLED_S = 86_400.0  # a day: after it the swing repeats itself
MOST_SAMPLED = 4_000_000  # sessions
MOST_WAITING = 300_000  # where devices wait: finding those that do takes a look at all


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Sessions in order of their start; every column has a value per row."""

    start_s: Reals
    end_s: Reals
    slow: Reals
    byte_s: Reals
    kind: Kinds
    once: NDArray[np.bool_]  # whether it may do one task only
    first: Mapping[int, DeviceId]  # a device of each kind: it answers for them all
    until_s: float  # what starts before is all in it
    waiting: bool  # devices wait while their session lasts

    def of(self, requirement: Requirement, simulation: Simulation) -> "Sample":
        """The rows that may serve a job with this requirement."""
        meets = np.zeros(len(simulation.kinds), dtype=bool)
        for kind, device in self.first.items():
            meets[kind] = requirement.matches(device, simulation.kinds[kind])
        return self.where(meets[self.kind])

    def where(self, rows: NDArray[np.bool_]) -> "Sample":
        times = (column[rows] for column in (self.start_s, self.end_s, self.slow, self.byte_s))
        start_s, end_s, slow, byte_s = times
        return Sample(
            start_s, end_s, slow, byte_s, self.kind[rows], self.once[rows], self.first, self.until_s, self.waiting
        )

    def durations(self, job: SimulatedJob, rows: Ids | slice) -> Reals:
        """Seconds of a task of ``job``, without noise."""
        work = job.spec.workload
        return work.compute_s * self.slow[rows] + (work.download_bytes + work.upload_bytes) * self.byte_s[rows]

    def __len__(self) -> int:
        return len(self.start_s)


def take_sample(simulation: Simulation) -> Sample:
    """A day of the trace, or what there is of it, or as much as is admitted."""
    blocks: list[CheckIns] = []
    rows, until = 0, np.inf
    waiting = simulation.matching is Matching.WHILE_PRESENT
    most = MOST_WAITING if waiting else MOST_SAMPLED
    for block in simulation.trace():
        if not len(block):
            continue
        blocks.append(block)
        rows += len(block)
        if block.start_s[-1] >= SAMPLED_S or rows >= most:
            until = min(float(block.start_s[-1]), SAMPLED_S)
            break
    start = _column([block.start_s for block in blocks])
    until = min(until, float(start[-1]) if len(start) else 0.0)
    keep = slice(0, int(np.searchsorted(start, until, side="right")))
    kind = np.concatenate([block.kind for block in blocks])[keep] if blocks else np.empty(0, np.int32)
    device = np.concatenate([block.device for block in blocks])[keep] if blocks else np.empty(0, np.int64)
    kinds, rows_of = np.unique(kind, return_index=True)
    return Sample(
        start[keep],
        _column([block.end_s for block in blocks])[keep],
        _column([block.slow for block in blocks])[keep],
        _column([block.byte_s for block in blocks])[keep],
        kind,
        _once(simulation)[kind],
        {int(each): _name(simulation, int(device[row])) for each, row in zip(kinds, rows_of, strict=True)},
        until,
        waiting,
    )


def _once(simulation: Simulation) -> NDArray[np.bool_]:
    """By kind of device."""
    limits = simulation.limits or ((simulation.tasks_per_session, 0),) * len(simulation.kinds)
    return np.array([tasks == 1 for tasks, _ in limits], dtype=np.bool_)


def _name(simulation: Simulation, device: int) -> DeviceId:
    return simulation.names[device] if simulation.names else DeviceId(str(device))


def _column(parts: Sequence[Reals]) -> Reals:
    return np.concatenate(parts) if parts else np.empty(0)
