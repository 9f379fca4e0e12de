"""Selectors: ``25% of flagship``, ``3 of site=lab``, ``all``, ``coordinator``, ``driver handwriting``."""

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import assert_never

from venn.wire.notation.values import NotationError, format_fraction, parse_fraction

EXAMPLE = "25% of flagship, 3 of site=lab, all or driver handwriting"
RATE_EXAMPLE = "20%/min of all"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_LABEL = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,39})\s*=\s*(\S.{0,127})", re.ASCII)
_SHARE = re.compile(r"(?P<share>\S+(?:\s*%)?)\s+of\s+(?P<whom>.+)")
_COUNT = re.compile(r"[0-9]{1,9}")
_RATE = re.compile(r"(?P<share>[^\s/]+(?:\s*%)?)\s*/\s*(?P<per>\S+)(?:\s+of\s+(?P<whom>.+))?")


class Whom(StrEnum):
    """The set that a selector selects from."""

    ALL = "all"
    FLEET = "fleet"
    LABEL = "label"
    COORDINATOR = "coordinator"
    BROKER = "broker"
    DRIVER = "driver"


PROGRAMS = (Whom.COORDINATOR, Whom.BROKER, Whom.DRIVER)


@dataclass(frozen=True, slots=True)
class Selector:
    """Selected devices, or one of the programs. ``part`` and ``count`` are None: all of them; never both."""

    whom: Whom
    name: str = ""  # of the fleet, of the label, or of the driver's job
    value: str = ""  # of the label
    part: Fraction | None = None  # in (0, 1]
    count: int | None = None  # >= 1

    def __str__(self) -> str:
        match self.whom:
            case Whom.FLEET:
                whom = self.name
            case Whom.LABEL:
                whom = f"{self.name}={self.value}"
            case Whom.DRIVER:
                whom = f"driver {self.name}"
            case Whom.ALL | Whom.COORDINATOR | Whom.BROKER:
                whom = self.whom.value
            case _:
                assert_never(self.whom)
        if self.part is not None:
            return f"{format_fraction(self.part)} of {whom}"
        return whom if self.count is None else f"{self.count} of {whom}"

    def size(self, members: int) -> int:
        """The number of devices selected from ``members``; a part is rounded half up."""
        if self.part is not None:
            return int(self.part * members + Fraction(1, 2))
        return members if self.count is None else min(self.count, members)


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate such as ``20%/min of all``: a part of the selected devices per minute."""

    per_minute: Fraction  # > 0
    of: Selector  # without a part or a count

    def __str__(self) -> str:
        return f"{format_fraction(self.per_minute)}/min of {self.of}"


def parse_selector(text: object) -> Selector:
    """Parse a selector. Raises NotationError."""
    if not isinstance(text, str):
        raise NotationError(text, "is not a selector", EXAMPLE)
    said = text.strip()
    match = _SHARE.fullmatch(said)
    if match is None:
        return _whom(said, text)
    whom = _whom(match["whom"].strip(), text)
    if whom.whom in PROGRAMS:
        raise NotationError(text, f"takes a part of a single program: {whom}", str(whom))
    share = match["share"]
    if _COUNT.fullmatch(share):
        if int(share) == 0:
            raise NotationError(text, "selects nothing", EXAMPLE)
        return Selector(whom.whom, whom.name, whom.value, count=int(share))
    if not share.endswith("%"):
        raise NotationError(text, f"begins with {share!r}, which is neither a percentage nor a count", EXAMPLE)
    part = parse_fraction(share)
    if not 0 < part <= 1:
        raise NotationError(text, "selects nothing or more than all", EXAMPLE)
    return Selector(whom.whom, whom.name, whom.value, part=part)


def parse_rate_of(text: object) -> Rate:
    """Parse a rate: ``20%/min``, ``20%/min of budget``. Raises NotationError."""
    match = _RATE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or not match["share"].endswith("%"):
        raise NotationError(text, "is not a part per minute", RATE_EXAMPLE)
    if match["per"] != "min":
        raise NotationError(text, f"is per {match['per']}, and rates are per min", RATE_EXAMPLE)
    rate = parse_fraction(match["share"])
    if rate <= 0:
        raise NotationError(text, "changes nothing", RATE_EXAMPLE)
    whom = _whom((match["whom"] or "all").strip(), text)
    if whom.whom in PROGRAMS:
        raise NotationError(text, f"is a rate of a single program: {whom}", RATE_EXAMPLE)
    return Rate(rate, whom)


def _whom(said: str, text: object) -> Selector:
    if said in (Whom.ALL, Whom.COORDINATOR, Whom.BROKER):
        return Selector(Whom(said))
    word, _, rest = said.partition(" ")
    if word == Whom.DRIVER:
        if not _NAME.fullmatch(rest.strip()):
            raise NotationError(text, "does not name the driver's job", "driver handwriting")
        return Selector(Whom.DRIVER, rest.strip())
    if label := _LABEL.fullmatch(said):
        return Selector(Whom.LABEL, label[1], label[2].strip())
    if not _NAME.fullmatch(said):
        raise NotationError(text, "is not a selector", EXAMPLE)
    return Selector(Whom.FLEET, said)
