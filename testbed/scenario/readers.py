"""How each kind of value in a scenario is read.

A value is read from what a file holds, or from what a Python program passes. A reader returns the value, or raises what
``wrong`` makes. Pydantic's context has the scenario's folder, where relative paths start; a Python program has no
context, and passes durations in seconds, sizes in bytes and rates in bits per second.
"""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, assert_never

from pydantic import ValidationInfo

from coordinator.policies.registry import in_file, split
from coordinator.service.convert.fields import MalformedError, requirement_from_wire
from testbed.scenario.backends import backend_names, backend_spec
from testbed.scenario.errors import known, shown, wrong
from testbed.scenario.expect import Expectation, parse_expectation
from testbed.world.data import DIGITS, Dirichlet, Iid, parse_split
from venn.wire.errors import UsageError
from venn.wire.notation import (
    Constant,
    Distribution,
    Empirical,
    Exponential,
    LogNormal,
    Uniform,
    Unit,
    exact_decimal,
    format_bytes,
    format_duration,
    format_fraction,
    format_number,
    parse_bytes,
    parse_distribution,
    parse_duration,
    parse_fraction,
    parse_number,
    parse_rate,
)
from venn.wire.requirements import format_requirement, parse_requirement
from venn.wire.text import did_you_mean

T = TypeVar("T")
Reader = Callable[..., Any]  # takes the value, and pydantic's ValidationInfo if it needs it

VERSION = 1  # of the scenario format
MOST = 1_000_000  # of anything that is counted, but
MOST_SIMULATED = 100_000_000  # devices of a simulation
LONGEST = 366 * 86_400.0  # seconds; as long as a coordinator counts
MOST_BYTES = 10**15  # of a task's transfers
MOST_SPREAD = 5  # log-sigma; the slowest of 1,000 then takes 5 million times the median
MOST_LOSS = Fraction(99, 100)
LARGEST_SEED = 2**63 - 1
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
SOURCES = (DIGITS,)
PHONES, GENERATED = "phones", "generated"  # a population's devices and sessions that no file holds
PICKLES = (".pickle", ".pkl", "")  # suffixes; FedScale's files have none
DEVICE_FILES = (".csv", ".parquet", *PICKLES)
SESSION_FILES = (".csv", *PICKLES)
LONGEST_TEXT = 128  # characters of a label's value; the wire allows as many bytes
LONGEST_PARAMETER = 4096  # characters


