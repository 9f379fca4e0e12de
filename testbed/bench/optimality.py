"""``venn bench optimality``: how far every policy is from the best.

Each policy plays the same small cases on the real engine: a few requests, all open at 0, and one device a second. A
figure is the sum of its scheduling delays over the least possible one, by one that knows which devices will come.
Random is not played: its figure is the exact mean over all that it may draw. Of ``random-order`` and of ``random-job``
it is the mean over ``SEEDS`` seeds. Then its mean JCT on the workloads of the paper, scaled down, over a lower bound
(``testbed.simulate.bound``).

The optimum is a mixed-integer program, solved by HiGHS. For each second at which request i could get a device, z says
whether it is filled by then; for each device and request that it can serve, y says how much of the device goes there:

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, permutations
from statistics import fmean

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]  # it ships no types
from scipy.sparse import coo_array  # type: ignore[import-untyped]

from coordinator.engine.effects import Effect, FillAttempt, OfferLease
from coordinator.engine.engine import Engine
from coordinator.engine.events import AttemptOpened, DriverFollowed, JobSubmitted, LeaseAccepted, TimePassed
from coordinator.engine.ids import DeviceId, JobId
from coordinator.engine.model import EngineSettings
from coordinator.engine.plan import Policy
from coordinator.engine.requirements import Capabilities
from coordinator.policies.registry import load_policy, policy_names
from testbed.bench.figures import Measured, Say
from testbed.bench.scheduler import LONG_S, Host, spec_of
from testbed.scenario import load
from testbed.scenario.packaged import named
from testbed.simulate.bound import lower_bound
from testbed.simulate.build import build
from testbed.simulate.run import simulate
from testbed.testing.arena import Case, by_priority, over_all_ways

INSTANCES = 200
SEED = 1
SEEDS = 10  # of a policy that draws
WORKLOADS = ("even", "small", "large", "low", "high")
SCALES = ("scale=0.02", "rounds_scale=0.01")  # some 8,000 check-ins
BASELINE = "random"
OURS = "venn"
_DRAWING = ("random-order", "random-job")
REGIONS = 4
HEAVIEST = 4  # devices of a region in a cycle, 1 to this
REQUESTS = (2, 4)  # from, to
LARGEST = 7  # demand, 1 to this
BEFORE_TICK_S = 0.75  # a device comes so long before a whole second, so never at the moment of a tick


def run(say: Say) -> Measured:
    """Measure; about three minutes."""
    say(f"the exact optimum of {INSTANCES} cases")
    drawn = cases(INSTANCES, SEED)
    best = [optimum(case) for case in drawn]
    figures: dict[str, float] = {}
    for policy in policy_names():
        sums = [_sum(case, policy) for case in drawn]
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


def _over_bound(workload: str, say: Say) -> Iterator[tuple[str, float]]:
    """Each policy's mean JCT over the bound."""
    simulation = build(load(named(workload), SCALES))
    bound_s = lower_bound(simulation).mean_jct_s
    say(f"{workload} ({', '.join(SCALES)}): no mean JCT is below {bound_s / 3600:.2f} h")
    for policy in policy_names():
        ended = simulate(simulation, load_policy(policy)).ended_s
        jct_s = fmean(end - job.arrives_s for end, job in zip(ended.tolist(), simulation.jobs, strict=True))
        say(f"{policy}: {jct_s / 3600:.2f} h, {jct_s / bound_s:.3f} x the bound")
        yield f"{policy.replace('-', '_')}_jct_over_bound_{workload}", jct_s / bound_s


def _sum(case: Case, policy: str) -> float:
    """The sum of the fill times of all requests."""
    if policy == BASELINE:
        return over_all_ways(case, fmean)
    seeds = range(SEEDS if policy in _DRAWING else 1)
    return fmean(sum(fills(case, load_policy(policy), seed)) for seed in seeds)


def _worst(drawn: Sequence[Case], ratios: Sequence[float], sums: Sequence[float], best: Sequence[float]) -> str:
    place = max(range(len(drawn)), key=lambda index: ratios[index])
    return f"{ratios[place]:.3f} ({sums[place]:g} against {best[place]:g} s): {drawn[place]}"


def cases(number: int, seed: int) -> list[Case]:
    """Cases, drawn one after the other: regions, weights, order of the cycle, requests and what they can use."""
    rng = np.random.default_rng(seed)
    return [_drawn(rng) for _ in range(number)]


def _drawn(rng: np.random.Generator) -> Case:
    weights = rng.integers(1, HEAVIEST, REGIONS, endpoint=True)
    cycle = rng.permutation(np.repeat(np.arange(REGIONS), weights)).tolist()
    requests = int(rng.integers(*REQUESTS, endpoint=True))
    demands = rng.integers(1, LARGEST, requests, endpoint=True).tolist()
    widths = rng.integers(1, REGIONS, requests, endpoint=True).tolist()  # how many regions each can use
    usable = [sorted(rng.permutation(REGIONS)[:width].tolist()) for width in widths]
    letter_of = {
        tuple(regions): "abcd"[index] for index, regions in enumerate(sorted(map(list, set(map(tuple, usable)))))
    }
    kinds = ["".join(letter for regions, letter in letter_of.items() if region in regions) for region in range(REGIONS)]
    letters = [letter_of[tuple(regions)] for regions in usable]
    return Case(tuple(kinds[region] for region in cycle), tuple(zip(letters, demands, strict=True)), (None,) * requests)


