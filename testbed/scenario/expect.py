"""What a scenario expects of its run: a path into summary.json, an operator, a number.

A step of a path is a key of a mapping, the ``name`` of an entry of a list, or an entry's number from 0. That every
job finishes is expected unless the scenario says something else of ``unfinished_jobs``.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from venn.wire.errors import UsageError
from venn.wire.notation import parse_number

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
EXAMPLE = "jobs.handwriting.accuracy >= 0.90"
_SHAPE = re.compile(r"(?P<path>[A-Za-z0-9_.-]+)\s*(?P<operator>[=!<>]+)\s*(?P<number>[^\s=!<>]+)")
_LONGEST = 200  # characters


@dataclass(frozen=True, slots=True)
class Expectation:
    """One fact that must hold: ``path operator number``. ``number`` keeps how it was written, as 0.90."""

    path: tuple[str, ...]
    operator: str  # one of OPERATORS
    number: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} {self.operator} {self.number}"

    def holds(self, got: float | None) -> bool:
        """Whether ``got`` meets it; nothing found meets nothing."""
        return got is not None and OPERATORS[self.operator](got, parse_number(self.number))


class Verdict(NamedTuple):
    """One expectation against a summary. ``got`` is None where the summary has no number at the path."""

    text: str
    got: float | None
    ok: bool


ALL_JOBS_FINISH = Expectation(("unfinished_jobs",), "==", "0")


def parse_expectation(text: object) -> Expectation:
    """Reads an expectation. Raises ValueError with what is wrong, without a place."""
    if not isinstance(text, str) or len(text) > _LONGEST or (match := _SHAPE.fullmatch(text.strip())) is None:
        raise ValueError(f"is not PATH OPERATOR NUMBER; write e.g. {EXAMPLE}")
    if match["operator"] not in OPERATORS:
        fix = "write ==" if match["operator"] == "=" else f"known are {' '.join(OPERATORS)}"
        raise ValueError(f"has the unknown operator {match['operator']}; {fix}")
    path = tuple(match["path"].split("."))
    if not all(path):
        raise ValueError(f"has a path with an empty step; write e.g. {EXAMPLE}")
    try:
        parse_number(match["number"])
    except UsageError:
        raise ValueError(f"compares with {match['number']}, which is no bare number; write e.g. {EXAMPLE}") from None
    return Expectation(path, match["operator"], match["number"])


def with_defaults(expectations: Sequence[Expectation]) -> tuple[Expectation, ...]:
    """The expectations, and that every job finishes where none is about unfinished jobs."""
    if any(each.path == ALL_JOBS_FINISH.path for each in expectations):
        return tuple(expectations)
    return (ALL_JOBS_FINISH, *expectations)


def is_simulated(expectation: Expectation) -> bool:
    """Whether a simulation has the number. It trains nothing and loads no machine: there is neither metric nor
    host."""
    path = expectation.path
    return path[0] not in ("host", "emulation") and not (
        path[0] == "jobs" and path[2:3] in (("accuracy",), ("metrics",))
    )


def evaluate(expectations: Sequence[Expectation], summary: object) -> list[Verdict]:
    """Each expectation against a summary, in order."""
    found = [(each, look_up(summary, each.path)) for each in expectations]
    return [Verdict(str(each), got, each.holds(got)) for each, got in found]


def look_up(summary: object, path: Sequence[str]) -> float | None:
    """The number at a path; true is 1 and false 0. None: there is none."""
    value = summary
    for step in path:
        value = _step(value, step)
    return float(value) if isinstance(value, bool | int | float) else None


def unknown_step(path: Sequence[str], kind: Any) -> tuple[str, tuple[str, ...]] | None:
    """The first step of a path that no value of the type ``kind`` can have, and those that it can; an empty step: the
    path ends at something that is no number. None: the path may lead to one.

    ``kind`` is a dataclass, as deep as one likes, with lists and mappings in it; keys of a mapping are not known.
    """
    for step in path:
        kind = _without_none(kind)
        if is_dataclass(kind):
            fields = get_type_hints(kind)
            if step not in fields:
                return step, tuple(fields)
            kind = fields[step]
        elif issubclass(get_origin(kind) or kind, Mapping):
            kind = get_args(kind)[1]
        elif get_origin(kind) in (tuple, list):
            kind = get_args(kind)[0]
        else:
            return step, ()
    return None if _without_none(kind) in (bool, int, float) else ("", ())


def _without_none(kind: Any) -> Any:
    """``int`` of ``int | None``."""
    return (
        next((each for each in get_args(kind) if each is not NoneType), kind) if isinstance(kind, UnionType) else kind
    )


def _step(value: object, step: str) -> object:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, Sequence) and not isinstance(value, str):
        named = [entry for entry in value if isinstance(entry, Mapping) and entry.get("name") == step]
        if named:
            return named[0]
        if step.isascii() and step.isdecimal() and int(step) < len(value):
            return value[int(step)]
    return None
