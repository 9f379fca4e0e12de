"""Values with given marginals and given correlations of their logarithms: a Gaussian copula.

Each value is a monotone function of a standard normal score, and the scores are correlated. What a value looks like
bends its correlation a little, so the scores' own are solved for, pair by pair, until the values have what was asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from testbed.population.chance import Reals, normal_score

PERCENTILES = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99)
_LAST = 3.09  # the normal score that one in a thousand is above
_GRID = 200  # midpoints of equal probability each way; the error in a correlation is below 0.003


@dataclass(frozen=True)
class Marginal:
    """A positive value by its percentiles: between them its logarithm is linear in the normal score.

    Beyond the first and the last it goes on as it did between the last two, up to the last thousandth.
    """

    name: str
    unit: str  # "" for a score
    asked: tuple[float, ...]  # at PERCENTILES, ascending
    anchors: tuple[tuple[float, float], ...] = ()  # (part in (0, 1), value) that are to hold besides
    steps: tuple[float, ...] = ()  # the only values there are, ascending; the nearest by ratio; none: any

    @cached_property
    def _points(self) -> tuple[Reals, Reals]:
        """Normal scores and logarithms, with one point more at each end for the tails."""
        points = sorted([*zip(PERCENTILES, self.asked, strict=True), *self.anchors])
        scores, logs = normal_score([part for part, _ in points]), np.log([value for _, value in points])
        low, high = ((logs[i] - logs[j]) / (scores[i] - scores[j]) for i, j in ((1, 0), (-1, -2)))
        first, last = logs[0] + low * (-_LAST - scores[0]), logs[-1] + high * (_LAST - scores[-1])
        return np.concatenate([[-_LAST], scores, [_LAST]]), np.concatenate([[first], logs, [last]])

    def at(self, scores: Reals) -> Reals:
        """The values at normal scores."""
        values = np.exp(np.interp(scores, *self._points))
        if not self.steps:
            return values
        steps = np.array(self.steps)
        return np.asarray(steps[np.searchsorted(np.sqrt(steps[1:] * steps[:-1]), values)])


def score_correlations(marginals: Sequence[Marginal], asked: Mapping[tuple[str, str], float]) -> NDArray[np.float64]:
    """Of the normal scores, so that logarithms of values correlate as ``asked``; pairs not named are independent.

    Raises ValueError if no population has such correlations.
    """
    index = {marginal.name: place for place, marginal in enumerate(marginals)}
    found = np.eye(len(marginals))
    for (one, other), wanted in asked.items():
        i, j = index[one], index[other]
        found[i, j] = found[j, i] = _score_correlation(marginals[i], marginals[j], wanted)
    if np.linalg.eigvalsh(found).min() <= 0:
        raise ValueError("these correlations contradict each other")
    return found


def _score_correlation(one: Marginal, other: Marginal, wanted: float) -> float:
    middle = normal_score((np.arange(_GRID) + 0.5) / _GRID)
    first, free = (each.ravel() for each in np.meshgrid(middle, middle))
    logs = np.log(one.at(first))

    def excess(correlation: float) -> float:
        second = correlation * first + np.sqrt(1 - correlation**2) * free
        return float(np.corrcoef(logs, np.log(other.at(second)))[0, 1]) - wanted

    try:
        from scipy.optimize import brentq  # type: ignore[import-untyped]  # it ships no types

        return float(brentq(excess, -0.9999, 0.9999, xtol=1e-6))
    except ValueError:
        raise ValueError(f"{one.name} and {other.name} cannot correlate by {wanted}") from None
