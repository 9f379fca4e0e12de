"""A comparison of policies: runs of one scenario, paired seed by seed, and what may be claimed of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.report.jsonlines import Row, integer, number, text
from testbed.report.statistics import LEAST_RUNS, Estimate, estimate, jain, percentile, ratio


@dataclass(frozen=True, slots=True)
class JobResult:
    name: str
    finished: bool
    jct_s: float | None
    delay_s: float
    collect_s: float
    aborts: int
    stragglers: int
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a comparison takes from a run's summary."""

    policy: str
    seed: int
    folder: str
    devices: int
    backend: str
    mean_jct_s: float | None  # None: a job did not finish, so it is no sample
    jobs: tuple[JobResult, ...]
    saturated: tuple[str, ...]  # why the host was too busy; empty: it was not
    expectations_missed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """Over the seeds at which every job finished."""

    policy: str
    mean_jct_s: Estimate
    speed_up: Estimate | None  # over the first policy; None: it is the first, or no seed is common
    shorter_s: Estimate | None  # by so much, seed by seed
    p95_jct_s: float
    delay_s: float
    collect_s: float
    aborts: float  # per run
    jain: float  # of 1 - delay / JCT over jobs: 1 if all wait alike
    best: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    name: str  # of the scenario
    devices: int
    backend: str
    seeds: tuple[int, ...]
    policies: tuple[PolicyResult, ...]
    runs: tuple[RunResult, ...]

    @property
    def trusted(self) -> bool:
        """No run was on a host that was too busy."""
        return not any(run.saturated for run in self.runs)

    @property
    def complete(self) -> bool:
        """Every job of every run finished."""
        return all(run.mean_jct_s is not None for run in self.runs)


def read_run(summary: Row, folder: str) -> RunResult:
    """From the object of a summary.json."""
    jobs = tuple(_job(row) for row in _rows(summary.get("jobs")))
    jcts = [job.jct_s for job in jobs if job.jct_s is not None]
    host = summary.get("host")
    reasons = host.get("reasons", []) if isinstance(host, Mapping) and host.get("saturated") else []
    return RunResult(
        policy=text(summary, "policy"),
        seed=integer(summary, "seed"),
        folder=folder,
        devices=integer(summary, "devices"),
        backend=text(summary, "backend"),
        mean_jct_s=math.fsum(jcts) / len(jcts) if jcts and not integer(summary, "unfinished_jobs") else None,
        jobs=jobs,
        saturated=tuple(str(reason) for reason in reasons),
        expectations_missed=tuple(
            text(row, "expect") for row in _rows(summary.get("expectations")) if not row.get("held")
        ),
    )


def compare(name: str, policies: Sequence[str], runs: Sequence[RunResult]) -> Comparison:
    """``runs`` is not empty; the first policy is what the others are held against."""
    samples = {
        policy: {run.seed: run for run in runs if run.policy == policy and run.mean_jct_s is not None}
        for policy in policies
    }
    jcts = {policy: {seed: run.mean_jct_s or 0.0 for seed, run in found.items()} for policy, found in samples.items()}
    best = "" if any(run.saturated for run in runs) else _best(jcts)
    results = [
        _policy(
            policy,
            list(found.values()),
            jcts[policy],
            jcts[policies[0]] if policy != policies[0] else None,
            policy == best,
        )
        for policy, found in samples.items()
        if found
    ]
    seeds = tuple(sorted({run.seed for run in runs}))
    return Comparison(name, runs[0].devices, runs[0].backend, seeds, tuple(results), tuple(runs))


def verdict(comparison: Comparison, result: PolicyResult) -> str:
    """What may be said of a policy against the first; a claim only where the interval allows it."""
    if result.shorter_s is None:
        return f"{result.policy} has no seed in common with {comparison.policies[0].policy}: no claim"
    found = result.shorter_s
    against = f"{result.policy} against {comparison.policies[0].policy}, seed by seed"
    shorter = found.mean >= 0
    if found.runs < LEAST_RUNS:
        seeds = f"{found.runs} of the {LEAST_RUNS} seeds that a claim needs"
        return f"{against}: {abs(found.mean):.1f} s {'shorter' if shorter else 'longer'} over {seeds}: no claim"
    low, high = (found.low, found.high) if shorter else (-found.high, -found.low)
    said = f"{against}: {abs(found.mean):.1f} s {'shorter' if shorter else 'longer'} (95 % CI {low:.1f} to {high:.1f})"
    if not comparison.trusted:
        return f"{said}: the host was too busy, no claim"
    return f"{said}: the difference is real" if found.real else f"{said}: the interval has 0 in it, no claim"


def _policy(
    policy: str, runs: Sequence[RunResult], jcts: Mapping[int, float], base: Mapping[int, float] | None, best: bool
) -> PolicyResult:
    jobs = [job for run in runs for job in run.jobs if job.jct_s is not None]
    common = sorted(jcts.keys() & base.keys()) if base is not None else []
    served = [jain([1 - job.delay_s / job.jct_s for job in run.jobs if job.jct_s]) for run in runs]
    return PolicyResult(
        policy=policy,
        mean_jct_s=estimate(list(jcts.values())),
        speed_up=ratio([base[seed] / jcts[seed] for seed in common]) if base is not None and common else None,
        shorter_s=estimate([base[seed] - jcts[seed] for seed in common]) if base is not None and common else None,
        p95_jct_s=percentile([job.jct_s for job in jobs if job.jct_s is not None], 0.95),
        delay_s=math.fsum(job.delay_s for job in jobs) / len(jobs),
        collect_s=math.fsum(job.collect_s for job in jobs) / len(jobs),
        aborts=sum(job.aborts for run in runs for job in run.jobs) / len(runs),
        jain=math.fsum(served) / len(served),
        best=best,
    )


def _best(jcts: Mapping[str, Mapping[int, float]]) -> str:
    """The policy that is really shorter than each other one, seed by seed; empty: none is."""
    for policy, own in jcts.items():
        others = [other for name, other in jcts.items() if name != policy]
        pairs = [[other[seed] - own[seed] for seed in own.keys() & other.keys()] for other in others]
        if pairs and all(pair and (found := estimate(pair)).real and found.low > 0 for pair in pairs):
            return policy
    return ""


def _job(row: Row) -> JobResult:
    jct, accuracy = row.get("jct_s"), row.get("accuracy")
    return JobResult(
        name=text(row, "name"),
        finished=bool(row.get("finished")),
        jct_s=float(jct) if isinstance(jct, int | float) else None,
        delay_s=number(row, "delay_s"),
        collect_s=number(row, "collect_s"),
        aborts=integer(row, "aborts"),
        stragglers=integer(row, "stragglers"),
        accuracy=float(accuracy) if isinstance(accuracy, int | float) else None,
    )


def _rows(value: object) -> list[Row]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
