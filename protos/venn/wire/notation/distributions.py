"""Distributions: a constant, ``1..4`` (uniform), ``exp(8s)`` (mean), ``lognormal(8s; 1.0)`` (median; log-sigma),
``file.csv:column`` (a row drawn at random; bare numbers in the base unit). ``str()`` gives the notation back.
"""

import csv
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from venn.wire.notation.values import (
    NotationError,
    Readable,
    format_bytes,
    format_duration,
    format_number,
    format_rate,
    parse_bytes,
    parse_duration,
    parse_number,
    parse_rate,
)

if TYPE_CHECKING:
    import numpy as np

Unit = Literal["duration", "bytes", "rate", "number"]
PARSERS: dict[str, Callable[[Readable], float]] = {
    "duration": parse_duration,
    "bytes": parse_bytes,
    "rate": parse_rate,
    "number": parse_number,
}
FORMATS: dict[str, Callable[[float], str]] = {
    "duration": format_duration,
    "bytes": format_bytes,
    "rate": format_rate,
    "number": format_number,
}
EXAMPLES = {
    "duration": "8s, 1s..4s, exp(8s), lognormal(8s; 1.0) or times.csv:session",
    "bytes": "4 GB, 2 GB..4 GB or phones.csv:memory",
    "rate": "4 Mbit/s, 1 Mbit/s..8 Mbit/s or lognormal(4 Mbit/s; 1.0)",
    "number": "8, 1..4, lognormal(8; 1.0) or phones.csv:cpu",
}
MAX_ROWS = 1_000_000
CALL = re.compile(r"(\w+)\s*\((.*)\)")
COLUMN = re.compile(r"(.+\.csv):(.+)")


@dataclass(frozen=True, slots=True)
class Constant:
    value: float
    unit: Unit = "number"

    @property
    def mean(self) -> float:
        return self.value

    def sample(self, rng: "np.random.Generator") -> float:
        return self.value

    def scaled(self, factor: float) -> "Constant":
        return Constant(self.value * factor, self.unit)

    def __str__(self) -> str:
        return FORMATS[self.unit](self.value)


@dataclass(frozen=True, slots=True)
class Uniform:
    low: float
    high: float
    unit: Unit = "number"

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def sample(self, rng: "np.random.Generator") -> float:
        return float(rng.uniform(self.low, self.high))

    def scaled(self, factor: float) -> "Uniform":
        return Uniform(self.low * factor, self.high * factor, self.unit)

    def __str__(self) -> str:
        return f"{FORMATS[self.unit](self.low)}..{FORMATS[self.unit](self.high)}"


@dataclass(frozen=True, slots=True)
class Exponential:
    mean: float
    unit: Unit = "number"

    def sample(self, rng: "np.random.Generator") -> float:
        return float(rng.exponential(self.mean))

    def scaled(self, factor: float) -> "Exponential":
        return Exponential(self.mean * factor, self.unit)

    def __str__(self) -> str:
        return f"exp({FORMATS[self.unit](self.mean)})"


@dataclass(frozen=True, slots=True)
class LogNormal:
    median: float
    sigma: float  # of the logarithm
    unit: Unit = "number"

    @property
    def mean(self) -> float:
        return self.median * math.exp(self.sigma**2 / 2)

    def sample(self, rng: "np.random.Generator") -> float:
        return float(self.median * math.exp(self.sigma * rng.standard_normal()))

    def scaled(self, factor: float) -> "LogNormal":
        return LogNormal(self.median * factor, self.sigma, self.unit)

    def __str__(self) -> str:
        return f"lognormal({FORMATS[self.unit](self.median)}; {format_number(self.sigma)})"


@dataclass(frozen=True, slots=True)
class Empirical:
    """The numbers of one column of a CSV file, each row as likely as any other."""

    source: str  # file.csv:column
    values: tuple[float, ...] = field(repr=False)
    unit: Unit = "number"

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    def sample(self, rng: "np.random.Generator") -> float:
        return self.values[int(rng.integers(len(self.values)))]

    def scaled(self, factor: float) -> "Empirical":
        if factor != 1:
            raise NotationError(self.source, "cannot be scaled: its values come from a file", "a scaled column")
        return self

    def __str__(self) -> str:
        return self.source


Distribution = Constant | Uniform | Exponential | LogNormal | Empirical


def parse_distribution(text: Readable, unit: Unit = "duration", *, folder: Path | None = None) -> Distribution:
    """A distribution over values of one unit; CSV files are looked up in ``folder`` (default: the current one).

    Raises NotationError.
    """
    parse = PARSERS[unit]
    if not isinstance(text, str):
        return Constant(parse(text), unit)
    stripped = text.strip()
    if match := COLUMN.fullmatch(stripped):
        return _read_column(match[1], match[2], unit, folder)
    if match := CALL.fullmatch(stripped):
        return _call(text, match[1], [part.strip() for part in match[2].split(";")], unit)
    low, dots, high = stripped.partition("..")
    if not dots:
        return Constant(parse(stripped), unit)
    uniform = Uniform(parse(low), parse(high), unit)
    if uniform.low > uniform.high:
        raise NotationError(text, "begins above its end", EXAMPLES[unit])
    return uniform


def _call(text: str, name: str, arguments: list[str], unit: Unit) -> Distribution:
    parse = PARSERS[unit]
    match name, arguments:
        case "exp", [mean] if parse(mean) > 0:
            return Exponential(parse(mean), unit)
        case "lognormal", [median, sigma] if parse(median) > 0 and parse_number(sigma) >= 0:
            return LogNormal(parse(median), parse_number(sigma), unit)
        case _:
            raise NotationError(text, "is not a distribution", EXAMPLES[unit])


def _read_column(name: str, column: str, unit: Unit, folder: Path | None) -> Empirical:
    path = (folder or Path()) / Path(name).expanduser()
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            if column not in (rows.fieldnames or ()):
                have = ", ".join(rows.fieldnames or ())
                raise NotationError(f"{name}:{column}", f"has no such column; it has {have}", EXAMPLES[unit])
            values = tuple(float(row[column]) for row, _ in zip(rows, range(MAX_ROWS), strict=False))
    except OSError as error:
        raise NotationError(name, f"cannot be read: {error.strerror}", EXAMPLES[unit]) from error
    except (ValueError, TypeError, csv.Error) as error:
        raise NotationError(
            f"{name}:{column}", f"has a row that is not a number: {error}", "8.5 in each row"
        ) from error
    if not values or not all(math.isfinite(value) and value >= 0 for value in values):
        raise NotationError(f"{name}:{column}", "needs rows, each at least 0 and finite", "8.5 in each row")
    return Empirical(f"{path}:{column}", values, unit)
