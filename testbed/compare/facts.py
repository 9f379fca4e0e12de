"""Facts of a simulated world that hold under every policy, from the first sessions of its trace.

The fair JCT of a job is M times its JCT alone, M being the number of jobs. Simulating each job alone would cost more
than the comparison itself, so it is estimated: at times spread evenly over the sampled day, a few rounds are played on
the very sessions that come then (the first eligible devices take the places, the K-th response closes a round, the
deadline aborts it), and their mean, times the number of rounds, is the JCT alone. Left out are noise, limits over the
day, that a device counts once a round (each session takes part once in an attempt, but a device may have two), and the
time in which a place is held by a device that will not answer: the next device takes it at once. The rounds of an
asynchronous job overlap: they are not played, but follow from the rates of devices and places.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import job_name
from testbed.report.comparison import HOURS, GroupSupply, TierTimes, TraceFacts
from testbed.simulate.model import SimulatedJob, Simulation
from testbed.world.arrays import CheckIns, Ids, Matching, Reals

SAMPLED_S = 86_400.0  # a day: after it the swing repeats itself
MOST_SAMPLED = 4_000_000  # sessions
MOST_WAITING = 300_000  # where devices wait: finding those that do takes a look at all


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The first sessions of a trace, enough to say what its devices are like."""

    sessions: CheckIns
    once: NDArray[np.bool_]  # whether a session may do one task only
    until_s: float  # all that starts before is in the sample
    waiting: bool  # devices wait while their session lasts

    def where(self, rows: NDArray[np.bool_]) -> "Sample":
        """These rows of the sample."""
        return replace(self, sessions=self.sessions.take(rows), once=self.once[rows])

    def durations(self, job: SimulatedJob, rows: Ids | slice) -> Reals:
        """Seconds of a task of ``job``, without noise."""
        work = job.spec.workload
        transfers_s = (work.download_bytes + work.upload_bytes) * self.sessions.byte_s[rows]
        return work.compute_s * self.sessions.slow[rows] + transfers_s

    def __len__(self) -> int:
        return len(self.sessions)


def take_sample(simulation: Simulation) -> Sample:
    """Reads a day of the trace, or what there is of it, or as many sessions as are admitted."""
    blocks: list[CheckIns] = []
    rows = 0
    waiting = simulation.matching is Matching.WHILE_PRESENT
    most = MOST_WAITING if waiting else MOST_SAMPLED
    for block in simulation.trace():
        blocks.append(block)
        rows += len(block)
        if len(block) and (block.start_s[-1] >= SAMPLED_S or rows >= most):
            break
    whole = CheckIns.joined(blocks)
    until = min(float(whole.start_s[-1]), SAMPLED_S) if len(whole) else 0.0
    sessions = whole.take(slice(0, int(np.searchsorted(whole.start_s, until, side="right"))))
    limits = simulation.limits or ((simulation.tasks_per_session, 0),) * len(simulation.kinds)
    once = np.array([tasks == 1 for tasks, _ in limits], dtype=np.bool_)
    return Sample(sessions, once[sessions.kind], until, waiting)


OPENINGS = 12  # one every two hours
ROUNDS = 6  # that are played from each
MOST_TRIES = 10  # attempts at one round


def alone_s(job: SimulatedJob, eligible: Sample) -> float | None:
    """Estimates the JCT of a job with nothing else running, seconds; None if no round would close.

    ``eligible`` are the sessions that may serve the job."""
    if not len(eligible):
        return None
    if job.spec.asynchronous is not None:
        return _asynchronous_s(job, eligible)
    first = float(eligible.sessions.start_s[0])
    took: list[float] = []
    for at in np.linspace(first, eligible.until_s, OPENINGS, endpoint=False):
        took += _rounds_s(job, eligible, float(at))
    return job.rounds * float(np.mean(took)) if took else None


