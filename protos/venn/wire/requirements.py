"""The notation of requirements on devices, and of selectors of devices and programs.

Requirements: ``all``, or ``NAME OP VALUE`` joined by ``and``, ``or``, ``not`` and parentheses, and ``id in (a; b)``.
``not`` binds tighter than ``and``, ``and`` tighter than ``or``. A value with a unit is kept in its base unit; a text
that is not one plain word stands in double quotes.

Selectors: ``25% of flagship``, ``3 of site=lab``, ``all``, ``coordinator``, ``driver handwriting``.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import assert_never

from venn.v1.common_pb2 import AllDevices, Comparison, DeviceIds, Operator, Requirement, Requirements
from venn.wire.notation import (
    NUMBER,
    UNITS,
    NotationError,
    format_bytes,
    format_fraction,
    format_number,
    parse_fraction,
    read_quantity,
)
from venn.wire.text import printable

EXAMPLE = "all, memory >= 4 GB and cpu >= 7, not site = lab, or id in (phone-1; phone-2)"
MAX_LENGTH, MAX_DEPTH = 4096, 32
MAX_TEXT = 128  # bytes that something is compared with

OPERATORS = {
    "<": Operator.OPERATOR_LESS,
    "<=": Operator.OPERATOR_AT_MOST,
    "=": Operator.OPERATOR_EQUAL,
    "!=": Operator.OPERATOR_NOT_EQUAL,
    ">=": Operator.OPERATOR_AT_LEAST,
    ">": Operator.OPERATOR_GREATER,
}
SIGNS = {value: sign for sign, value in OPERATORS.items()}
TOKEN = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<sign><=|>=|!=|=|<|>)|(?P<mark>[();])|(?P<word>[^\s();<>=!"]+))')
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
DEVICE = re.compile(r"[A-Za-z0-9._-]{1,64}")
KEYWORDS = ("and", "or", "not", "in", "all", "id")

SELECTOR_EXAMPLE = "25% of flagship, 3 of site=lab, all or driver handwriting"
RATE_EXAMPLE = "20%/min of all"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_LABEL = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,39})\s*=\s*(\S.{0,127})", re.ASCII)
_SHARE = re.compile(r"(?P<share>\S+(?:\s*%)?)\s+of\s+(?P<whom>.+)")
_COUNT = re.compile(r"[0-9]{1,9}")
_RATE = re.compile(r"(?P<share>[^\s/]+(?:\s*%)?)\s*/\s*(?P<per>\S+)(?:\s+of\s+(?P<whom>.+))?")


def parse_requirement(text: str) -> Requirement:
    """Parse a requirement. Raises NotationError."""
    return _Parser(text).whole()


def format_requirement(requirement: Requirement) -> str:
    """The notation of a requirement; an absent one means all devices."""
    match requirement.WhichOneof("kind"):
        case "comparison":
            return _format_comparison(requirement.comparison)
        case "every":
            return " and ".join(_bracketed(item, "any") for item in requirement.every.items)
        case "any":
            return " or ".join(format_requirement(item) for item in requirement.any.items)
        case "negated":
            return f"not {_bracketed(requirement.negated, 'any', 'every')}"
        case "ids":
            return f"id in ({'; '.join(requirement.ids.ids)})"
        case "all" | None:
            return "all"
        case other:
            assert_never(other)


def _format_comparison(comparison: Comparison) -> str:
    sign = SIGNS.get(comparison.operator, "?")
    if comparison.WhichOneof("value") == "text":
        text = comparison.text if comparison.text.isprintable() else printable(comparison.text, MAX_TEXT)
        plain = NAME.fullmatch(text) and text not in KEYWORDS
        return f"{comparison.name} {sign} {text if plain else chr(34) + text + chr(34)}"
    number = comparison.number
    memory = comparison.name == "memory" and number >= 0 and number.is_integer()
    return f"{comparison.name} {sign} {format_bytes(int(number)) if memory else format_number(number)}"


def _bracketed(item: Requirement, *looser: str) -> str:
    text = format_requirement(item)
    return f"({text})" if item.WhichOneof("kind") in looser else text


class _Parser:
    """A recursive-descent parser over tokens (kind, text)."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_LENGTH:
            raise self.error(f"is longer than {MAX_LENGTH} characters")
        self.tokens = self.split()
        self.at = 0

    def error(self, problem: str) -> NotationError:
        return NotationError(self.text, problem, EXAMPLE)

    def split(self) -> list[tuple[str, str]]:
        tokens, at, text = [], 0, self.text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise self.error(f"cannot be read from {printable(text[at:].strip(), 20)!r} on")
            tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        return tokens

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "its end")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def take_if(self, kind: str, text: str) -> bool:
        found = self.peek() == (kind, text)
        self.at += found
        return found

    def whole(self) -> Requirement:
        requirement = self.any_of(0)
        if self.peek()[0] != "end":
            raise self.error(f"goes on with {self.peek()[1]!r} where and, or, or its end should be")
        return requirement

    def any_of(self, depth: int) -> Requirement:
        if depth > MAX_DEPTH:
            raise self.error(f"is nested more than {MAX_DEPTH} deep")
        items = [self.every_of(depth)]
        while self.take_if("word", "or"):
            items.append(self.every_of(depth))
        return items[0] if len(items) == 1 else Requirement(any=Requirements(items=items))

    def every_of(self, depth: int) -> Requirement:
        items = [self.one(depth)]
        while self.take_if("word", "and"):
            items.append(self.one(depth))
        return items[0] if len(items) == 1 else Requirement(every=Requirements(items=items))

    def one(self, depth: int) -> Requirement:
        if depth > MAX_DEPTH:
            raise self.error(f"is nested more than {MAX_DEPTH} deep")
        if self.take_if("word", "not"):
            return Requirement(negated=self.one(depth + 1))
        if self.take_if("mark", "("):
            inner = self.any_of(depth + 1)
            if not self.take_if("mark", ")"):
                raise self.error(f"lacks a ')' before {self.peek()[1]!r}")
            return inner
        if self.take_if("word", "all"):
            return Requirement(all=AllDevices())
        if self.take_if("word", "id"):
            return Requirement(ids=self.ids())
        return Requirement(comparison=self.comparison())

    def ids(self) -> DeviceIds:
        if not (self.take_if("word", "in") and self.take_if("mark", "(")):
            raise self.error("compares an id, which only 'id in (a; b)' can")
        ids = []
        while True:
            kind, text = self.take()
            if kind not in ("word", "quoted") or not DEVICE.fullmatch(text):
                raise self.error(f"has {text!r} where a device's id should be")
            ids.append(text)
            if self.take_if("mark", ")"):
                return DeviceIds(ids=ids)
            if not self.take_if("mark", ";"):
                raise self.error(f"has {self.peek()[1]!r} where ';' or ')' should be")

    def comparison(self) -> Comparison:
        kind, name = self.take()
        if kind != "word" or name in KEYWORDS or not NAME.fullmatch(name):
            raise self.error(f"has {name!r} where the name of a capability should be")
        kind, sign = self.take()
        if kind != "sign":
            raise self.error(f"has {sign!r} after {name} where one of {', '.join(OPERATORS)} should be")
        kind, value = self.take()
        if kind == "quoted" or (kind == "word" and not NUMBER.match(value)):
            if sign not in ("=", "!="):
                raise self.error(f"compares {name} with the text {value!r} by {sign}; texts are compared by = and !=")
            if kind == "word" and value in KEYWORDS:
                raise self.error(f"has {value!r} where a value should be")
            if not value.isprintable() or not 0 < len(value.encode()) <= MAX_TEXT:
                raise self.error(f"compares {name} with a text that is not 1 to {MAX_TEXT} bytes that can be shown")
            return Comparison(name=name, operator=OPERATORS[sign], text=value)
        if kind != "word":
            raise self.error(f"has {value!r} after {name} {sign} where a value should be")
        if NUMBER.fullmatch(value) and self.peek()[0] == "word" and self.peek()[1] not in KEYWORDS:
            unit = self.take()[1]
            if unit not in UNITS:
                units = ", ".join(UNITS)
                raise self.error(f"has {unit!r} after {value} where a unit ({units}), and, or, or its end should be")
            value += unit
        quantity = read_quantity(value, UNITS)
        assert quantity is not None  # it begins with a number
        return Comparison(name=name, operator=OPERATORS[sign], number=float(quantity[0]))


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
        raise NotationError(text, "is not a selector", SELECTOR_EXAMPLE)
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
            raise NotationError(text, "selects nothing", SELECTOR_EXAMPLE)
        return Selector(whom.whom, whom.name, whom.value, count=int(share))
    if not share.endswith("%"):
        raise NotationError(text, f"begins with {share!r}, which is neither a percentage nor a count", SELECTOR_EXAMPLE)
    part = parse_fraction(share)
    if not 0 < part <= 1:
        raise NotationError(text, "selects nothing or more than all", SELECTOR_EXAMPLE)
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
        raise NotationError(text, "is not a selector", SELECTOR_EXAMPLE)
    return Selector(Whom.FLEET, said)
