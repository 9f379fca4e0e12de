"""What no policy changes: a lower bound on the mean JCT, and what jobs ask for against what devices there are.

No policy, though it knew every check-in, can do better than the lower bound of a simulation.

Job j arrives at a(j) and ends when R(j) rounds have closed, each with K(j) counted responses. Matched at check-in, each
counted response takes a check-in of its own, of an eligible device, after the job's arrival. So the job takes at least
W(j) = R(j) x K(j) check-ins; let F(j, t) be the part of them that it was given by t. Two facts hold of any schedule.

**Alone.** A round ends no sooner than the K-th of the responses that all eligible devices which check in after its
opening would send, if each were given to it; and a round that opens later ends no sooner. Round after round this gives
a bound on each JCT, ``alone``. (The rounds of an asynchronous job count as one: its leases outlive them.)

**Together.** Let j end at C. Before that 1 - F(j, t) is positive, but it need not be 1: it is at most
min(1, S(t, C) / W), with S(t, C) the eligible check-ins from t to C, since the rest has to fit in there. So

    C - a  >=  integral of (1 - F) from a on  +  integral of max(0, 1 - S(t, C) / W) from a to C,

and the second integral, ``tail``, is at least its least value over all C. What is left is to minimise the sum of the
first integrals, a linear program: share the check-ins of each region and each span of time among the jobs that can use
them. It is relaxed so that it stays a bound: check-ins are divisible and known in advance, those of a span may be used
at its start, rounds have no order, nothing is aborted or wasted, leases take no time, a device may count in a round as
often as it comes, and what is left at the horizon is done at once.

The trace is read to a second horizon, beyond that of the program. A job that ends after it has a JCT of more than the
time from its arrival to it; no figure of a job exceeds that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog  # type: ignore[import-untyped]  # it ships no types
from scipy.sparse import coo_array  # type: ignore[import-untyped]

from coordinator.engine.requirements import Requirement
from testbed.simulate.model import SimulatedJob, Simulation, noise_table
from testbed.world.arrays import Ids, Kinds, Matching, Reals
from venn.wire.errors import UsageError

SPANS = 400  # of the program, beside those that begin with an arrival
FINE = 4096  # steps of the grid on which tails are taken
MOST_CHECK_INS = 20_000_000
SLACK = 1.25  # the program's horizon over when all could be done
BEYOND = 1.5  # how far the trace is read, over that horizon


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The bound in seconds, by job; the mean of ``jct_s`` is it. (It is on the mean, not on each of them.)"""

    jct_s: Reals
    alone_s: Reals  # each is a bound on that job's JCT

    @property
    def mean_jct_s(self) -> float:
        return float(self.jct_s.mean())


def lower_bound(simulation: Simulation) -> Bound:
    """The bound. Raises UsageError: devices are not matched at check-in, or the trace is too long or too short."""
    if simulation.matching is not Matching.AT_CHECK_IN:
        raise UsageError("NO_BOUND", "there is no bound where devices wait", where="match", fix="write at check-in")
    supply = _read(simulation)
    latest = supply.until_s - supply.arrives_s
    alone = np.array([_alone(supply, simulation, index) for index in range(len(simulation.jobs))])
    tails = np.array([_tail(supply, index) for index in range(len(simulation.jobs))])
    alone, tails = np.minimum(alone, latest), np.minimum(tails, supply.until_s - supply.horizon_s)
    return Bound(_program(supply, alone, tails), alone)


@dataclass(frozen=True, slots=True, eq=False)
class _Supply:
    """The check-ins that any job can use, in order of time, and what the jobs take of them."""

    start_s: Reals
    region: Kinds  # devices of one region can serve the same jobs
    slow: Reals
    byte_s: Reals
    can_use: NDArray[np.bool_]  # (jobs, regions)
    arrives_s: Reals  # of each job
    takes: Ids  # W of each job
    horizon_s: float
    until_s: float  # as far as the trace was read, beyond the horizon

    def usable(self, job: int) -> NDArray[np.bool_]:
        return np.asarray(self.can_use[job, self.region])


