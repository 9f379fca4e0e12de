"""What was asked of a population, and what was made: the same few figures of both, side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from testbed.population.chance import Reals
from testbed.population.lengths import at
from venn.wire.notation import Distribution

PERCENTILES = (0.05, 0.25, 0.50, 0.75, 0.95)


class Kind(StrEnum):
    """How it is best drawn."""

    PERCENTILES = "percentiles"  # of a quantity: a curve
    PARTS = "parts"  # of a whole, or correlations: bars
    HOURS = "hours"  # of the day


@dataclass(frozen=True, slots=True)
class Row:
    at: str  # e.g. "50 %", "cpu, ram"
    asked: float  # NaN: nothing was, as of a file
    made: float


@dataclass(frozen=True, slots=True)
class Compared:
    name: str
    unit: str  # "": none
    kind: Kind
    rows: tuple[Row, ...]

    @property
    def worst(self) -> Row | None:
        """Where what was made is furthest from what was asked: by ratio for percentiles, by difference for the rest.

        None: nothing was asked.
        """
        rows = [row for row in self.rows if not math.isnan(row.asked)]
        if self.kind is Kind.PERCENTILES:
            return max(rows, key=_ratio, default=None)
        return max(rows, key=lambda row: abs(row.made - row.asked), default=None)


def _ratio(row: Row) -> float:
    return abs(row.made / row.asked - 1) if row.asked else abs(row.made)


def percentiles(
    name: str, unit: str, asked: Sequence[float], made: Reals, parts: Sequence[float] = PERCENTILES
) -> Compared:
    """``asked`` at the same parts in (0, 1). Nothing made counts as 0."""
    found = np.quantile(made, parts) if len(made) else np.zeros(len(parts))
    rows = (Row(f"{100 * part:g} %", float(a), float(m)) for part, a, m in zip(parts, asked, found, strict=True))
    return Compared(name, unit, Kind.PERCENTILES, tuple(rows))


def found(name: str, unit: str, made: Reals, parts: Sequence[float] = PERCENTILES) -> Compared:
    """What a file holds: nothing was asked."""
    return percentiles(name, unit, [math.nan] * len(parts), made, parts)


def drawn_from(name: str, unit: str, asked: Distribution, made: Reals, scale: float = 1.0) -> Compared:
    """``made`` was drawn from ``asked``; both are shown divided by ``scale``."""
    return percentiles(name, unit, list(at(asked, np.array(PERCENTILES)) / scale), made / scale)
