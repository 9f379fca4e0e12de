"""Reading JSON lines that another process wrote, and perhaps did not finish writing: runs are killed."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from venn.wire.errors import UsageError
from venn.wire.jsontext import MOST_INTEGER, parse_json

Row = dict[str, object]


def read_rows(path: Path) -> tuple[Row, ...]:
    """Read every whole line, without a last one that was cut short; nothing if there is no such file.

    Raises UsageError if another line is not a JSON object: then the file was damaged, not cut.
    """
    try:
        lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    except FileNotFoundError:
        return ()
    rows = []
    for line, said in enumerate(lines, start=1):
        row = read_object_line(said)
        if row is not None:
            rows.append(row)
        elif line < len(lines):
            raise damaged(path, line)
    return tuple(rows)


def damaged(path: Path, line: int) -> UsageError:
    """The error for a line that cannot be what was written there."""
    fix = "restore the file, or run again"
    return UsageError("RUN_DAMAGED", "is damaged, or a line before it is missing", where=f"{path}:{line}", fix=fix)


def number_pairs(value: object) -> Iterator[tuple[float, float]]:
    """The pairs of numbers in a list; what is something else is left out."""
    for one in value if isinstance(value, list) else ():
        first, second = map(maybe, one) if isinstance(one, list) and len(one) == 2 else (None, None)
        if first is not None and second is not None:
            yield first, second


def number(row: Row, key: str, default: float = 0.0) -> float:
    """A number of a row; the default where it is absent or something else."""
    value = maybe(row.get(key))
    return default if value is None else value


def integer(row: Row, key: str) -> int:
    """A whole number of a row; 0 where it is absent or something else."""
    value = row.get(key)
    whole = value if isinstance(value, int) else number(row, key)
    return int(whole) if abs(whole) <= MOST_INTEGER else 0


def text(row: Row, key: str) -> str:
    """A text of a row; empty where it is absent or something else."""
    value = row.get(key)
    return value if isinstance(value, str) else ""


def maybe(value: object) -> float | None:
    """A number; None where it is absent (null) or something else."""
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) > MOST_INTEGER):
        return None
    return float(value) if isinstance(value, int | float) else None


def plain_fields(kind: type, row: Row) -> dict[str, Any]:
    """The texts, numbers and truths among the fields of a dataclass, as a row has them.

    One that is absent, or something else, is empty, 0, false, or None where its type admits that.
    """
    readers: dict[object, Callable[[Row, str], object]] = {
        str: text,
        int: integer,
        float: number,
        bool: lambda row, key: bool(row.get(key)),
        float | None: lambda row, key: maybe(row.get(key)),
        int | None: lambda row, key: None if maybe(row.get(key)) is None else integer(row, key),
    }
    hints = get_type_hints(kind).items()
    return {name: readers[hint](row, name) for name, hint in hints if hint in readers}


def rows_in(value: object) -> list[Row]:
    """The objects of a list."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def texts(row: Row, key: str) -> list[str]:
    """A list of texts of a row."""
    value = row.get(key)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def metrics(row: Row) -> dict[str, float]:
    """The ``metrics`` of a row: finite or not, but numbers."""
    value = row.get("metrics")
    if not isinstance(value, dict):
        return {}
    return {str(name): one for name, one in ((name, maybe(one)) for name, one in value.items()) if one is not None}


def read_object_line(said: bytes) -> Row | None:
    """Read the JSON object of a line; None if it is none."""
    try:
        value = parse_json(said)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_object(path: Path) -> Row:
    """Read the object of a JSON file; empty if there is none, or nothing that can be read."""
    try:
        return read_object_line(path.read_bytes()) or {}
    except (OSError, ValueError):  # a ValueError: of a path that no file can have
        return {}


def plain(value: object) -> object:
    """A value as JSON has it, at any depth: a dataclass is an object, what is not a finite number is null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