def _read(simulation: Simulation) -> _Supply:
    """Read so many check-ins that all jobs could be done within the horizon."""
    can_use, region_of = _regions(simulation)
    takes = np.array([job.rounds * job.spec.responses_needed for job in simulation.jobs], np.int64)
    arrives = np.array([job.arrives_s for job in simulation.jobs])
    seen = np.zeros(can_use.shape[1], np.int64)
    parts: list[tuple[Reals, Kinds, Reals, Reals]] = []
    horizon = until = np.inf
    for block in filter(len, simulation.trace()):
        region = region_of[block.kind]
        kept = (region >= 0) & (block.start_s <= until)
        parts.append((block.start_s[kept], region[kept], block.slow[kept], block.byte_s[kept]))
        seen += np.bincount(region[kept], minlength=len(seen))
        now = float(block.start_s[-1])
        if horizon == np.inf and now > arrives[-1] and _enough(can_use, takes, seen):
            horizon = arrives[-1] + SLACK * (now - arrives[-1])
            until = BEYOND * horizon
        if now > until:
            break
        if sum(len(part[0]) for part in parts) > MOST_CHECK_INS:
            message = f"more than {MOST_CHECK_INS} check-ins are too many for the bound"
            raise UsageError("NO_BOUND", message, where="scale", fix="take a smaller scale or rounds_scale")
    if horizon == np.inf:
        raise UsageError("NO_BOUND", "the trace ends before all jobs can be done", where="population", fix="add replay")
    start, region, slow, byte_s = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Supply(start, region, slow, byte_s, can_use, arrives, takes, horizon, until)


def _regions(simulation: Simulation) -> tuple[NDArray[np.bool_], Kinds]:
    """Which job can use which region, and the region of each kind of device; -1: of no use to any job."""
    samples = [simulation.sample(kind) for kind in range(len(simulation.kinds))]
    met = np.array([[job.spec.requirement.matches(*sample) for sample in samples] for job in simulation.jobs])
    sets, found = np.unique(met, axis=1, return_inverse=True)
    useful = np.asarray(sets.any(axis=0))
    return sets, np.where(useful[found], found, -1).reshape(-1).astype(np.int32)


def _enough(can_use: NDArray[np.bool_], takes: Ids, seen: Ids) -> bool:
    """Whether so many check-ins of each region would do for the jobs of each requirement, and for all."""
    whom = [*np.unique(can_use, axis=0), can_use.any(axis=0)]
    return all(takes[(can_use <= regions).all(axis=1)].sum() <= seen[regions].sum() for regions in whom)


def _alone(supply: _Supply, simulation: Simulation, index: int) -> float:
    """JCT if every eligible device that checks in were given to this job and to no other."""
    job = simulation.jobs[index]
    usable = supply.usable(index)
    start = supply.start_s[usable]
    done = start + _durations(supply, simulation, job)[usable]
    rounds, needed = job.rounds, job.spec.responses_needed
    if job.spec.asynchronous is not None:  # its leases outlive rounds
        rounds, needed = 1, rounds * needed
    now = job.arrives_s
    for _ in range(rounds):
        now = _round_end(start, done, now, needed)
    return now - job.arrives_s


def _durations(supply: _Supply, simulation: Simulation, job: SimulatedJob) -> Reals:
    """The least that a task of this job can take each device."""
    work = job.spec.workload
    fastest = float(noise_table(simulation.noise_sigma)[0]) if simulation.noise_sigma else 1.0
    transfer = (work.download_bytes + work.upload_bytes) * supply.byte_s
    return np.asarray((work.compute_s * supply.slow + transfer) * fastest)


def _round_end(start: Reals, done: Reals, now: float, needed: int) -> float:
    """The ``needed``-th least of ``done`` among those that start from now on; infinite: there are not so many."""
    first = int(np.searchsorted(start, now))
    last = first + needed
    while last <= len(start):
        end = float(np.partition(done[first:last], needed - 1)[needed - 1])
        reached = int(np.searchsorted(start, end))
        if reached <= last:
            return end
        last = min(reached, last + 4 * needed)
    return np.inf


def _tail(supply: _Supply, job: int) -> float:
    """The least, over all times C at which it may end, of the integral of max(0, 1 - S(t, C) / W).

    On a grid: an end within a step counts as at its beginning, and the check-ins of the whole step with it.
    """
    takes = float(supply.takes[job])
    grid, step = np.linspace(supply.arrives_s[job], supply.until_s, FINE + 1, retstep=True)
    start = supply.start_s[supply.usable(job)]
    before = np.searchsorted(start, grid, side="left").astype(float)
    through = np.searchsorted(start, grid, side="right").astype(float)
    ends = np.flatnonzero(through[1:] - before[0] >= takes)  # steps in which it may end
    if not len(ends):
        return np.inf
    at_end = through[ends + 1]
    first = np.minimum(np.searchsorted(before, at_end - takes, side="right"), ends)  # from here on the rest is not all
    sums = np.concatenate(([0.0], np.cumsum(before)))
    area = (ends - first) * (1 - at_end / takes) + (sums[ends] - sums[first]) / takes
    return float(area.min() * float(step))


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    begin_s: Reals
    counts: Ids  # (spans, regions) check-ins


