"""Values with units: ``15s``, ``4 GB``, ``4 Mbit/s``, ``80%``; a bare number is a count, a score or a fraction.

Every ``parse_*`` raises NotationError with what was read and an example of what is right. Every ``format_*`` is the
inverse: it gives text that parses to the same value.
"""

import math
import re
import sys
from collections.abc import Mapping
from fractions import Fraction

from venn.wire.errors import UsageError
from venn.wire.text import did_you_mean, printable

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

NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)

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
    return value


def parse_number(text: Readable) -> float:
    """Parse a bare number: a count or a score. Raises NotationError."""
    return float(_plain(text, "a bare number", "7 or 2.5", {}))


def format_duration(seconds: float) -> str:
    """A duration as text, ``15s``, ``2m`` or ``250ms``: in the largest unit that makes it whole, else in seconds."""
    return _in_units(seconds, DURATIONS, ("d", "h", "m", "s", "ms"), "s", "")


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
    """The value in its base unit, and the unit that was named, which may be none; None if no number begins the text."""
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


def _in_units(value: float, units: Mapping[str, Fraction], largest_first: tuple[str, ...], base: str, gap: str) -> str:
    exact = _exact(value)
    for unit in largest_first:
        if exact and (exact / units[unit]).denominator == 1:
            return f"{exact_decimal(exact / units[unit])}{gap}{unit}"
    return f"{format_number(value)}{gap}{base}"


def _scaled(value: float, units: Mapping[str, Fraction], largest_first: tuple[str, ...], base: str) -> str:
    exact = _exact(value)
    unit = next((unit for unit in largest_first if exact >= units[unit]), base)
    return f"{exact_decimal(exact / units[unit])} {unit}"
