"""What a profile is, and how each of its values is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from venn.wire.errors import UsageError
from venn.wire.notation import (
    parse_bytes,
    parse_distribution,
    parse_duration,
    parse_fraction,
    parse_number,
    parse_rate,
)

Plain = str | int | float


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value as it is written, in the notation of scenarios, and where it comes from."""

    value: Plain
    source: str  # empty: not stated
    profile: str  # that states it: this one, one that it extends, or its link


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of device, or of link, with all that it takes over from others."""

    name: str
    about: str
    extends: str | None
    link: str | None  # the profile of its link; None: it is not limited, or this is a link
    values: Mapping[str, Sourced]  # by key of a fleet, in the order of FIELDS


def _positive(parse: Callable[[Plain], float], what: str) -> Callable[[Plain], float]:
    def read(value: Plain) -> float:
        number = parse(value)
        if number <= 0:
            raise UsageError("PROFILE", f"{value!r} is not above 0", fix=f"write e.g. {what}")
        return number

    return read


def _loss(value: Plain) -> float:
    fraction = float(parse_fraction(value))
    if fraction >= 1:
        raise UsageError("PROFILE", f"{value!r} leaves nothing", fix="write e.g. 1%")
    return fraction


def _score(value: Plain) -> float:
    return _least(parse_distribution(value, "number").mean)


def _least(number: float) -> float:
    if number <= 0:
        raise UsageError("PROFILE", f"{number:g} is not above 0", fix="write e.g. 1")
    return number


def _memory(value: Plain) -> float:
    return _least(parse_distribution(value, "bytes").mean)


# The keys of a fleet that a profile may give, with what checks them.
FIELDS: Mapping[str, Callable[[Plain], float]] = {
    "cpu": _score,
    "memory": _memory,
    "cores": _positive(parse_number, "0.4"),
    "memory_limit": _positive(parse_bytes, "512 MB"),
    "up": _positive(parse_rate, "4 Mbit/s"),
    "down": _positive(parse_rate, "4 Mbit/s"),
    "delay": parse_duration,
    "jitter": parse_duration,
    "loss": _loss,
}
CAPABILITIES = ("cpu", "memory")  # what a device reports; the others are limits
LINK_FIELDS = ("up", "down", "delay", "jitter", "loss")
