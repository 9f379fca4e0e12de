"""A comparison of policies: runs of one scenario, paired seed by seed, and what may be claimed of them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]

from coordinator.engine.explain import Why
from testbed.report.words import policy as short
from testbed.runfolder.attempts import mean_jct
from testbed.runfolder.jsonlines import Row, integer, maybe, plain_fields, rows_in, text
from testbed.runfolder.summary import JobFigures, Waited


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run of a comparison."""

    policy: str
    seed: int
    folder: str  # or the file
    devices: int
    backend: str
    mean_jct_s: float | None  # None: a job did not finish, so it is no sample
    jobs: tuple[JobFigures, ...]
    alone_s: Mapping[str, float | None]  # by job: its JCT with nothing else running; None: not known
    saturated: tuple[str, ...]  # why the host was too busy; empty: it was not
    expectations_missed: tuple[str, ...]
    digest: str = ""  # of all decisions
    check_ins: int = 0  # simulated
    wall_s: float = 0.0  # that its simulation took
    path: str = ""  # "events" or "bulk"
    why: str = ""  # it was not simulated in bulk
    wanted: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    # by requirement: devices that unfilled requests ask for, in the mean, by hour of the day


def read_run(summary: Row, folder: str) -> RunResult:
    """Makes a result from the object of a summary.json, or of a cell's file."""
    rows = rows_in(summary.get("jobs"))
    jobs = tuple(JobFigures(**plain_fields(JobFigures, row), waits=_waits(row)) for row in rows)
    host = summary.get("host")
    reasons = host.get("reasons", []) if isinstance(host, Mapping) and host.get("saturated") else []
    wanted = summary.get("wanted")
    found = plain_fields(RunResult, summary) | {
        "folder": folder,
        "mean_jct_s": None if integer(summary, "unfinished_jobs") else mean_jct(jobs),
        "jobs": jobs,
        "alone_s": {text(row, "name"): maybe(row.get("alone_s")) for row in rows},
        "saturated": tuple(str(reason) for reason in reasons),
        "expectations_missed": tuple(
            text(row, "expect") for row in rows_in(summary.get("expectations")) if not row.get("held")
        ),
        "wanted": {str(name): _hours(values) for name, values in wanted.items()} if isinstance(wanted, dict) else {},
    }
    return RunResult(**found)


def _waits(job: Row) -> tuple[Waited, ...]:
    """The reasons of a job's delay; none where its run kept no journal."""
    known = [row for row in rows_in(job.get("waits")) if text(row, "why") in set(Why)]
    return tuple(Waited(**plain_fields(Waited, row), why=Why(text(row, "why"))) for row in known)


HOURS = 24  # of the day


@dataclass(frozen=True, slots=True)
class GroupSupply:
    """The devices that the jobs with one requirement may use."""

    name: str  # of the requirement
    per_hour: tuple[float | None, ...]  # check-ins an hour, by hour of the day; None: no such hour in the sample


@dataclass(frozen=True, slots=True)
class TierTimes:
    """Response times on one tier of the devices: a task of the jobs' mean workload, without noise, seconds."""

    tier: int  # from 1, the fastest
    p5_s: float
    p25_s: float
    p50_s: float
    p75_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """Facts from the first sessions of a trace: a day of them, or what there is."""

    seed: int
    sampled: int  # sessions
    groups: tuple[GroupSupply, ...]
    tiers: tuple[TierTimes, ...]
    alone_s: Mapping[str, float | None]  # by job: its JCT with nothing else running; None: it would not finish a round


def read_facts(row: Row) -> TraceFacts:
    """Makes facts from the object of a world's file."""
    alone = row.get("alone_s")
    return TraceFacts(
        integer(row, "seed"),
        integer(row, "sampled"),
        tuple(GroupSupply(text(each, "name"), _hours(each.get("per_hour"))) for each in rows_in(row.get("groups"))),
        tuple(TierTimes(**plain_fields(TierTimes, each)) for each in rows_in(row.get("tiers"))),
        {str(job): maybe(value) for job, value in alone.items()} if isinstance(alone, dict) else {},
    )


def _hours(value: object) -> tuple[float | None, ...]:
    return tuple(maybe(one) for one in value) if isinstance(value, list) else ()


