"""Small instances: drawn, played on the engine, and their best answer."""

from fractions import Fraction
from itertools import permutations
from statistics import fmean

import pytest

from coordinator.policies.random import Random
from coordinator.policies.registry import load_policy
from testbed.bench.instances import Instance, by_priority, fills, instances, over_all_ways
from testbed.bench.optimality import optimum
from testbed.testing.arena import CASES, Case, best_mean, exact_mean, run

OPTIMA = {"A": "5", "B": "27/4", "C": "9", "D": "38/5", "E": "13/3"}


def instance_of(world: Case) -> Instance:
    letters = [letter for letter, _ in world.requests]
    return Instance(
        cycle=tuple(world.regions.index(kind) for kind in world.cycle),
        demands=world.demands,
        eligible=tuple(
            frozenset(index for index, kind in enumerate(world.regions) if letter in kind) for letter in letters
        ),
    )


@pytest.mark.parametrize("name", CASES)
def test_the_optima_of_the_exact_cases(name: str) -> None:
    instance = instance_of(CASES[name])
    assert Fraction(optimum(instance), len(instance.demands)) == Fraction(OPTIMA[name]) == best_mean(CASES[name])


def test_the_optimum_is_the_least_of_all_ways() -> None:
    for instance in instances(25, seed=2):
        best = optimum(instance)
        assert best == over_all_ways(instance, min)
        assert best <= min(sum(by_priority(instance, order)) for order in permutations(range(len(instance.demands))))


def test_the_optimum_may_need_more_than_an_order_of_priorities() -> None:
    """So it takes a program: the best of all orders is only its upper bound."""

    def gap(instance: Instance) -> float:
        orders = permutations(range(len(instance.demands)))
        return min(sum(by_priority(instance, order)) for order in orders) - over_all_ways(instance, min)

    assert any(gap(instance) > 0 for instance in instances(200, seed=1))


@pytest.mark.parametrize("name", ["A", "B", "C", "E"])
def test_the_mean_over_all_draws(name: str) -> None:
    instance = instance_of(CASES[name])
    exact = exact_mean(CASES[name], Random()) * len(instance.demands)
    assert over_all_ways(instance, fmean) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", ["fifo", "srsf", "las", "venn", "venn-queue"])
def test_the_engine_plays_an_instance_as_the_arena_does(name: str, policy: str) -> None:
    assert fills(instance_of(CASES[name]), load_policy(policy)) == run(CASES[name], load_policy(policy)).fills


def test_random_on_the_engine_comes_to_its_exact_mean() -> None:
    instance = instance_of(CASES["A"])
    sums = [sum(fills(instance, Random(), seed)) for seed in range(150)]
    assert fmean(sums) == pytest.approx(over_all_ways(instance, fmean), rel=0.05)


def test_instances_are_as_described() -> None:
    drawn = instances(200, seed=1)
    assert drawn == [*instances(120, seed=1), *drawn[120:]]
    assert {len(instance.demands) for instance in drawn} == {2, 3, 4}
    assert {demand for instance in drawn for demand in instance.demands} == set(range(1, 8))
    for instance in drawn:
        weights = [instance.cycle.count(region) for region in range(4)]
        assert all(1 <= weight <= 4 for weight in weights)
        assert all(regions <= {0, 1, 2, 3} and regions for regions in instance.eligible)
    assert str(drawn[0]).startswith("regions ")