def fills(case: Case, policy: Policy, seed: int = 0) -> list[int]:
    """Seconds from the opening at which each request has all its devices, on the real engine. They keep them.

    Before the requests open, devices come and go in the case's own cycle for two supply windows of one cycle each. So
    what the engine has measured is the true supply, and each further window measures the same again.
    """
    cycle_s = len(case.cycle)
    settings = EngineSettings(
        seed=seed,
        policy=policy.name,
        supply_window_s=float(cycle_s),
        supply_buckets=1,
        liveness_s=LONG_S,
        accept_timeout_s=LONG_S,
    )
    host = Host(Engine(settings, policy), step_s=0.0)
    for second in range(1, 2 * cycle_s + 1):
        _come(host, case, second)
        host.leave()
    jobs = [JobId(f"bench/{number:02}/1") for number in range(len(case.requests))]
    for job, (letter, demand) in zip(jobs, case.requests, strict=True):
        host.handle(JobSubmitted(spec_of(job, letter, demand), 1))
        host.handle(DriverFollowed(job, 1))
    for job in jobs:
        host.handle(AttemptOpened(job, 1, 1, 1, None))
    found: dict[JobId, int] = {}
    for second in count(1):
        effects = _come(host, case, 2 * cycle_s + second)
        found |= {effect.job: second for effect in effects if isinstance(effect, FillAttempt)}
        offers = [effect for effect in effects if isinstance(effect, OfferLease)]
        for offer in offers:
            host.handle(LeaseAccepted(offer.session, offer.lease))
        if not offers:
            host.leave()
        if len(found) == len(jobs):
            break
    return [found[job] for job in jobs]


def _come(host: Host, case: Case, second: int) -> list[Effect]:
    """The device of that second since the start of all checks in."""
    while (due := host.engine.next_deadline()) is not None and due < second - BEFORE_TICK_S:
        host.now = due
        host.handle(TimePassed())
    host.now = second - BEFORE_TICK_S
    return host.check_in(DeviceId(f"device-{second}"), Capabilities(labels={"serves": frozenset(case.kind(second))}))


class NotSolved(RuntimeError):
    """HiGHS gave no optimum. Every case has one, so that is our bug or its."""


def optimum(case: Case) -> int:
    """Seconds, the sum over all requests. Raises NotSolved."""
    best = min(sum(by_priority(case, order)) for order in permutations(range(len(case.requests))))
    alone = [_alone(case, request) for request in range(len(case.requests))]
    if best == sum(alone):
        return best
    program = _Program(case, [best - sum(alone) + each for each in alone])
    with _nothing_on_stdout():
        solved = milp(
            program.costs,
            integrality=program.whole,
            bounds=Bounds(program.least, 1.0),
            constraints=LinearConstraint(program.matrix(), lb=-np.inf, ub=program.limits),
            options={"mip_rel_gap": 0.0},
        )
    if not solved.success:
        raise NotSolved(f"{solved.message}: {case}")
    return round(float(solved.fun) + program.constant)


@contextmanager
def _nothing_on_stdout() -> Iterator[None]:
    """Redirect stdout to stderr: some versions of HiGHS print past Python where we print results."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _alone(case: Case, request: int) -> int:
    others = [index for index in range(len(case.requests)) if index != request]
    return by_priority(case, [request, *others])[request]


class _Program:
    """Columns are variables between ``least`` and 1; rows say that a sum is at most its limit."""

    def __init__(self, case: Case, horizons: list[int]) -> None:
        self.costs: list[float] = []
        self.whole: list[int] = []
        self.least: list[float] = []
        self.limits: list[float] = []
        self.constant = 0
        self._entries: list[tuple[int, int, float]] = []  # row, column, value
        device_rows = [self._row(1.0) for _ in range(max(horizons))]
        for request, horizon in enumerate(horizons):
            self._request(case, request, horizon, device_rows)

    def matrix(self) -> object:
        rows, columns, values = zip(*self._entries, strict=True)
        return coo_array((values, (rows, columns)), shape=(len(self.limits), len(self.costs))).tocsr()

    def _request(self, case: Case, request: int, horizon: int, device_rows: list[int]) -> None:
        letter, demand = case.requests[request]
        usable = [second for second in range(1, horizon + 1) if letter in case.kind(second)]
        moments = usable[demand - 1 :]  # when it could fill, the horizon the last
        self.constant += moments[-1]  # its first moment, and all gaps
        shares: list[int] = []
        before = None
        for place, second in enumerate(usable, 1 - demand):
            shares.append(self._column(0.0))
            self._entries.append((device_rows[second - 1], shares[-1], 1.0))
            if place < 0:
                continue
            last = place + 1 == len(moments)
            gap = 0 if last else moments[place + 1] - second
            filled = self._column(-float(gap), whole=True, least=1.0 if last else 0.0)
            row = self._row(0.0)
            self._entries += [*((row, share, -1.0) for share in shares), (row, filled, float(demand))]
            if before is not None:
                row = self._row(0.0)
                self._entries += [(row, before, 1.0), (row, filled, -1.0)]
            before = filled

    def _column(self, cost: float, *, whole: bool = False, least: float = 0.0) -> int:
        self.costs.append(cost)
        self.whole.append(int(whole))
        self.least.append(least)
        return len(self.costs) - 1

    def _row(self, limit: float) -> int:
        self.limits.append(limit)
        return len(self.limits) - 1