def _spans(supply: _Supply) -> _Spans:
    regular = np.linspace(0.0, supply.horizon_s, SPANS + 1)
    edges = np.unique(np.concatenate((regular, supply.arrives_s[supply.arrives_s < supply.horizon_s])))
    span = np.searchsorted(edges, supply.start_s, side="right") - 1
    within = supply.start_s < supply.horizon_s
    regions, count = supply.can_use.shape[1], len(edges) - 1
    cells = span[within] * regions + supply.region[within]
    return _Spans(edges[:-1], np.bincount(cells, minlength=count * regions).reshape(count, regions))


def _program(supply: _Supply, alone: Reals, tails: Reals) -> Reals:
    """The JCTs with the least sum: at least what the check-ins that each job is given allow, and ``alone``.

    The columns are the JCTs, then for each job its part of each span and region. The rows say that the JCT of each job
    plus the time that its check-ins save is enough; that no job takes more than it needs; that none is given twice.
    """
    spans, jobs = _spans(supply), len(supply.takes)
    needed, spare = supply.takes.astype(float), spans.counts.reshape(-1).astype(float)
    entries = [_Entries(np.arange(jobs), np.arange(jobs), np.full(jobs, -1.0))]
    columns = jobs
    for job in range(jobs):
        later = spans.begin_s >= supply.arrives_s[job]
        span, region = np.nonzero(later[:, None] & supply.can_use[job] & (spans.counts > 0))
        given, same = np.arange(columns, columns + len(span)), np.ones(len(span))
        columns += len(span)
        entries += [
            _Entries(np.full(len(span), job), given, (spans.begin_s[span] - supply.horizon_s) / needed[job]),
            _Entries(np.full(len(span), jobs + job), given, same),
            _Entries(2 * jobs + span * spans.counts.shape[1] + region, given, same),
        ]
    limits = np.concatenate((supply.arrives_s - supply.horizon_s - tails, needed, spare))
    solved = linprog(
        np.repeat([1.0, 0.0], [jobs, columns - jobs]),
        A_ub=_matrix(entries, (len(limits), columns)),
        b_ub=limits,
        bounds=np.column_stack((np.concatenate((alone, np.zeros(columns - jobs))), np.full(columns, np.inf))),
    )
    if not solved.success:
        raise RuntimeError(f"the program of the bound has a solution, but HiGHS says: {solved.message}")
    return np.asarray(solved.x[:jobs])


class _Entries(NamedTuple):
    """Values of the program's matrix, and where they stand."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Reals


def _matrix(entries: Sequence[_Entries], shape: tuple[int, int]) -> object:
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    return coo_array((values, (rows, columns)), shape=shape).tocsr()


DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Contention:
    """Demand and supply of the jobs with one requirement, or of all."""

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
    """The contention by requirement, the one most jobs have first, and all together at the end.

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
    """Check-ins per day by kind of device."""
    counts = np.zeros(len(simulation.kinds))
    last = 0.0
    for block in filter(len, simulation.trace()):
        today = block.start_s < DAY_S
        counts += np.bincount(block.kind[today], minlength=len(counts))
        last = float(block.start_s[-1])
        if last >= DAY_S:
            return counts
    return counts * (DAY_S / max(last, 1.0))


def _eligible(simulation: Simulation, requirements: Sequence[Requirement]) -> list[int]:
    """The kinds that meet any of them."""
    return [
        kind
        for kind in range(len(simulation.kinds))
        if any(requirement.matches(*simulation.sample(kind)) for requirement in requirements)
    ]


def _of(name: str, jobs: Sequence[SimulatedJob], supply: float) -> Contention:
    return Contention(
        requirement=name,
        jobs=len(jobs),
        rounds=sum(job.rounds for job in jobs),
        demand=sum(job.rounds * job.spec.demand for job in jobs),
        supply_per_day=supply,
    )
