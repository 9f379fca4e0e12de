"""Metrics: what may be one, and that a device's odd ones cost nobody anything."""

import math

import pytest

from job_driver.metrics import MOST_METRICS, MOST_VALUE, mean, problem, tellable


@pytest.mark.parametrize("metrics", [{}, {"loss": 0.1}, {"é" * 64: MOST_VALUE}, {f"m{n}": -1.0 for n in range(64)}])
def test_what_may_be_metrics(metrics: dict[str, float]) -> None:
    assert problem(metrics) == ""
    assert tellable(metrics) == metrics


@pytest.mark.parametrize(
    "metrics",
    [
        {"": 1.0},
        {"\u200b": 1.0},
        {"lo\u200bss": 1.0},
        {" loss": 1.0},
        {"lo\nss": 1.0},
        {"\ud800": 1.0},
        {"m" * 65: 1.0},
        {"\u20ac" * 64: 1.0},
        {f"m{n}": 1.0 for n in range(65)},
        {"loss": math.nan},
        {"loss": math.inf},
        {"loss": 1.1e100},
        {"loss": -1.7e308},
    ],
)
def test_what_may_not(metrics: dict[str, float]) -> None:
    assert problem(metrics).startswith("METRICS: ")


def test_a_mean_is_by_weight_over_those_that_have_it() -> None:
    assert mean([({"loss": 1.0}, 1.0), ({"loss": 4.0, "rare": 7.0}, 3.0)]) == {"loss": 3.25, "rare": 7.0}
    assert math.isfinite(mean([({"loss": MOST_VALUE}, 1e12)] * 3)["loss"])


def test_names_of_one_devices_own_push_out_nobody_elses() -> None:
    """It comes first, with as many as are allowed."""
    theirs = {f"a{n}": 1.0 for n in range(MOST_METRICS)}
    found = mean([(theirs, 1.0), ({"loss": 1.0}, 1.0), ({"loss": 3.0, "zeal": 2.0}, 1.0), ({"zeal": 2.0}, 1.0)])
    assert len(found) == MOST_METRICS
    assert (found["loss"], found["zeal"]) == (2.0, 2.0)


def test_what_cannot_be_told_is_left_out() -> None:
    """Of a job's own ``evaluate``: no round is lost for it."""
    many = {f"m{n}": 1.0 for n in range(70)}
    assert tellable({"accuracy": 0.9, "nan": math.nan, "": 1.0}) == {"accuracy": 0.9}
    assert list(tellable({"accuracy": 0.9, **many})) == ["accuracy", *list(many)[:63]]
