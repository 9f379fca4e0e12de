"""``venn bench optimality``: its cases, played on the engine, their best answer, and the benchmark in miniature."""

from fractions import Fraction
from itertools import permutations
from statistics import fmean

import pytest

from coordinator.policies.random import Random
from coordinator.policies.registry import load_policy
from testbed.bench import optimality
from testbed.bench.optimality import cases, fills, optimum
from testbed.testing.arena import CASES, Case, best_mean, by_priority, exact_mean, over_all_ways, run

OPTIMA = {"A": "5", "B": "27/4", "C": "9", "D": "38/5", "E": "13/3"}


@pytest.mark.parametrize("name", CASES)
def test_the_optima_of_the_exact_cases(name: str) -> None:
    assert Fraction(optimum(CASES[name]), len(CASES[name].requests)) == Fraction(OPTIMA[name]) == best_mean(CASES[name])


def test_the_optimum_is_the_least_of_all_ways() -> None:
    for case in cases(25, seed=2):
        assert over_all_ways(case, min) == optimum(case) <= best_order(case)


def best_order(case: Case) -> int:
    return min(sum(by_priority(case, order)) for order in permutations(range(len(case.requests))))


def test_the_optimum_may_need_more_than_an_order_of_priorities() -> None:
    """So it takes a program: the best of all orders is only its upper bound."""
    assert any(best_order(case) > over_all_ways(case, min) for case in cases(200, seed=1))


@pytest.mark.parametrize("name", ["A", "B", "C", "E"])
def test_the_mean_over_all_draws(name: str) -> None:
    exact = exact_mean(CASES[name], Random()) * len(CASES[name].requests)
    assert over_all_ways(CASES[name], fmean) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", ["fifo", "srsf", "las", "venn", "venn-queue"])
def test_the_engine_plays_a_case_as_the_arena_does(name: str, policy: str) -> None:
    assert fills(CASES[name], load_policy(policy)) == run(CASES[name], load_policy(policy)).fills


def test_random_on_the_engine_comes_to_its_exact_mean() -> None:
    sums = [sum(fills(CASES["A"], Random(), seed)) for seed in range(150)]
    assert fmean(sums) == pytest.approx(over_all_ways(CASES["A"], fmean), rel=0.05)


def test_cases_are_as_described() -> None:
    drawn = cases(200, seed=1)
    assert drawn == [*cases(120, seed=1), *drawn[120:]]
    assert {len(case.requests) for case in drawn} == {2, 3, 4}
    assert {demand for case in drawn for demand in case.demands} == set(range(1, 8))
    for case in drawn:
        assert 4 <= len(case.cycle) <= 16  # four regions, each once to four times
        assert all(any(letter in kind for kind in case.cycle) for letter, _ in case.requests)
    assert str(drawn[0]).startswith("devices ")


def test_it_measures_every_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("INSTANCES", 4),
        ("SEEDS", 2),
        ("WORKLOADS", ("even",)),
        ("SCALES", ("scale=0.002", "rounds_scale=0.002")),
    ):
        monkeypatch.setattr(optimality, name, value)
    policies = ["fifo", "random", "random-order", "venn"]
    monkeypatch.setattr(optimality, "policy_names", lambda: policies)
    said: list[str] = []
    measured = optimality.run(said.append)
    assert measured.name == "optimality"
    for policy in policies:
        name = policy.replace("-", "_")
        assert 1 <= measured.figures[f"{name}_mean_over_optimum"] <= measured.figures[f"{name}_worst_over_optimum"]
        assert any(line.startswith(f"{policy}: ") and "requests " in line for line in said)
        assert measured.figures[f"{name}_jct_over_bound_even"] >= 1
    assert measured.baseline.keys() == {"random_mean_over_optimum", "random_jct_over_bound_even"}
