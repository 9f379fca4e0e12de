"""Pins the fields of all that a journal of this format holds: ``python -m tests.golden.fields`` writes them down.

A record is the values of its fields in their order, so a field that changes its place changes what old journals say. A
format may gain classes, members, and fields that come last and have a default; anything else needs a new format. Each
class is written with its fields and their types, and an event, effect or fact with an example, as a journal has it. The
value of a field in the example depends on its name alone.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Literal, NewType, Union, get_args, get_origin, get_type_hints
from zlib import crc32

from coordinator.engine.effects import Effect
from coordinator.engine.events import Event
from coordinator.engine.model import EngineSettings
from coordinator.engine.record import text_of
from coordinator.service.facts import Fact
from coordinator.service.journal import FORMAT

FIELDS = Path(__file__).parent / f"format-{FORMAT}-fields.txt"
RECORDS: tuple[type, ...] = (*get_args(Event), *get_args(Effect), *get_args(Fact))


def fields_text() -> str:
    """All classes that a journal holds, a line each, with an example of what a journal records in the line after it."""
    kinds: dict[type, None] = {}
    for kind in (*RECORDS, EngineSettings):
        _classes(kind, kinds)
    lines: list[str] = []
    for kind in kinds:
        if issubclass(kind, Enum):
            lines.append(f"{kind.__name__}: {', '.join(member.value for member in kind)}")
            continue
        hints = get_type_hints(kind)
        lines.append(
            f"{kind.__name__}({', '.join(f'{one.name}: {_type_text(hints[one.name])}' for one in fields(kind))})"
        )
        if kind in RECORDS:
            lines.append(f"  {text_of(example(kind))}")
    return "\n".join(lines) + "\n"


def example(kind: type) -> Event | Effect | Fact:
    """An event, effect or fact in whose record no field passes for another of its type."""
    made = _example(kind, "")
    assert isinstance(made, RECORDS)
    return made  # type: ignore[return-value]  # it is one of them


def _example(hint: object, name: str) -> object:
    """A value of this type for a field of this name."""
    origin, args, number = get_origin(hint), get_args(hint), crc32(name.encode()) % 1000
    if isinstance(hint, NewType):
        return _example(hint.__supertype__, name)
    if origin in (Union, UnionType):
        return _example(next(one for one in args if not is_dataclass(one) or fields(one)), name)
    if origin is tuple:
        return tuple(_example(one, f"{name} {place}") for place, one in enumerate(args) if one is not ...)
    if origin is Literal:
        return args[number % len(args)]
    if origin is frozenset:
        return frozenset({_example(args[0], name)})
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_example(args[0], name): _example(args[1], name)}
    assert isinstance(hint, type)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{one.name: _example(hints[one.name], f"{name} {one.name}".strip()) for one in fields(hint)})
    if issubclass(hint, Enum):
        return list(hint)[number % len(hint)]
    if hint is Fraction:
        return Fraction(number, 1000)
    return {bool: bool(number % 2), int: number, float: number + 0.5, str: name}[hint]


def _classes(hint: object, found: dict[type, None]) -> dict[type, None]:
    """Add a class and those of its fields, at any depth."""
    if hint in found:
        return found
    if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, Enum)):
        found[hint] = None
    inside = get_type_hints(hint).values() if is_dataclass(hint) else get_args(hint)
    for one in inside:
        _classes(one, found)
    return found


def _type_text(hint: object) -> str:
    """A type as it is written in the code, in any Python."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " | ".join(map(_type_text, args))
    if origin is Literal:
        return f"Literal{list(args)}"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(_type_text, args))}]"
    return {type(None): "None", ...: "..."}.get(hint) or getattr(hint, "__name__", "")


if __name__ == "__main__":
    FIELDS.write_text(fields_text())
