"""Means with intervals, and what they allow to be claimed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit  # type: ignore[import-untyped]

CONFIDENCE = 0.95
LEAST_RUNS = 3  # fewer say nothing about the spread from run to run


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs. With fewer than two there is no interval: it is then infinite."""

    mean: float
    low: float
    high: float
    spread: float  # standard deviation from run to run
    runs: int

    def clear_of(self, value: float) -> bool:
        """Says whether the interval leaves a value out, over enough runs to say so."""
        return self.runs >= LEAST_RUNS and (self.low > value or self.high < value)

    def inverse(self) -> "Estimate":
        """A ``ratio`` the other way round."""
        low = 0.0 if self.high == math.inf else 1 / self.high
        return Estimate(1 / self.mean, low, 1 / self.low if self.low else math.inf, self.spread, self.runs)


def estimate(values: Sequence[float]) -> Estimate:
    """The t-interval of a mean. ``values`` is not empty."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Estimate(mean, -math.inf, math.inf, 0.0, n)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * spread / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, spread, n)


def ratio(values: Sequence[float]) -> Estimate:
    """The geometric mean of ratios, with the t-interval of their logarithms; all are > 0."""
    logs = estimate([math.log(value) for value in values])
    return Estimate(math.exp(logs.mean), math.exp(logs.low), _exp(logs.high), math.expm1(logs.spread), logs.runs)


def geometric_mean(values: Sequence[float]) -> float:
    """``values`` is not empty; all are > 0."""
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def percentile(values: Sequence[float], fraction: float) -> float:
    """A percentile by linear interpolation between order statistics; ``values`` is not empty."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 if all are equal, 1/n if one has everything. Values are >= 0."""
    squares = sum(value * value for value in values)
    return 1.0 if squares == 0 else sum(values) ** 2 / (len(values) * squares)


def _exp(value: float) -> float:
    return math.inf if value == math.inf else math.exp(value)
