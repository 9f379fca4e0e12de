"""Finds what is true of a simulated world under every policy."""

import numpy as np

from testbed.compare.alone import alone_s
from testbed.compare.sample import Sample, take_sample
from testbed.population.arrays import Reals
from testbed.report.trace_facts import HOURS, GroupSupply, TierTimes, TraceFacts
from testbed.simulator.model import SimulatedJob, Simulation

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
            groups[requirement] = GroupSupply(group_name(job), _per_hour(eligible[requirement]))
        alone[job_name(job)] = alone_s(job, eligible[requirement])
    return TraceFacts(
        simulation.settings.seed,
        len(sample),
        tuple(groups.values()),
        tier_times(simulation.jobs, sample),
        alone,
    )


def job_name(job: SimulatedJob) -> str:
    """As in the scenario: NAME of owner/NAME/run."""
    return job.spec.job.split("/")[1] if job.spec.job.count("/") == 2 else job.spec.job


def group_name(job: SimulatedJob) -> str:
    """What a job's requirement is called."""
    return job.spec.requirement_name or str(job.spec.requirement)


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
