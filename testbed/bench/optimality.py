"""How far every policy is from the best: the sum of its scheduling delays over the least possible one.

Each policy plays the same small instances on the real engine; the optimum, which knows which devices will come, is
exact. Random is not played: its figure is the exact mean over all that it may draw. Of ``random-order`` and of
``random-job`` it is the mean over ``SEEDS`` seeds.

Then its mean JCT on the workloads of the paper, scaled down, over a lower bound (``testbed.simulator.bound``).
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from coordinator.policies.registry import load_policy, policy_names
from testbed.bench.figures import Benchmark, Measured
from testbed.bench.instances import Instance, instances, over_all_ways
from testbed.bench.optimum import optimum
from testbed.bench.played import fills
from testbed.scenario import Scenario
from testbed.scenario.packaged import named
from testbed.simulator.bound import lower_bound
from testbed.simulator.build import build
from testbed.simulator.run import simulate

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
    simulation = build(Scenario.load(named(workload), SCALES))
    bound_s = lower_bound(simulation).mean_jct_s
    say(f"{workload} ({', '.join(SCALES)}): no mean JCT is below {bound_s / 3600:.2f} h")
    for policy in policy_names():
        ended = simulate(simulation, load_policy(policy)).ended_s
        jct_s = fmean(end - job.arrives_s for end, job in zip(ended.tolist(), simulation.jobs, strict=True))
        say(f"{policy}: {jct_s / 3600:.2f} h, {jct_s / bound_s:.3f} x the bound")
        yield f"{policy.replace('-', '_')}_jct_over_bound_{workload}", jct_s / bound_s


def _sum(instance: Instance, policy: str) -> float:
    """Of the fill times of all requests."""
    if policy == BASELINE:
        return over_all_ways(instance, fmean)
    seeds = range(SEEDS if policy in _DRAWING else 1)
    return fmean(sum(fills(instance, load_policy(policy), seed)) for seed in seeds)


def _worst(drawn: Sequence[Instance], ratios: Sequence[float], sums: Sequence[float], best: Sequence[float]) -> str:
    place = max(range(len(drawn)), key=lambda index: ratios[index])
    return f"{ratios[place]:.3f} ({sums[place]:g} against {best[place]:g} s): {drawn[place]}"


BENCHMARK = Benchmark("optimality", "ratios to the optimum of small instances and to a bound on JCT", run)
