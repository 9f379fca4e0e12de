"""``venn bench optimality``: every policy against the optimum.

How far every policy is from the best: the sum of its scheduling delays over the least possible one.

Each policy plays the same small instances on the real engine; the optimum, which knows which devices will come, is
exact. Random is not played: its figure is the exact mean over all that it may draw. Of ``random-order`` and of
``random-job`` it is the mean over ``SEEDS`` seeds.

Then its mean JCT on the workloads of the paper, scaled down, over a lower bound (``testbed.simulate.bound``).

The least sum of scheduling delays of an instance, by one that knows which devices will come.

A mixed-integer program, solved by HiGHS. For each second at which request i could get a device, z says whether it is
filled by then; for each device and request that it can serve, y says how much of the device goes there:

    minimise  the sum of the fill times: of each, its first moment, plus the gaps to the next while z is 0
    subject to  the y of each device sum to 1 at most
                the y of request i up to a moment sum to at least its demand x z at this moment
                z never falls, and is 1 at the horizon

z is 0 or 1. y need not be: with z fixed, what is left is a transport problem, whose corners are whole. A request can
fill only when one of its devices comes, so no other moments are needed. The horizon of a request is what remains of
the best sum that any order of priorities gives, if all others filled as soon as they would alone.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]  # it ships no types
from scipy.sparse import coo_array  # type: ignore[import-untyped]

from coordinator.policies.registry import load_policy, policy_names
from testbed.bench.figures import Benchmark, Measured
from testbed.bench.instances import Instance, by_priority, fills, instances, over_all_ways
from testbed.scenario import load
from testbed.scenario.packaged import named
from testbed.simulate.bound import lower_bound
from testbed.simulate.build import build
from testbed.simulate.run import simulate

INSTANCES = 200
SEED = 1
SEEDS = 10  # of a policy that draws
WORKLOADS = ("even", "small", "large", "low", "high")
SCALES = ("scale=0.02", "rounds_scale=0.01")  # some 8,000 check-ins
BASELINE = "random"
OURS = "venn"
_DRAWING = ("random-order", "random-job")


def run(say: Callable[[str], None]) -> Measured:
    """Measure; about three minutes."""
    say(f"the exact optimum of {INSTANCES} instances")
    drawn = instances(INSTANCES, SEED)
    best = [optimum(instance) for instance in drawn]
    figures: dict[str, float] = {}
    for policy in policy_names():
        sums = [_sum(instance, policy) for instance in drawn]
        ratios = [got / least for got, least in zip(sums, best, strict=True)]
        name = policy.replace("-", "_")
        figures[f"{name}_mean_over_optimum"] = fmean(ratios)
        figures[f"{name}_worst_over_optimum"] = max(ratios)
        say(f"{policy}: {fmean(ratios):.3f} x the optimum on average, worst {_worst(drawn, ratios, sums, best)}")
    for workload in WORKLOADS:
        figures.update(_over_bound(workload, say))
    baseline = {key: value for key, value in figures.items() if key.startswith((f"{BASELINE}_mean", f"{BASELINE}_jct"))}
    return Measured(
        name="optimality",
        figures=figures,
        baseline=baseline,
        ratio=figures[f"{BASELINE}_mean_over_optimum"] / figures[f"{OURS}_mean_over_optimum"],
    )


def _over_bound(workload: str, say: Callable[[str], None]) -> Iterator[tuple[str, float]]:
    """Each policy's mean JCT over the bound."""
    simulation = build(load(named(workload), SCALES))
    bound_s = lower_bound(simulation).mean_jct_s
    say(f"{workload} ({', '.join(SCALES)}): no mean JCT is below {bound_s / 3600:.2f} h")
    for policy in policy_names():
        ended = simulate(simulation, load_policy(policy)).ended_s
        jct_s = fmean(end - job.arrives_s for end, job in zip(ended.tolist(), simulation.jobs, strict=True))
        say(f"{policy}: {jct_s / 3600:.2f} h, {jct_s / bound_s:.3f} x the bound")
        yield f"{policy.replace('-', '_')}_jct_over_bound_{workload}", jct_s / bound_s