CONFIDENCE = 0.95
LEAST_RUNS = 3  # fewer say nothing about the spread from run to run


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs. With fewer than two there is no interval: it is then infinite."""

    mean: float
    low: float
    high: float
    spread: float  # standard deviation from run to run
    runs: int

    def clear_of(self, value: float) -> bool:
        """Whether the interval leaves a value out, over enough runs to say so."""
        return self.runs >= LEAST_RUNS and (self.low > value or self.high < value)

    def inverse(self) -> "Estimate":
        """The inverse of a ``ratio``."""
        low = 0.0 if self.high == math.inf else 1 / self.high
        return Estimate(1 / self.mean, low, 1 / self.low if self.low else math.inf, self.spread, self.runs)


def estimate(values: Sequence[float]) -> Estimate:
    """The t-interval of a mean. ``values`` is not empty."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Estimate(mean, -math.inf, math.inf, 0.0, n)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * spread / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, spread, n)


def ratio(values: Sequence[float]) -> Estimate:
    """The geometric mean of ratios, with the t-interval of their logarithms; all are > 0."""
    logs = estimate([math.log(value) for value in values])
    return Estimate(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), math.expm1(logs.spread), logs.runs)


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 if all are equal, 1/n if one has everything. Values are >= 0."""
    squares = sum(value * value for value in values)
    return 1.0 if squares == 0 else sum(values) ** 2 / (len(values) * squares)


MEAN_JCT, P50_JCT, P95_JCT, P99_JCT, JAIN = "mean_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "jain"
MEAN_DELAY, MEAN_COLLECT, ABORTS, WASTED = "delay_s", "collect_s", "aborts", "wasted_device_s"
PAIRED = (MEAN_JCT, P95_JCT, P99_JCT, JAIN)  # the measures of which two policies are held against each other


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The result of one policy, over the seeds at which every job finished on a host that was not too busy.

    If it always was, over those at which every job finished; nothing is claimed of it then.
    """

    policy: str
    measures: Mapping[str, Estimate]  # each of ``MEASURES``: a figure of a run, in the mean over seeds
    unfinished: tuple[int, ...]  # seeds that are left out: a job did not finish
    busy: tuple[int, ...]  # seeds at which the host was too busy; left out, if there are others
    best: bool  # its claim against every other policy is that it is ahead

    @property
    def mean_jct_s(self) -> Estimate:
        """The mean over runs of the mean JCT, seconds."""
        return self.measures[MEAN_JCT]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies, over the seeds that neither of them leaves out."""

    policy: str
    against: str
    by_seed: Mapping[str, Mapping[int, float]]  # each of ``PAIRED``: how many times better ``policy`` is, if above 1
    ratios: Mapping[str, Estimate]  # their geometric means
    ahead: str  # the one of which a shorter mean JCT may be claimed; empty: of neither
    why: str  # nothing may be claimed; empty: something may

    @property
    def speed_up(self) -> Estimate:
        """How many times shorter the mean JCT of ``policy`` is than that of ``against``."""
        return self.ratios[MEAN_JCT]

    def turned(self) -> "Pair":
        """The pair seen from the other policy."""
        by_seed = {name: {seed: 1 / one for seed, one in found.items()} for name, found in self.by_seed.items()}
        ratios = {name: found.inverse() for name, found in self.ratios.items()}
        return Pair(self.against, self.policy, by_seed, ratios, self.ahead, self.why)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Policies on one workload: the result of each, and of every two what may be claimed of their difference."""

    name: str  # of the scenario
    over: tuple[str, ...]  # the policies that the others are held against in tables and figures
    devices: int  # 0: not counted, as in a simulation
    backend: str
    seeds: tuple[int, ...]
    policies: tuple[PolicyResult, ...]  # without those that finished at no seed
    pairs: tuple[Pair, ...]  # every two with a seed in common: each against those before it
    runs: tuple[RunResult, ...]
    facts: tuple[TraceFacts, ...] = ()  # of simulated worlds, by seed

    @property
    def trusted(self) -> bool:
        """Whether a host that was too busy left every policy with as many seeds as a claim needs."""
        found = {result.policy: len(result.busy) for result in self.policies}
        least = min(LEAST_RUNS, len(self.seeds))
        asked = {run.policy for run in self.runs if run.saturated}
        return all(len(self.seeds) - found.get(policy, len(self.seeds)) >= least for policy in asked)

    @property
    def complete(self) -> bool:
        """Whether every job of every run finished."""
        return all(run.mean_jct_s is not None for run in self.runs)

    def pair(self, policy: str, against: str) -> Pair | None:
        """The pair of two policies, in the order asked for; None: no seed is common."""
        for one in self.pairs:
            if (one.policy, one.against) == (policy, against):
                return one
            if (one.policy, one.against) == (against, policy):
                return one.turned()
        return None