def _parsed(parse: Callable[[Any], T], value: object) -> T:
    """``parse(value)``; what it raises is told as the key's problem."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Fraction):
        raise wrong(f"{shown(value)} is not a value", "write a word or a number")
    try:
        return parse(value)
    except UsageError as error:
        raise wrong(error.message, error.fix) from None
    except (ValueError, OverflowError):
        raise wrong(f"{shown(value)} is out of range") from None


def _number(
    parse: Callable[[Any], Any],
    fault: str,
    fix: str,
    least: float,
    most: float = math.inf,
    *,
    above: bool = False,
    native: type | None = None,
) -> Reader:
    """Reads a finite number from ``least`` (``above`` it) to ``most``; ``native``: what a program passes as it is."""

    def read(value: object, info: ValidationInfo) -> Any:
        number: Any = value if info.context is None and type(value) is native else _parsed(parse, value)
        if not least <= number <= most or number == math.inf or (above and number == least):
            raise wrong(f"{shown(value)} {fault}", fix)
        return number

    return read


as_positive = _number(parse_number, "is not above 0", "write e.g. 1", 0, above=True)
as_swing = _number(parse_number, "is not 1 or more", "write 1 for no day and night, or e.g. 3", 1, MOST)
as_spread = _number(
    parse_number, f"is not between 0 and {MOST_SPREAD}", "write 0 for none, or e.g. 0.2", 0, MOST_SPREAD
)
as_limit = _number(parse_bytes, "is not a limit", "write e.g. 512 MB", 0, above=True, native=int)
as_bytes = _number(
    *(parse_bytes, "is not a size of a transfer", f"write e.g. 5 MB, at most {format_bytes(MOST_BYTES)}", 0),
    MOST_BYTES,
    native=int,
)
_time = _number(parse_duration, "is not a time", "write e.g. 15s", 0, native=float)
as_rate = _number(parse_rate, "is not a rate", "write e.g. 4 Mbit/s", 0, above=True, native=float)


def as_duration(value: object, info: ValidationInfo, *, positive: bool = False) -> float:
    """Reads seconds: in a file a duration has a unit."""
    seconds: float = _time(value, info)
    if positive and seconds == 0:
        raise wrong(f"{shown(value)} is not a time", "write e.g. 15s")
    if not seconds <= LONGEST:
        raise wrong(f"{shown(value)} is too long", f"it is at most {format_duration(LONGEST)}")
    return seconds


def above_zero(value: object, info: ValidationInfo) -> float:
    """Reads seconds above 0."""
    return as_duration(value, info, positive=True)


def whole(least: int, most: int = MOST) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(f"{shown(value)} is not a whole number", f"write e.g. {max(least, 1)}")
        if value < least:
            raise wrong(f"{value} is too small", f"it is at least {least}")
        if value > most:
            raise wrong(f"{shown(value)} is too large", f"it is at most {most}")
        return value

    return read


def as_fraction(value: object, most: Fraction, *, above: bool = False) -> Fraction:
    """Reads a part from 0 (``above`` it) to ``most``, that decimals can write."""
    fraction = value if isinstance(value, Fraction) else _parsed(parse_fraction, value)
    if fraction > most:
        percent = isinstance(value, int) and fraction <= 100 * most
        fix = f"write {value}%" if percent else f"it is at most {format_fraction(most)}"
        raise wrong(f"{shown(value)} is more than {format_fraction(most)}", fix)
    if fraction < 0 or (above and fraction == 0):
        raise wrong(f"{shown(value)} is too small", f"it is {'more than' if above else 'at least'} 0%")
    try:
        exact_decimal(fraction)
    except ValueError:
        raise wrong(f"{fraction} is not a finite decimal", "write e.g. 33.3%") from None
    return fraction


def distribution_of(unit: Unit) -> Reader:
    """Reads a distribution whose draws are above 0."""

    def read(value: object, info: ValidationInfo) -> Distribution:
        if isinstance(value, Distribution):
            distribution = value
        else:
            distribution = _parsed(lambda text: parse_distribution(text, unit, folder=folder_of(info)), value)
        least = _least(distribution)
        if least < 0:
            raise wrong(f"{shown(value)} goes below 0", "make it begin at 0 or above")
        if least == 0:
            raise wrong(f"{shown(value)} is not always above 0", "make it begin above 0")
        return distribution

    return read


def _least(distribution: Distribution) -> float:
    """The least that it draws; of a range that begins at 0 and goes on, and of what has a tail, more than 0."""
    match distribution:
        case Constant(value=value):
            return value
        case Uniform(low=low, high=high):
            return low or high
        case Empirical(values=values):
            return min(values)
        case Exponential() | LogNormal():
            return math.ulp(0.0)
        case _:
            assert_never(distribution)


def _word(pattern: re.Pattern[str], what: str, rule: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise wrong(f"{shown(value)} is not {what}", rule)
        return value

    return read


as_name = _word(NAME, "a name", "a name has 1 to 40 of a-z, 0-9 and -, and does not begin with -")
as_label = _word(LABEL, "the name of a label", "it has up to 40 letters, digits, _ and -")
as_capability = _word(LABEL, "the name of a capability", "it has up to 40 letters, digits, _ and -")
as_parameter_name = _word(PARAMETER, "the name of a parameter", "it has up to 64 letters, digits and _")


def as_parameter(value: object) -> bool | int | float | str:
    if not isinstance(value, bool | int | float | str):
        raise wrong(f"{shown(value)} is not a parameter", "a parameter is true, false, a number or a text")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise wrong(f"{value} is too large", "a whole number has at most 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong(f"{value} is not a finite number")
    if isinstance(value, str) and len(value) > LONGEST_PARAMETER:
        raise wrong(f"{shown(value)} is too long", f"a text has at most {LONGEST_PARAMETER} characters")
    return value


def as_text(value: object) -> str:
    """Reads a word for people or a path; numbers are read as they are written."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong(f"{shown(value)} is not a text", "write a word, in quotes if need be")
    text = str(value).strip()
    if not text or not text.isprintable():
        raise wrong(f"{shown(value)} is not a text", "write a word without control characters")
    return text


