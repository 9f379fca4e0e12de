"""What a job would take with nothing else running: the measure of its fair share.

The fair JCT of a job is M times its JCT alone, M being the number of jobs. Simulating each job alone would cost more
than the comparison itself, so it is estimated: at times spread evenly over the sampled day, a few rounds are played on
the very sessions that come then (the first eligible devices take the places, the K-th response closes a round, the
deadline aborts it), and their mean, times the number of rounds, is the JCT alone. Left out are noise, limits over the
day, that a device counts once a round (each session takes part once in an attempt, but a device may have two), and the
time in which a place is held by a device that will not answer: the next device takes it at once. The
rounds of an asynchronous job overlap: they are not played, but follow from the rates of devices and places.
"""

import numpy as np

from testbed.compare.sample import Sample
from testbed.population.arrays import Reals
from testbed.simulator.model import SimulatedJob

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
