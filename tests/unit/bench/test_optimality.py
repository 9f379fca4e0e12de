"""``venn bench optimality``, in miniature."""

import pytest

from testbed.bench import optimality


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
    measured = optimality.BENCHMARK.run(said.append)
    assert measured.name == optimality.BENCHMARK.name == "optimality"
    for policy in policies:
        name = policy.replace("-", "_")
        assert 1 <= measured.figures[f"{name}_mean_over_optimum"] <= measured.figures[f"{name}_worst_over_optimum"]
        assert any(line.startswith(f"{policy}: ") and "in turn; requests" in line for line in said)
        assert measured.figures[f"{name}_jct_over_bound_even"] >= 1
    assert measured.baseline.keys() == {"random_mean_over_optimum", "random_jct_over_bound_even"}