def compare(
    name: str,
    policies: Sequence[str],
    runs: Sequence[RunResult],
    facts: Sequence[TraceFacts] = (),
    over: Sequence[str] = (),
) -> Comparison:
    """Compares policies by their runs, of which there is at least one. ``over``: by default the first policy."""
    finished = {
        policy: believed([run for run in runs if run.policy == policy and run.mean_jct_s]) for policy in policies
    }
    busy = {policy: _seeds(run for run in runs if run.policy == policy and run.saturated) for policy in policies}
    left_out = {
        policy: _seeds(run for run in runs if run.policy == policy and not run.mean_jct_s and not run.saturated)
        for policy in policies
    }
    pairs = [
        _pair(after, before, finished, left_out)
        for before, after in combinations(policies, 2)
        if finished[before].keys() & finished[after].keys()
    ]
    results = [
        PolicyResult(
            policy,
            {measure: estimate([of(run) for run in own.values()]) for measure, of in MEASURES.items()},
            left_out[policy],
            busy[policy],
            best=sum(pair.ahead == policy for pair in pairs) == len(policies) - 1 > 0,
        )
        for policy, own in finished.items()
        if own
    ]
    return Comparison(
        name,
        tuple(over) or (policies[0],),
        runs[0].devices,
        runs[0].backend,
        tuple(sorted({run.seed for run in runs})),
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
    alone = [run.alone_s.get(job.name) for job in jobs]
    if jobs and all(alone):
        return jain([(job.jct_s or 0.0) / (one or 1.0) for job, one in zip(jobs, alone, strict=True)])
    return jain([1 - job.delay_s / job.jct_s for job in jobs if job.jct_s])


def _at(percent: float) -> Callable[[RunResult], float]:
    return lambda run: float(np.percentile([job.jct_s for job in run.jobs if job.jct_s is not None], percent))


MEASURES: Mapping[str, Callable[[RunResult], float]] = {  # of a run whose jobs all finished
    MEAN_JCT: lambda run: run.mean_jct_s or 0.0,
    P50_JCT: _at(50),  # over the jobs of the run
    P95_JCT: _at(95),
    P99_JCT: _at(99),
    JAIN: fairness,
    MEAN_DELAY: lambda run: math.fsum(job.delay_s for job in run.jobs) / len(run.jobs),
    MEAN_COLLECT: lambda run: math.fsum(job.collect_s for job in run.jobs) / len(run.jobs),
    ABORTS: lambda run: sum(job.aborts for job in run.jobs),
    WASTED: lambda run: math.fsum(job.wasted_device_s for job in run.jobs),
}


def believed(finished: Sequence[RunResult]) -> dict[int, RunResult]:
    """The finished runs by seed: those on a host that was not too busy, or all if there are none, and no claim."""
    quiet = [run for run in finished if not run.saturated]
    return {run.seed: run for run in quiet or finished}


def _seeds(runs: Iterable[RunResult]) -> tuple[int, ...]:
    return tuple(sorted(run.seed for run in runs))


def _pair(
    policy: str, against: str, finished: Mapping[str, Mapping[int, RunResult]], left_out: Mapping[str, tuple[int, ...]]
) -> Pair:
    """Compares two policies that have a seed in common."""
    common = sorted(finished[policy].keys() & finished[against].keys())
    by_seed = {
        name: {seed: _times(name, finished[policy][seed], finished[against][seed]) for seed in common}
        for name in PAIRED
    }
    ratios = {name: ratio(list(found.values())) for name, found in by_seed.items()}
    busy = any(finished[one][seed].saturated for one in (policy, against) for seed in common)
    ahead = policy if ratios[MEAN_JCT].mean > 1 else against
    why = _no_claim(ratios[MEAN_JCT], ahead, left_out[ahead], busy=busy)
    return Pair(policy, against, by_seed, ratios, "" if why else ahead, why)


def _times(measure: str, run: RunResult, other: RunResult) -> float:
    """How many times better a run is than another: shorter, or fairer."""
    own, base = MEASURES[measure](run), MEASURES[measure](other)
    return own / base if measure == JAIN else base / own


def _no_claim(speed_up: Estimate, ahead: str, left_out: Sequence[int], *, busy: bool) -> str:
    """Why it may not be claimed that a policy is ahead; empty: it may.

    One that did not finish at some seeds was ahead only where it got through, so nothing is claimed of it.
    """
    if busy:
        return "the host was too busy"
    if speed_up.runs < LEAST_RUNS:
        return f"{speed_up.runs} of the {LEAST_RUNS} seeds that a claim needs"
    if not speed_up.clear_of(1.0):
        return "the interval includes 1"
    if left_out:
        return f"{short(ahead)} did not finish at seed {', '.join(map(str, left_out))}"
    return ""
