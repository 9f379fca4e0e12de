"""docs/policies.md says what the policies do."""

import re
from fractions import Fraction
from pathlib import Path

from coordinator.policies.fifo import Fifo
from coordinator.policies.random import Random
from coordinator.policies.registry import load_policy
from coordinator.policies.srsf import Srsf
from coordinator.policies.venn.policy import Venn
from testbed.testing.arena import CASES, best_mean, case, exact_mean, run, view

PAGE = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()


def rows() -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:2] == "| "]
    return {row[0]: row[1:] for row in cells if row[0] in CASES}


def test_the_table_of_cases_is_what_the_policies_do() -> None:
    assert list(rows()) == list(CASES)
    for name, (cycle, requests, fifo, random, srsf, venn, best) in rows().items():
        world = case(cycle.replace(",", ""), requests)
        assert world == CASES[name]
        for cell, policy in ((fifo, Fifo()), (srsf, Srsf()), (venn, Venn())):
            played = run(world, policy)
            assert cell == f"({', '.join(map(str, played.fills))}) {played.mean}"
        assert Fraction(random) == exact_mean(world, Random())
        assert Fraction(best) == best_mean(world)


def test_the_policy_of_ones_own_runs(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    (tmp_path / "youngest.py").write_text(code)
    policy = load_policy(f"{tmp_path / 'youngest.py'}:Youngest")
    assert policy.plan(view(CASES["A"], (4, 2))).queues == ((0, 1),)