def _sum(instance: Instance, policy: str) -> float:
    """The sum of the fill times of all requests."""
    if policy == BASELINE:
        return over_all_ways(instance, fmean)
    seeds = range(SEEDS if policy in _DRAWING else 1)
    return fmean(sum(fills(instance, load_policy(policy), seed)) for seed in seeds)


def _worst(drawn: Sequence[Instance], ratios: Sequence[float], sums: Sequence[float], best: Sequence[float]) -> str:
    place = max(range(len(drawn)), key=lambda index: ratios[index])
    return f"{ratios[place]:.3f} ({sums[place]:g} against {best[place]:g} s): {drawn[place]}"


BENCHMARK = Benchmark("optimality", "ratios to the optimum of small instances and to a bound on JCT", run)


class NotSolved(RuntimeError):
    """HiGHS gave no optimum. Every instance has one, so that is our bug or its."""


def optimum(instance: Instance) -> int:
    """Seconds, the sum over all requests. Raises NotSolved."""
    best = min(sum(by_priority(instance, order)) for order in permutations(range(len(instance.demands))))
    alone = [_alone(instance, request) for request in range(len(instance.demands))]
    if best == sum(alone):
        return best
    program = _Program(instance, [best - sum(alone) + each for each in alone])
    with _nothing_on_stdout():
        solved = milp(
            program.costs,
            integrality=program.whole,
            bounds=Bounds(program.least, 1.0),
            constraints=LinearConstraint(program.matrix(), lb=-np.inf, ub=program.limits),
            options={"mip_rel_gap": 0.0},
        )
    if not solved.success:
        raise NotSolved(f"{solved.message}: {instance}")
    return round(float(solved.fun) + program.constant)


@contextmanager
def _nothing_on_stdout() -> Iterator[None]:
    """Some versions of HiGHS print where we print results, past Python: let it go to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _alone(instance: Instance, request: int) -> int:
    others = [index for index in range(len(instance.demands)) if index != request]
    return by_priority(instance, [request, *others])[request]


@dataclass(slots=True)
class _Entry:
    row: int
    column: int
    value: float


class _Program:
    """Columns are variables between ``least`` and 1; rows say that a sum is at most its limit."""

    def __init__(self, instance: Instance, horizons: list[int]) -> None:
        self.costs: list[float] = []
        self.whole: list[int] = []
        self.least: list[float] = []
        self.limits: list[float] = []
        self.constant = 0
        self._entries: list[_Entry] = []
        device_rows = [self._row(1.0) for _ in range(max(horizons))]
        for request, horizon in enumerate(horizons):
            self._request(instance, request, horizon, device_rows)

    def matrix(self) -> object:
        rows, columns, values = zip(*((each.row, each.column, each.value) for each in self._entries), strict=True)
        return coo_array((values, (rows, columns)), shape=(len(self.limits), len(self.costs))).tocsr()

    def _request(self, instance: Instance, request: int, horizon: int, device_rows: list[int]) -> None:
        demand = instance.demands[request]
        usable = [second for second in range(1, horizon + 1) if instance.region(second) in instance.eligible[request]]
        moments = usable[demand - 1 :]  # when it could fill, the horizon the last
        self.constant += moments[0]
        shares: list[int] = []
        before = None
        for second in usable:
            shares.append(self._column(0.0))
            self._entries.append(_Entry(device_rows[second - 1], shares[-1], 1.0))
            if second not in moments:
                continue
            place = moments.index(second)
            gap = moments[place + 1] - second if place + 1 < len(moments) else 0
            self.constant += gap
            filled = self._column(-float(gap), whole=True, least=0.0 if place + 1 < len(moments) else 1.0)
            row = self._row(0.0)
            self._entries += [_Entry(row, share, -1.0) for share in shares]
            self._entries.append(_Entry(row, filled, float(demand)))
            if before is not None:
                row = self._row(0.0)
                self._entries += [_Entry(row, before, 1.0), _Entry(row, filled, -1.0)]
            before = filled

    def _column(self, cost: float, *, whole: bool = False, least: float = 0.0) -> int:
        self.costs.append(cost)
        self.whole.append(int(whole))
        self.least.append(least)
        return len(self.costs) - 1

    def _row(self, limit: float) -> int:
        self.limits.append(limit)
        return len(self.limits) - 1
