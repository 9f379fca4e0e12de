"""Facts of a simulated world that hold under every policy.

The first sessions of a trace: enough to say what its devices are like.

What a job would take with nothing else running: the measure of its fair share.

The fair JCT of a job is M times its JCT alone, M being the number of jobs. Simulating each job alone would cost more
than the comparison itself, so it is estimated: at times spread evenly over the sampled day, a few rounds are played on
the very sessions that come then (the first eligible devices take the places, the K-th response closes a round, the
deadline aborts it), and their mean, times the number of rounds, is the JCT alone. Left out are noise, limits over the
day, that a device counts once a round (each session takes part once in an attempt, but a device may have two), and the
time in which a place is held by a device that will not answer: the next device takes it at once. The
rounds of an asynchronous job overlap: they are not played, but follow from the rates of devices and places.

Finds what is true of a simulated world under every policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import DeviceId, job_name
from coordinator.engine.requirements import Requirement
from testbed.report.comparison import HOURS, GroupSupply, TierTimes, TraceFacts
from testbed.simulate.model import SimulatedJob, Simulation
from testbed.world.arrays import CheckIns, Ids, Kinds, Matching, Reals

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


OPENINGS = 12  # one every two hours
ROUNDS = 6  # that are played from each
MOST_TRIES = 10  # attempts at one round


def alone_s(job: SimulatedJob, eligible: Sample) -> float | None:
    """Seconds; None if no round would close. ``eligible`` are the devices that may serve the job."""
    if not len(eligible):
        return None
    if job.spec.asynchronous is not None:
        return _asynchronous_s(job, eligible)
    first = float(eligible.start_s[0])
    took: list[float] = []
    for at in np.linspace(first, eligible.until_s, OPENINGS, endpoint=False):
        took += _rounds_s(job, eligible, float(at))
    return job.rounds * float(np.mean(took)) if took else None


def _asynchronous_s(job: SimulatedJob, eligible: Sample) -> float | None:
    """A buffer fills as fast as devices come, or as the places are given back, whichever is slower."""
    takes = eligible.durations(job, slice(None))
    fit = np.floor((eligible.end_s - eligible.start_s) / np.maximum(takes, 1e-9))
    tasks = fit if eligible.waiting else np.minimum(fit, 1)
    tasks = np.where(eligible.once, np.minimum(tasks, 1), tasks)
    span = eligible.until_s - float(eligible.start_s[0])
    if not tasks.any() or span <= 0:
        return None
    between = max(span / float(tasks.sum()), float(takes[tasks > 0].mean()) / job.spec.places)
    return job.rounds * job.spec.responses_needed * between


def _rounds_s(job: SimulatedJob, eligible: Sample, at: float) -> list[float]:
    """From the opening of each round to its close, attempts that abort included; those that the sample has whole."""
    free = eligible.start_s.copy() if eligible.waiting else eligible.start_s  # when each session can take a task
    took: list[float] = []
    for _ in range(min(ROUNDS, job.rounds)):
        opened, closed = at, None
        for _ in range(MOST_TRIES):
            if at >= eligible.until_s:
                return took
            closed = _closed_at(job, eligible, free, at)
            if closed is not None:
                break
            at += job.spec.deadline_s
        if closed is None:
            return took
        took.append(closed - opened)
        at = closed
    return took


def _closed_at(job: SimulatedJob, eligible: Sample, free: Reals, opened_s: float) -> float | None:
    """When an attempt closes; None if it aborts. ``free`` is changed where devices wait."""
    spec = job.spec
    deadline = opened_s + spec.deadline_s
    first, last = np.searchsorted(eligible.start_s, [opened_s, deadline])
    rows = np.arange(first, last)
    if eligible.waiting:
        present = np.flatnonzero((eligible.end_s[:last] > opened_s) & (free[:last] < deadline))
        rows = present[np.argsort(np.maximum(free[present], opened_s), kind="stable")]
    start = np.maximum(free[rows], opened_s)
    done = start + eligible.durations(job, rows)
    answers = done <= eligible.end_s[rows]
    taken = int(np.searchsorted(np.cumsum(answers), spec.places)) + 1
    responses = np.sort(done[:taken][answers[:taken]])
    if eligible.waiting:
        used = rows[:taken]
        free[used] = np.where(eligible.once[used], np.inf, done[:taken])
    needed = spec.responses_needed
    if len(responses) < needed or responses[needed - 1] > deadline:
        return None
    return float(responses[needed - 1])


TIERS = 4
PERCENTILES = (5, 25, 50, 75, 95)
HOUR_S = 3600.0


def find_facts(simulation: Simulation) -> TraceFacts:
    """From the first day of the trace. The largest part is that day's sessions: some 60 bytes each."""
    sample = take_sample(simulation)
    groups: dict[str, GroupSupply] = {}
    alone: dict[str, float | None] = {}
    eligible: dict[str, Sample] = {}
    for job in simulation.jobs:
        requirement = str(job.spec.requirement)
        if requirement not in eligible:
            eligible[requirement] = sample.of(job.spec.requirement, simulation)
            groups[requirement] = GroupSupply(job.spec.requirement_label, _per_hour(eligible[requirement]))
        alone[job_name(job.spec.job)] = alone_s(job, eligible[requirement])
    return TraceFacts(
        simulation.settings.seed,
        len(sample),
        tuple(groups.values()),
        tier_times(simulation.jobs, sample),
        alone,
    )


def tier_times(jobs: tuple[SimulatedJob, ...], sample: Sample, tiers: int = TIERS) -> tuple[TierTimes, ...]:
    """Response times of the jobs' mean workload on ``tiers`` equal parts of the sessions, the fastest first."""
    if not len(sample) or not jobs:
        return ()
    compute_s = np.mean([job.spec.workload.compute_s for job in jobs])
    size = np.mean([job.spec.workload.download_bytes + job.spec.workload.upload_bytes for job in jobs])
    times = compute_s * sample.slow + size * sample.byte_s
    parts = np.array_split(times[np.argsort(sample.slow, kind="stable")], tiers)
    return tuple(
        TierTimes(number, *(float(each) for each in np.percentile(part, PERCENTILES)))
        for number, part in enumerate(parts, start=1)
        if len(part)
    )


def folded(values: Reals, seconds: Reals) -> tuple[float | None, ...]:
    """``values`` per second of ``seconds``, both by hour since the start, by hour of the day."""
    hours = np.arange(len(values)) % HOURS
    total = np.bincount(hours, weights=values, minlength=HOURS)
    covered = np.bincount(hours, weights=seconds, minlength=HOURS)
    return tuple(float(value / span) if span > 0 else None for value, span in zip(total, covered, strict=True))


def covered_s(until_s: float) -> Reals:
    """Seconds of each hour since the start that lie before ``until_s``."""
    hours = np.arange(int(until_s // HOUR_S) + 1)
    covered: Reals = np.clip(until_s - hours * HOUR_S, 0.0, HOUR_S)
    return covered


def _per_hour(sample: Sample) -> tuple[float | None, ...]:
    span = covered_s(sample.until_s)
    came = np.bincount((sample.start_s // HOUR_S).astype(np.int64), minlength=len(span)).astype(np.float64)
    return tuple(None if rate is None else rate * HOUR_S for rate in folded(came[: len(span)], span))