def _asynchronous_s(job: SimulatedJob, eligible: Sample) -> float | None:
    """The same for an asynchronous job: its buffer fills as fast as devices come or as places are given back."""
    takes = eligible.durations(job, slice(None))
    fit = np.floor((eligible.sessions.end_s - eligible.sessions.start_s) / np.maximum(takes, 1e-9))
    tasks = fit if eligible.waiting else np.minimum(fit, 1)
    tasks = np.where(eligible.once, np.minimum(tasks, 1), tasks)
    span = eligible.until_s - float(eligible.sessions.start_s[0])
    if not tasks.any() or span <= 0:
        return None
    between = max(span / float(tasks.sum()), float(takes[tasks > 0].mean()) / job.spec.places)
    return job.rounds * job.spec.responses_needed * between


def _rounds_s(job: SimulatedJob, eligible: Sample, at: float) -> list[float]:
    """Seconds from the opening of each round that the sample has whole to its close, with attempts that abort."""
    free = (
        eligible.sessions.start_s.copy() if eligible.waiting else eligible.sessions.start_s
    )  # when each session can take a task
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
    """The time at which an attempt closes; None if it aborts. ``free`` is changed where devices wait."""
    spec = job.spec
    deadline = opened_s + spec.deadline_s
    first, last = np.searchsorted(eligible.sessions.start_s, [opened_s, deadline])
    rows = np.arange(first, last)
    if eligible.waiting:
        present = np.flatnonzero((eligible.sessions.end_s[:last] > opened_s) & (free[:last] < deadline))
        rows = present[np.argsort(np.maximum(free[present], opened_s), kind="stable")]
    start = np.maximum(free[rows], opened_s)
    done = start + eligible.durations(job, rows)
    answers = done <= eligible.sessions.end_s[rows]
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
    """Finds the facts of the first day of the trace. It keeps that day's sessions in memory, some 60 bytes each."""
    sample = take_sample(simulation)
    groups: dict[str, GroupSupply] = {}
    alone: dict[str, float | None] = {}
    eligible: dict[str, Sample] = {}
    for job in simulation.jobs:
        requirement = str(job.spec.requirement)
        if requirement not in eligible:
            kinds = range(len(simulation.kinds))
            able = np.array([job.spec.requirement.matches(*simulation.sample(kind)) for kind in kinds], dtype=np.bool_)
            eligible[requirement] = sample.where(able[sample.sessions.kind])
            groups[requirement] = GroupSupply(job.spec.requirement_label, _per_hour(eligible[requirement]))
        alone[job_name(job.spec.job)] = alone_s(job, eligible[requirement])
    return TraceFacts(
        simulation.settings.seed, len(sample), tuple(groups.values()), tier_times(simulation.jobs, sample), alone
    )


def tier_times(jobs: tuple[SimulatedJob, ...], sample: Sample, tiers: int = TIERS) -> tuple[TierTimes, ...]:
    """Response times of the jobs' mean workload on ``tiers`` equal parts of the sessions, the fastest first."""
    if not len(sample) or not jobs:
        return ()
    compute_s = np.mean([job.spec.workload.compute_s for job in jobs])
    size = np.mean([job.spec.workload.download_bytes + job.spec.workload.upload_bytes for job in jobs])
    times = compute_s * sample.sessions.slow + size * sample.sessions.byte_s
    parts = np.array_split(times[np.argsort(sample.sessions.slow, kind="stable")], tiers)
    return tuple(
        TierTimes(number, *(float(each) for each in np.percentile(part, PERCENTILES)))
        for number, part in enumerate(parts, start=1)
        if len(part)
    )


def folded(values: Reals, seconds: Reals) -> tuple[float | None, ...]:
    """Rates by hour of the day: ``values`` per second of ``seconds``, both by hour since the start."""
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
    came = np.bincount((sample.sessions.start_s // HOUR_S).astype(np.int64), minlength=len(span)).astype(np.float64)
    return tuple(None if rate is None else rate * HOUR_S for rate in folded(came[: len(span)], span))
