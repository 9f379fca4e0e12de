"""A comparison of policies: runs of one scenario, paired seed by seed, and what may be claimed of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from testbed.report.run_result import RunResult
from testbed.report.statistics import LEAST_RUNS, Estimate, estimate, jain, percentile, ratio
from testbed.report.trace_facts import TraceFacts
from testbed.report.words import policy as short


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """Over the seeds at which every job finished."""

    policy: str
    mean_jct_s: Estimate
    speed_up: Estimate | None  # over the first policy; None: it is the first, or no seed is common
    shorter_s: Estimate | None  # by so much, seed by seed
    p50_jct_s: float  # percentiles over the jobs of all runs
    p95_jct_s: float
    p99_jct_s: float
    delay_s: float  # per job
    collect_s: float
    aborts: float  # per run
    wasted_device_s: float  # per run: worked on leases that are in no closed round
    jain: float  # mean over runs, see ``fairness``
    best: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies, seed by seed."""

    policy: str
    against: str
    shorter_s: Estimate  # the mean JCT of ``policy`` is, than that of ``against``
    speed_up: Estimate  # of ``policy`` over ``against``


@dataclass(frozen=True, slots=True)
class Comparison:
    name: str  # of the scenario
    first: str  # the policy that the others are held against
    devices: int  # 0: not counted, as in a simulation
    backend: str
    seeds: tuple[int, ...]
    policies: tuple[PolicyResult, ...]
    pairs: tuple[Pair, ...]  # every two with a seed in common: each against those before it
    runs: tuple[RunResult, ...]
    facts: tuple[TraceFacts, ...] = ()  # of simulated worlds, by seed

    @property
    def trusted(self) -> bool:
        """No run was on a host that was too busy."""
        return not any(run.saturated for run in self.runs)

    @property
    def complete(self) -> bool:
        """Every job of every run finished."""
        return all(run.mean_jct_s is not None for run in self.runs)


def compare(
    name: str, policies: Sequence[str], runs: Sequence[RunResult], facts: Sequence[TraceFacts] = ()
) -> Comparison:
    """``runs`` is not empty; the first policy is what the others are held against."""
    samples = {
        policy: {run.seed: run for run in runs if run.policy == policy and run.mean_jct_s is not None}
        for policy in policies
    }
    jcts = {policy: {seed: run.mean_jct_s or 0.0 for seed, run in found.items()} for policy, found in samples.items()}
    pairs = [
        pair
        for before, after in combinations(policies, 2)
        if (pair := _pair(after, jcts[after], before, jcts[before])) is not None
    ]
    best = "" if any(run.saturated for run in runs) else _best(policies, pairs)
    against_first = {pair.policy: pair for pair in pairs if pair.against == policies[0]}
    results = [
        _policy(policy, list(found.values()), jcts[policy], against_first.get(policy), policy == best)
        for policy, found in samples.items()
        if found
    ]
    seeds = tuple(sorted({run.seed for run in runs}))
    return Comparison(
        name,
        policies[0],
        runs[0].devices,
        runs[0].backend,
        seeds,
        tuple(results),
        tuple(pairs),
        tuple(runs),
        tuple(facts),
    )


def fairness(run: RunResult) -> float:
    """Jain's index over the run's jobs: of JCT over fair JCT where the JCT alone is known (the fair one is M times it,
    and M, the number of jobs, cancels out); else of 1 - delay / JCT, the share of its time that a job was served.
    """
    jobs = [job for job in run.jobs if job.jct_s]
    if jobs and all(job.alone_s for job in jobs):
        return jain([(job.jct_s or 0.0) / (job.alone_s or 1.0) for job in jobs])
    return jain([1 - job.delay_s / job.jct_s for job in jobs if job.jct_s])


def verdict(comparison: Comparison, result: PolicyResult, unit: "Unit | None" = None) -> str:
    """What may be said of a policy against the first; a claim only where the interval allows it."""
    unit = unit or SECONDS
    policy, first = short(result.policy), short(comparison.first)
    if result.shorter_s is None:
        return f"{policy} has no seed in common with {first}: no claim"
    found = result.shorter_s
    against = f"{policy} against {first}, seed by seed"
    shorter = found.mean >= 0
    by = f"{unit.text(abs(found.mean))} {unit.name} {'shorter' if shorter else 'longer'}"
    if found.runs < LEAST_RUNS:
        return f"{against}: {by} over {found.runs} of the {LEAST_RUNS} seeds that a claim needs: no claim"
    low, high = (found.low, found.high) if shorter else (-found.high, -found.low)
    said = f"{against}: {by} (95 % CI {unit.text(low)} to {unit.text(high)})"
    if not comparison.trusted:
        return f"{said}: the host was too busy, no claim"
    return f"{said}: the difference is real" if found.real else f"{said}: the interval has 0 in it, no claim"


@dataclass(frozen=True, slots=True)
class Unit:
    """What times are written in, so that they have few digits."""

    name: str
    seconds: float
    digits: int

    def text(self, seconds: float) -> str:
        return f"{seconds / self.seconds:.{self.digits}f}"


SECONDS = Unit("s", 1.0, 1)
HOURS = Unit("h", 3600.0, 2)


def unit_of(comparison: Comparison) -> Unit:
    """Hours from 10,000 s on."""
    longest = max((result.mean_jct_s.mean for result in comparison.policies), default=0.0)
    return HOURS if longest >= 10_000 else SECONDS


def _policy(
    policy: str, runs: Sequence[RunResult], jcts: Mapping[int, float], pair: Pair | None, best: bool
) -> PolicyResult:
    jobs = [job for run in runs for job in run.jobs if job.jct_s is not None]
    times = [job.jct_s for job in jobs if job.jct_s is not None]
    return PolicyResult(
        policy=policy,
        mean_jct_s=estimate(list(jcts.values())),
        speed_up=pair.speed_up if pair else None,
        shorter_s=pair.shorter_s if pair else None,
        p50_jct_s=percentile(times, 0.5),
        p95_jct_s=percentile(times, 0.95),
        p99_jct_s=percentile(times, 0.99),
        delay_s=math.fsum(job.delay_s for job in jobs) / len(jobs),
        collect_s=math.fsum(job.collect_s for job in jobs) / len(jobs),
        aborts=sum(job.aborts for run in runs for job in run.jobs) / len(runs),
        wasted_device_s=math.fsum(job.wasted_device_s for run in runs for job in run.jobs) / len(runs),
        jain=math.fsum(fairness(run) for run in runs) / len(runs),
        best=best,
    )


def _pair(policy: str, own: Mapping[int, float], against: str, other: Mapping[int, float]) -> Pair | None:
    common = sorted(own.keys() & other.keys())
    if not common:
        return None
    shorter = estimate([other[seed] - own[seed] for seed in common])
    return Pair(policy, against, shorter, ratio([other[seed] / own[seed] for seed in common]))


def _best(policies: Sequence[str], pairs: Sequence[Pair]) -> str:
    """The policy that is really shorter than each other one, seed by seed; empty: none is."""
    for policy in policies:
        own = [pair.shorter_s for pair in pairs if pair.policy == policy]
        others = [pair.shorter_s for pair in pairs if pair.against == policy]
        ahead = all(one.real and one.low > 0 for one in own) and all(one.real and one.high < 0 for one in others)
        if ahead and len(own) + len(others) == len(policies) - 1 > 0:
            return policy
    return ""
