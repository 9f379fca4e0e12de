"""The notation of scenario files, flags and messages: values with units, and distributions of them.

Values: ``15s``, ``4 GB``, ``4 Mbit/s``, ``80%``; a bare number is a count, a score or a fraction. Every ``parse_*``
raises NotationError with what was read and an example of what is right. Every ``format_*`` is the inverse: it gives
text that parses to the same value.

Distributions: a constant, ``1..4`` (uniform), ``exp(8s)`` (mean), ``lognormal(8s; 1.0)`` (median; log-sigma),
``file.csv:column`` (a row drawn at random; bare numbers in the base unit). ``str()`` gives the notation back.
"""

import csv
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from venn.wire.errors import UsageError
from venn.wire.text import did_you_mean, printable

if TYPE_CHECKING:
    import numpy as np


DURATIONS: Mapping[str, Fraction] = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
BYTES: Mapping[str, Fraction] = {
    "B": Fraction(1),
    "kB": Fraction(10**3),
    "MB": Fraction(10**6),
    "GB": Fraction(10**9),
    "TB": Fraction(10**12),
    "KiB": Fraction(2**10),
    "MiB": Fraction(2**20),
    "GiB": Fraction(2**30),
    "TiB": Fraction(2**40),
}
RATES: Mapping[str, Fraction] = {
    "bit/s": Fraction(1),
    "kbit/s": Fraction(10**3),
    "Mbit/s": Fraction(10**6),
    "Gbit/s": Fraction(10**9),
}
PERCENT: Mapping[str, Fraction] = {"%": Fraction(1, 100)}
UNITS: Mapping[str, Fraction] = {**DURATIONS, **BYTES, **RATES, **PERCENT}

MOST_DIGITS = 40  # before the point, and as many after it
NUMBER = re.compile(
    rf"[+-]?(?:\d{{1,{MOST_DIGITS}}}(?:\.\d{{0,{MOST_DIGITS}}})?|\.\d{{1,{MOST_DIGITS}}})(?:[eE][+-]?\d{{1,3}})?",
    re.ASCII,
)

Readable = str | int | float


LARGEST = Fraction(sys.float_info.max)


class NotationError(UsageError):
    """An error of text that is not in the notation."""

    def __init__(self, read: object, problem: str, example: str) -> None:
        super().__init__("NOTATION", f"{printable(str(read), 80)!r} {problem}", fix=f"write e.g. {example}")


def parse_duration(text: Readable) -> float:
    """Parse a duration: seconds, at least 0. Raises NotationError."""
    return float(_with_unit(text, DURATIONS, "a duration", "15s, 250ms, 2m or 1h"))


def parse_bytes(text: Readable) -> int:
    """Parse a size: whole bytes, at least 0. Raises NotationError."""
    value = _with_unit(text, BYTES, "a size", "512 MB or 4 GB")
    if value.denominator != 1 or value >= 2**63:
        raise NotationError(text, "is not a whole number of bytes below 2^63", "512 MB or 4 GB")
    return int(value)


def parse_rate(text: Readable) -> float:
    """Parse a rate: bits per second, at least 0. Raises NotationError."""
    return float(_with_unit(text, RATES, "a rate", "4 Mbit/s"))


def parse_fraction(text: Readable) -> Fraction:
    """Parse an exact fraction, at least 0: ``80%``, ``0.8`` and the number 0.8 are all 4/5."""
    value = _plain(text, "a fraction", "80% or 0.8", PERCENT)
    if value < 0:
        raise NotationError(text, "is below 0", "80% or 0.8")
    if _decimal(100 * value) is None:
        raise NotationError(text, f"has more than {MOST_DIGITS} digits", "80% or 0.8")
    return value


def parse_number(text: Readable) -> float:
    """Parse a bare number: a count or a score. Raises NotationError."""
    return float(_plain(text, "a bare number", "7 or 2.5", {}))


def format_duration(seconds: float) -> str:
    """A duration as text, ``15s``, ``2m`` or ``250ms``: in the largest unit that makes it whole, else in seconds."""
    exact = _exact(seconds)
    for unit in ("d", "h", "m", "s", "ms"):
        whole = exact / DURATIONS[unit]
        if exact and whole.denominator == 1 and (text := _decimal(whole)):
            return f"{text}{unit}"
    return f"{format_number(seconds)}s"


