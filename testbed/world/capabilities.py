"""Generated phones: marginals, correlations and the shares of the paper's four requirements, from a Gaussian copula.

Each value is a monotone function of a standard normal score, and the scores are correlated. What a value looks like
bends its correlation a little, so the scores' own are solved for, pair by pair, until the values have what was asked.

The facts are those of the evaluation in Liu et al., "Venn: Resource Management for Collaborative Learning Jobs", MLSys
2025 (arXiv:2312.08298): percentiles over 952 models, correlations of logarithms, and how many of 959 phones meet which
requirements. They do not agree with each other to the last point: the median cpu score is 6.1, yet 51.6 % of the 959
phones reach 7. Percentiles and correlations are met as they stand; between the percentiles, where nothing was said,
the curves go so that the shares come as close as they can (``ANCHORS``): each within ``SHARE_TOLERANCE``.

Two things are ours, for nothing was said of them: the OS level correlates with the cpu score (newer phones have newer
systems), and links are independent of the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from venn.wire.chance import Purpose, Reals, normal, normal_score

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
    """Correlations of the scores, so that logarithms of values correlate as ``asked``; pairs not named are independent.

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


ANCHORS: Mapping[str, tuple[tuple[float, float], ...]] = {
    "cpu": ((0.505, 7.0),),  # hardly any phone between the median, 6.1, and the requirement, 7
    "fp16": ((0.43, 950.0),),  # from here on rounded to 1000, which the 56.4 % that are memory-rich need
}
SHARE_TOLERANCE = 0.025  # of all phones, for large populations
OS_WITH_CPU = 0.8  # correlation of the normal scores

MARGINALS = (
    Marginal("cpu", "", (0.54, 1.7, 2.0, 3.1, 6.1, 10.3, 14.6, 16.6, 21.1), ANCHORS["cpu"]),
    Marginal("ram", "GB", (1, 2, 3, 4, 6, 8, 12, 12, 16), steps=(0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24)),
    Marginal(
        "fp16", "", (100, 400, 500, 700, 1000, 1900, 2100, 2500, 2800), ANCHORS["fp16"], tuple(range(100, 5001, 100))
    ),
    Marginal("inference", "ms", (13, 19, 23, 29, 63, 109, 155, 190, 496)),
    Marginal("os", "", (5.1, 6, 8, 10, 11, 12, 13, 13, 13), steps=(4.4, 5, 5.1, 6, 7, 8, 9, 10, 11, 12, 13)),
)
NAMES = tuple(marginal.name for marginal in MARGINALS)
CORRELATIONS: Mapping[tuple[str, str], float] = {  # of logarithms
    ("cpu", "ram"): 0.89,
    ("cpu", "fp16"): 0.75,
    ("cpu", "inference"): -0.89,
    ("ram", "fp16"): 0.70,
    ("ram", "inference"): -0.80,
    ("fp16", "inference"): -0.58,
}
REPORTED = ("cpu", "memory", "fp16", "inference", "os", "link")  # what a phone says of itself, in base units
LINK_MEAN_BIT_S = 13_700_000.0
LINK_LOG_SIGMA = 1.0

BENCHMARKED = 959
SHARES: Mapping[str, float] = {  # of the regions that the four requirements make
    "high-performance": 417 / BENCHMARKED,  # meets all four
    "general": 305 / BENCHMARKED,  # meets that one only
    "memory-rich": 124 / BENCHMARKED,  # and general
    "compute-rich": 78 / BENCHMARKED,  # and general
    "none": 35 / BENCHMARKED,
}


@dataclass(frozen=True, slots=True, eq=False)
class Phones:
    """A row per phone."""

    cpu: Reals  # score
    ram: Reals  # GB
    fp16: Reals  # half-precision memory score
    inference: Reals  # ms for the reference model; lower is faster
    os: Reals  # level
    link: Reals  # bit/s

    def columns(self) -> dict[str, Reals]:
        """What the phones report, in base units: bytes, seconds, bit/s."""
        values = (self.cpu, self.ram * 1e9, self.fp16, self.inference / 1e3, self.os, self.link)
        return dict(zip(REPORTED, values, strict=True))

    def regions(self) -> NDArray[np.str_]:
        """Which of SHARES each phone is in."""
        general = (self.fp16 >= 10) & (self.cpu >= 1) & (self.os >= 6)
        memory, compute = self.fp16 >= 1000, self.cpu >= 7
        return np.select(
            [~general, memory & compute, memory, compute],
            ["none", "high-performance", "memory-rich", "compute-rich"],
            default="general",
        )


def phones(count: int, seed: int, first: int = 0) -> Phones:
    """Phones number ``first`` to ``first + count - 1`` of the population that ``seed`` names; any part of it alone."""
    number = np.arange(first, first + count, dtype=np.int64)
    free = np.stack(
        [normal(seed, Purpose.CAPABILITY, number, np.full_like(number, place)) for place in range(len(NAMES) + 1)]
    )
    scores = _factor() @ free[:-1]
    values = {marginal.name: marginal.at(row) for marginal, row in zip(MARGINALS, scores, strict=True)}
    median = LINK_MEAN_BIT_S * np.exp(-(LINK_LOG_SIGMA**2) / 2)
    return Phones(**values, link=median * np.exp(LINK_LOG_SIGMA * free[-1]))


@cache
def _factor() -> Reals:
    """The Cholesky factor: independent normal scores times this are correlated as they should be."""
    found = score_correlations(MARGINALS, CORRELATIONS)
    cpu, os = NAMES.index("cpu"), NAMES.index("os")
    found[os, :os] = found[:os, os] = OS_WITH_CPU * found[cpu, :os]
    return np.asarray(np.linalg.cholesky(found), dtype=np.float64)
