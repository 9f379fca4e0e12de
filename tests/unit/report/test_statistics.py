import math
from dataclasses import astuple

import pytest

from testbed.report.comparison import estimate, jain, ratio


def test_the_interval_is_that_of_student() -> None:
    found = estimate([10.0, 12.0, 14.0])
    assert (found.mean, found.spread, found.runs) == (12.0, 2.0, 3)
    assert found.high - found.mean == pytest.approx(4.302653 * 2 / math.sqrt(3), rel=1e-5)
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_one_run_has_no_interval_and_two_claim_nothing() -> None:
    assert estimate([5.0]).high == math.inf
    assert not estimate([5.0]).clear_of(0.0)
    assert not estimate([5.0, 5.0]).clear_of(0.0)
    assert estimate([5.0, 5.0, 5.0]).clear_of(0.0)
    assert not estimate([5.0, -4.0, 0.5]).clear_of(0.0)


def test_ratios_are_averaged_as_ratios() -> None:
    found = ratio([2.0, 0.5, 1.0])
    assert found.mean == pytest.approx(1.0)
    assert found.low == pytest.approx(1 / found.high)
    other = ratio([0.5, 0.4, 0.45]).inverse()
    assert (other.mean, other.low, other.high) == pytest.approx(astuple(ratio([2.0, 2.5, 1 / 0.45]))[:3])
    assert (ratio([2.0]).inverse().low, ratio([2.0]).inverse().high) == (0.0, math.inf)


def test_fairness_is_1_where_all_have_the_same() -> None:
    assert jain([1.0, 1.0, 1.0]) == 1.0
    assert jain([1.0, 0.0]) == 0.5
    assert jain([0.0]) == 1.0
