"""The exact cases: small worlds whose answers are known, worked by hand and by enumeration."""

from fractions import Fraction

import pytest

from coordinator.engine.plan import Mode
from coordinator.policies.fifo import Fifo
from coordinator.policies.random import Random
from coordinator.policies.srsf import Srsf
from coordinator.policies.venn.policy import Venn
from tests.unit.policies.arena import CASES, exact_mean, run, view


@pytest.mark.parametrize(("name", "mean"), [("A", "6"), ("B", "7.75"), ("C", "12"), ("D", "9.6"), ("E", "6")])
def test_fifo(name: str, mean: str) -> None:
    assert run(CASES[name], Fifo()).mean == Fraction(mean)


@pytest.mark.parametrize(("name", "mean"), [("A", "5"), ("B", "7"), ("C", "9"), ("D", "8.4"), ("E", "14/3")])
def test_srsf(name: str, mean: str) -> None:
    assert run(CASES[name], Srsf()).mean == Fraction(mean)


def test_srsf_on_case_e_by_hand() -> None:
    """Planned at 0 the order is H1 C2 G3, and it stands until a fill: gc goes to C at 2, gch to H at 3, C fills at 5.

    Ordered anew at each lease, as the engine never does, G would tie with C at 2 and with H at 3, and win both by its
    earlier arrival: a mean of 6.
    """
    assert run(CASES["E"], Srsf()).fills == [6, 5, 3]
    assert run(CASES["E"], Srsf(), plan_at_each_lease=True).fills == [3, 6, 9]


@pytest.mark.parametrize(
    ("name", "fills", "mean"),
    [
        ("A", [6, 4], "5"),
        ("B", [14, 2, 4, 7], "6.75"),
        ("C", [12, 9, 6], "9"),
        ("D", [2, 5, 10, 15, 6], "7.6"),
        ("E", [6, 5, 3], "14/3"),
    ],
)
def test_venn(name: str, fills: list[int], mean: str) -> None:
    played = run(CASES[name], Venn())
    assert played.fills == fills
    assert played.mean == Fraction(mean)


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("A", "11/2"),
        ("B", "1613/216"),
        ("C", "14017/1296"),
        ("E", "59/12"),
    ],
)
def test_random_by_enumeration(name: str, mean: str) -> None:
    assert exact_mean(CASES[name], Random()) == Fraction(mean)


def test_random_is_uniform() -> None:
    assert Random().plan(view(CASES["C"], CASES["C"].demands)).mode is Mode.UNIFORM