def format_bytes(count: float) -> str:
    """A size as text: ``4 GB``, ``1.5 GB``, ``512 MiB``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count and count % int(UNITS[unit]) == 0 and count % 1000:
            return f"{format_number(count / int(UNITS[unit]))} {unit}"
    return _scaled(count, BYTES, ("TB", "GB", "MB", "kB"), "B")


def format_rate(bits_per_second: float) -> str:
    """A rate as text: ``4 Mbit/s``."""
    return _scaled(bits_per_second, RATES, ("Gbit/s", "Mbit/s", "kbit/s"), "bit/s")


def format_fraction(fraction: Fraction | float) -> str:
    """A fraction as text: ``80%``."""
    return f"{exact_decimal(100 * _exact(fraction))}%"


def format_number(number: float) -> str:
    """The shortest text of a number, without a needless ``.0``."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(float(number))


def _decimal(fraction: Fraction) -> str | None:
    """A fraction as a decimal that this notation reads; None if it has too many digits before or after the point."""
    if fraction >= 10**MOST_DIGITS or (fraction * 10**MOST_DIGITS).denominator != 1:
        return None
    return exact_decimal(fraction)


def exact_decimal(fraction: Fraction) -> str:
    """A fraction as a decimal (``0.8``), for the wire. Raises ValueError if it has no end, as 1/3."""
    digits = 0
    while (10**digits * fraction).denominator != 1:
        digits += 1
        if digits > 100:
            raise ValueError(f"{fraction} is not a finite decimal")
    whole = abs(10**digits * fraction).numerator
    text = f"{whole // 10**digits}" + (f".{whole % 10**digits:0{digits}d}" if digits else "")
    return f"-{text}" if fraction < 0 else text


def read_quantity(text: str, units: Mapping[str, Fraction]) -> tuple[Fraction, str] | None:
    """Read a value in its base unit, and the unit that was named, or none. None: no number begins the text."""
    stripped = text.strip()
    match = NUMBER.match(stripped)
    if match is None:
        return None
    unit = stripped[match.end() :].strip()
    if unit and unit not in units:
        hint = did_you_mean(unit, units) or f"units are {', '.join(units) or 'none'}"
        raise NotationError(text, f"has an unknown unit {printable(unit, 20)!r}: {hint}", f"1 {next(iter(units), '')}")
    value = Fraction(match.group()) * units.get(unit, 1)
    if abs(value) > LARGEST:
        raise NotationError(text, "is too large", f"1 {unit}")
    return value, unit


def _with_unit(text: Readable, units: Mapping[str, Fraction], what: str, example: str) -> Fraction:
    read = read_quantity(text, units) if isinstance(text, str) else None
    if read is None and isinstance(text, str | bool):
        raise NotationError(text, f"is not {what}", example)
    if read is None or not read[1]:
        raise NotationError(text, f"has no unit, and {what} needs one", example)
    if read[0] < 0:
        raise NotationError(text, "is below 0", example)
    return read[0]


def _plain(text: Readable, what: str, example: str, units: Mapping[str, Fraction]) -> Fraction:
    read = read_quantity(text, units) if isinstance(text, str) else None
    if read is not None:
        return read[0]
    if isinstance(text, str | bool):
        raise NotationError(text, f"is not {what}", example)
    if not math.isfinite(text):
        raise NotationError(text, "is not finite", example)
    return _exact(text)


def _exact(number: Fraction | float) -> Fraction:
    """The decimal that a person wrote: 0.8 is 4/5, not its nearest binary number."""
    return number if isinstance(number, Fraction) else Fraction(repr(number))


def _scaled(value: float, units: Mapping[str, Fraction], largest_first: tuple[str, ...], base: str) -> str:
    exact = _exact(value)
    unit = next((unit for unit in largest_first if exact >= units[unit]), base)
    text = _decimal(exact / units[unit])
    return f"{format_number(value)} {base}" if text is None else f"{text} {unit}"


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
    """A value that is always the same."""

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
    """Values between two bounds, all equally likely."""

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
    """Exponentially distributed values."""

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
    """Values whose logarithm is normally distributed."""

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
    """Parse a distribution over values of one unit; CSV files are looked up in ``folder`` (default: the current one).

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
