"""The part of JSON schema (2020-12) that ours uses, for tests: what is wrong with a document."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODELINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
EXPLAINING = {"title", "description", "examples", "default", "x-kind", "$schema", "$defs"}


def schema_of(file: Path) -> Any:
    """The schema that the first line of a scenario names, relative to it."""
    named = MODELINE.match(file.read_text())
    assert named, f"{file} names no schema in its first line"
    return json.loads((file.parent / named[1]).read_text())


def problems(value: Any, schema: Any, root: Any, place: str = "") -> Iterator[str]:
    """Raises KeyError for a keyword that it does not know."""
    for keyword, wanted in schema.items():
        if keyword not in EXPLAINING and keyword not in ("properties", "patternProperties"):
            yield from KEYWORDS[keyword](value, wanted, root, place)
    if isinstance(value, dict):
        yield from _of_members(value, schema, root, place)


def _of_members(value: dict[str, Any], schema: Any, root: Any, place: str) -> Iterator[str]:
    for key, inner in value.items():
        matching = [each for pattern, each in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
        matching += [schema["properties"][key]] if key in schema.get("properties", {}) else []
        for each in matching or [schema.get("additionalProperties", True)]:
            if each is False:
                yield f"{place}.{key}: no such key"
            elif each is not True:
                yield from problems(inner, each, root, f"{place}.{key}")


def _type(value: Any, wanted: Any, root: Any, place: str) -> Iterator[str]:
    names = [wanted] if isinstance(wanted, str) else wanted
    fits = any(isinstance(value, TYPES[name]) and (name == "boolean") == isinstance(value, bool) for name in names)
    if not fits:
        yield f"{place}: {value!r} is no {' or '.join(names)}"


def _any_of(value: Any, wanted: Any, root: Any, place: str) -> Iterator[str]:
    found = [list(problems(value, each, root, place)) for each in wanted]
    if all(found):
        yield from found[0]


def _items(value: Any, wanted: Any, root: Any, place: str) -> Iterator[str]:
    for number, each in enumerate(value if isinstance(value, list) else ()):
        yield from problems(each, wanted, root, f"{place}[{number}]")


def _names(value: Any, wanted: Any, root: Any, place: str) -> Iterator[str]:
    for key in value if isinstance(value, dict) else ():
        yield from problems(key, wanted, root, f"{place}.{key}")


def _number(test: Any) -> Any:
    def check(value: Any, wanted: Any, root: Any, place: str) -> Iterator[str]:
        if isinstance(value, int | float) and not test(value, wanted):
            yield f"{place}: {value!r} is out of range of {wanted}"

    return check


def _said(test: Any) -> Any:
    def check(value: Any, wanted: Any, root: Any, place: str) -> Iterator[str]:
        if not test(value, wanted):
            yield f"{place}: {value!r} is not as {wanted!r} demands"

    return check


KEYWORDS: dict[str, Any] = {
    "type": _type,
    "anyOf": _any_of,
    "items": _items,
    "propertyNames": _names,
    "$ref": lambda value, wanted, root, place: problems(value, root["$defs"][wanted.rpartition("/")[2]], root, place),
    "minimum": _number(lambda value, least: value >= least),
    "maximum": _number(lambda value, most: value <= most),
    "exclusiveMinimum": _number(lambda value, below: value > below),
    "enum": _said(lambda value, allowed: value in allowed),
    "const": _said(lambda value, allowed: value == allowed),
    "required": _said(lambda value, keys: not isinstance(value, dict) or set(keys) <= value.keys()),
    "pattern": _said(lambda value, pattern: not isinstance(value, str) or re.search(pattern, value)),
    "additionalProperties": _said(lambda value, wanted: True),  # among the members
}
