"""JSON that another program wrote, as values of the types that are expected."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

MOST_INTEGER = 2**63 - 1  # of a whole number, either way

_WHAT = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
    Path: "a path",
}


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, also for one that is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def made(kind: type[T], value: object, *, whole: bool = False) -> T:
    """A dataclass of an object that has its fields, each of its type; other fields are ignored. A field that has a
    default may be missing, unless the object is ``whole``. What has a function ``from_json`` is made by that.

    Raises ValueError.
    """
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    hints, found = _hints(kind), {}  # type: ignore[arg-type]  # a type can be hashed
    for field in fields(kind):  # type: ignore[arg-type]  # only dataclasses come here
        if field.name in value:
            try:
                found[field.name] = read_as(hints[field.name], value[field.name])
            except ValueError as error:
                raise ValueError(f"{field.name}: {error}") from None
        elif whole or (field.default is MISSING and field.default_factory is MISSING):
            raise ValueError(f"{field.name} is missing")
    return kind(**found)


def read_as(hint: Any, value: object) -> Any:
    """A JSON value as one of a type: of plain types, unions, sequences, tuples, mappings by text, and dataclasses;
    ``Any`` is what is there. Raises ValueError.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if hint in _WHAT:
        return _plain(hint, value)
    if origin in (Union, UnionType):
        return _one_of(args, value)
    if origin is tuple and args[-1] is not Ellipsis:
        items = _list(value)
        if len(items) != len(args):
            raise ValueError(f"it has {len(items)} values, and not {len(args)}")
        return tuple(map(read_as, args, items))
    if origin in (tuple, Sequence):
        return tuple(read_as(args[0], each) for each in _list(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
        return {name: read_as(args[1], each) for name, each in value.items()}
    if hasattr(hint, "from_json"):
        return hint.from_json(value)
    if is_dataclass(hint) and isinstance(hint, type):
        return made(hint, value)
    raise TypeError(f"no reader of {hint}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _plain(kind: Any, value: Any) -> Any:
    written_as = {Path: (str,), float: (float, int)}.get(kind, (kind,))
    if type(value) not in written_as or (isinstance(value, int) and abs(value) > MOST_INTEGER):
        raise ValueError(f"it is not {_WHAT[kind]}")
    return kind(value) if kind in (float, Path) else value


def _one_of(kinds: tuple[Any, ...], value: object) -> Any:
    """The value as the first of these types that it is."""
    for kind in kinds[:-1]:
        try:
            return read_as(kind, value)
        except ValueError:
            pass
    return read_as(kinds[-1], value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("it is not a list")
    return value
