"""Requirements: a small closed algebra of predicates on capabilities.

An absent capability makes every comparison on it false (and its negation true). ``str()`` of a requirement is
its canonical text, in the notation of the scenario file, and identifies its job group. So no two requirements that
differ have the same text: a name or a text that is not a plain word stands in quotes, with escapes as in JSON.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never, get_args

from coordinator.engine.ids import DeviceId, GroupId

Operator = Literal["<", "<=", "=", "!=", ">=", ">"]
NUMBER_OPERATORS: tuple[Operator, ...] = get_args(Operator)
TEXT_OPERATORS: tuple[Operator, ...] = ("=", "!=")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")  # no number begins so
_DEVICE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEYWORDS = frozenset({"and", "or", "not", "in", "all", "id"})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device reports: numbers in base units (bytes, scores), labels with one or more values each."""

    numbers: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """The memory that they take, about: each text, number and set has some beside its characters."""
        texts = [*self.numbers, *self.labels, *(value for values in self.labels.values() for value in values)]
        return sum(map(len, texts)) + 100 * len(texts) + 250 * len(self.labels)


@dataclass(frozen=True, slots=True)
class AllDevices:
    def matches(self, device: DeviceId, capabilities: Capabilities) -> bool:
        return True

    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The requirement ``name operator value``; text only with ``=`` and ``!=``, on labels."""

    name: str
    operator: Operator
    value: float | str

    def __post_init__(self) -> None:
        allowed = TEXT_OPERATORS if isinstance(self.value, str) else NUMBER_OPERATORS
        if self.operator not in allowed:
            raise ValueError(f"{self.name}: operator {self.operator!r} is not one of {', '.join(allowed)}")
        if not isinstance(self.value, str) and not math.isfinite(self.value):
            raise ValueError(f"{self.name}: {self.value} is not a finite number")

    def matches(self, device: DeviceId, capabilities: Capabilities) -> bool:
        if isinstance(self.value, str):
            values = capabilities.labels.get(self.name)
            if values is None:
                return False
            return (self.value in values) == (self.operator == "=")
        number = capabilities.numbers.get(self.name)
        if number is None:
            return False
        match self.operator:
            case "<":
                return number < self.value
            case "<=":
                return number <= self.value
            case "=":
                return number == self.value
            case "!=":
                return number != self.value
            case ">=":
                return number >= self.value
            case ">":
                return number > self.value
            case _:
                assert_never(self.operator)

    def __str__(self) -> str:
        value = _word(self.value) if isinstance(self.value, str) else f"{self.value:.17g}"
        return f"{_word(self.name)} {self.operator} {value}"


@dataclass(frozen=True, slots=True)
class Every:
    items: "tuple[Requirement, ...]"

    def matches(self, device: DeviceId, capabilities: Capabilities) -> bool:
        return all(item.matches(device, capabilities) for item in self.items)

    def __str__(self) -> str:
        return " and ".join(_bracketed(item, Any) for item in self.items)


@dataclass(frozen=True, slots=True)
class Any:
    items: "tuple[Requirement, ...]"

    def matches(self, device: DeviceId, capabilities: Capabilities) -> bool:
        return any(item.matches(device, capabilities) for item in self.items)

    def __str__(self) -> str:
        return " or ".join(str(item) for item in self.items)


@dataclass(frozen=True, slots=True)
class Not:
    item: "Requirement"

    def matches(self, device: DeviceId, capabilities: Capabilities) -> bool:
        return not self.item.matches(device, capabilities)

    def __str__(self) -> str:
        return f"not {_bracketed(self.item, Any, Every)}"


@dataclass(frozen=True, slots=True)
class Ids:
    """The requirement that only these devices meet."""

    ids: tuple[DeviceId, ...]

    def matches(self, device: DeviceId, capabilities: Capabilities) -> bool:
        return device in self.ids

    def __str__(self) -> str:
        return f"id in ({'; '.join(id_ if _DEVICE.fullmatch(id_) else _quoted(id_) for id_ in self.ids)})"


Requirement = AllDevices | Comparison | Every | Any | Not | Ids


def group_of(requirement: Requirement) -> GroupId:
    """The job group of a requirement: jobs with the same canonical text share it."""
    return GroupId(str(requirement))


def leaves(requirement: Requirement) -> Iterator[AllDevices | Comparison | Ids]:
    """The predicates that a requirement is made of, from left to right, as often as they occur."""
    match requirement:
        case AllDevices() | Comparison() | Ids():
            yield requirement
        case Every(items) | Any(items):
            for item in items:
                yield from leaves(item)
        case Not(item):
            yield from leaves(item)
        case _:
            assert_never(requirement)


def comparisons(requirement: Requirement) -> Iterator[Comparison]:
    """Every comparison in a requirement, from left to right, as often as it occurs."""
    return (leaf for leaf in leaves(requirement) if isinstance(leaf, Comparison))


def names_devices(requirement: Requirement) -> bool:
    """Whether it asks for certain devices: then devices with the same capabilities are not alike to it."""
    return any(isinstance(leaf, Ids) for leaf in leaves(requirement))


def _word(text: str) -> str:
    """A text as one word, which is no number, no keyword and no other text's."""
    plain = _PLAIN.fullmatch(text) and text not in _KEYWORDS
    return text if plain else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _bracketed(item: Requirement, *looser: type) -> str:
    return f"({item})" if isinstance(item, looser) else str(item)
