"""The one notation of scenario files, flags and messages: values with units, distributions, requirements, selectors."""

from venn.wire.notation.distributions import (
    Constant,
    Distribution,
    Empirical,
    Exponential,
    LogNormal,
    Uniform,
    parse_distribution,
)
from venn.wire.notation.requirements import format_requirement, parse_requirement
from venn.wire.notation.selectors import PROGRAMS, Rate, Selector, Whom, parse_rate_of, parse_selector
from venn.wire.notation.values import (
    NotationError,
    exact_decimal,
    format_bytes,
    format_duration,
    format_fraction,
    format_number,
    format_rate,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_number,
    parse_rate,
)

__all__ = [
    "PROGRAMS",
    "Constant",
    "Distribution",
    "Empirical",
    "Exponential",
    "LogNormal",
    "NotationError",
    "Rate",
    "Selector",
    "Uniform",
    "Whom",
    "exact_decimal",
    "format_bytes",
    "format_duration",
    "format_fraction",
    "format_number",
    "format_rate",
    "format_requirement",
    "parse_bytes",
    "parse_distribution",
    "parse_duration",
    "parse_fraction",
    "parse_number",
    "parse_rate",
    "parse_rate_of",
    "parse_requirement",
    "parse_selector",
]