def folder_of(info: ValidationInfo) -> Path:
    """The folder where relative paths start."""
    folder: Path = (info.context or {}).get("folder", Path())
    return folder


def as_file(value: object, info: ValidationInfo) -> Path:
    path = value if isinstance(value, Path) else Path(as_text(value))
    return (folder_of(info) / path.expanduser()).absolute()


def file_or(suffixes: tuple[str, ...], *words: str) -> Callable[[object, ValidationInfo], str]:
    """Reads an absolute path of a file with one of the suffixes, or else one of the words; without words: any."""

    def read(value: object, info: ValidationInfo) -> str:
        text = as_text(value)
        if text.endswith(suffixes):
            return str(as_file(text, info))
        if words and text not in words:
            fault = f"is neither {' nor '.join(words)} nor a file {' or '.join(suffixes)}"
            raise wrong(f"{shown(value)} {fault}", did_you_mean(text, words))
        return text

    return read


as_profile = file_or((".yaml", ".yml"))  # what loads it says whether it is right


def as_policy(value: object, info: ValidationInfo) -> str:
    """An installed policy's name, or FILE.py:NAME with an absolute path; either may have parameters."""
    text = as_text(value)
    base, _ = split(text)
    file, name = in_file(base)
    return f"{as_file(str(file), info)}:{name}{text[len(base) :]}" if file is not None else text


def generated_or(generated: str, suffixes: tuple[str, ...]) -> Reader:
    """Reads the word for what is generated, or an absolute path of a file with one of the suffixes."""

    def read(value: object, info: ValidationInfo) -> str:
        text = as_text(value)
        if text == generated:
            return text
        path = as_file(text, info)
        if path.suffix not in suffixes or (not path.suffix and not path.exists()):
            kinds = ", ".join(suffix for suffix in suffixes if suffix)
            raise wrong(f"{shown(value)} is neither {generated} nor a file {kinds}", known(text, [generated]))
        return str(path)

    return read


def as_split(value: object) -> str:
    """``iid`` or ``dirichlet(A)``, in canonical text."""
    match _parsed(parse_split, value):
        case Dirichlet(alpha=alpha):
            return f"dirichlet({format_number(alpha)})"
        case Iid():
            return "iid"
        case other:
            assert_never(other)


def as_expectation(value: object) -> Expectation:
    if isinstance(value, Expectation):
        return value
    try:
        return parse_expectation(value)
    except ValueError as error:
        raise wrong(f"{shown(value)} {error}") from None


def as_labels(value: object) -> tuple[str, ...]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    texts = tuple(dict.fromkeys(as_text(each) for each in values))
    if not texts or len(texts) > 64 or any(len(text.encode()) > LONGEST_TEXT for text in texts):
        raise wrong(f"{shown(value)} is not the value of a label", f"it is 1 to 64 texts of up to {LONGEST_TEXT} bytes")
    return texts


def as_truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise wrong(f"{shown(value)} is neither true nor false", "write true or false")
    return value


def as_requirement(value: object) -> str:
    """The canonical text of a requirement, or the name of one."""
    if not isinstance(value, str):
        raise wrong(f"{shown(value)} is not a requirement", "write e.g. all, or memory >= 4 GB and cpu >= 7")
    text = value.strip()
    if NAME.fullmatch(text):
        return text
    requirement = _parsed(parse_requirement, text)
    try:
        requirement_from_wire(requirement)
    except MalformedError as error:
        message = f"{shown(value)} is more than a coordinator takes: {error.message}"
        raise wrong(message, "write a shorter one") from None
    return format_requirement(requirement)


def one_of(value: object, options: tuple[str, ...]) -> str:
    """Reads one of several words."""
    if value not in options:
        raise wrong(f"{shown(value)} is not one of {', '.join(options)}", did_you_mean(str(value), options))
    return str(value)


def as_version(value: object) -> int:
    if value != VERSION or isinstance(value, bool):
        raise wrong(f"{shown(value)} is not a version that this testbed reads", f"write {VERSION}")
    return VERSION


def as_backend(value: object) -> str:
    name = one_of(value, backend_names())
    try:
        backend_spec(name)
    except UsageError as error:
        raise wrong(error.message, error.fix) from None
    return name
