"""Problems of a scenario: what is wrong, where it stands, and what to write instead.

Where each value of a scenario stands in its file, for messages.

What is wrong in a scenario: every problem with its place, the first one as the error's own line.

How a validator says what is wrong; the loader adds the place.

What every mapping of a scenario with fixed keys is made from.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from venn.wire.errors import UsageError, with_fix
from venn.wire.text import did_you_mean, printable

KeyPath = tuple[str | int, ...]

MOST_NAMED = 50  # of what is known, in a message
MOST_FINDINGS = 100  # that are told; a person reads the first ones


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value: ``at`` is ``file:line``, or the ``--set`` that it comes from; ``path``, its keys there."""

    at: str
    line: int  # for order; 0 for a --set
    path: KeyPath

    def __str__(self) -> str:
        dotted = ".".join(printable(str(step), 60) for step in self.path)
        return f"{self.at}: {dotted}" if dotted else self.at


class Places:
    """The place of every key of a mapping, of every item of a list, and of the root."""

    def __init__(self) -> None:
        self._places: dict[KeyPath, Place] = {}
        self._below: dict[KeyPath, dict[KeyPath, None]] = {}  # the paths one step longer

    def put(self, path: KeyPath, at: str, line: int, *, called: KeyPath | None = None) -> None:
        """Sets where ``path`` stands, ``called`` so (by default as it is), and forgets whatever stood below it."""
        for stale in list(self._from(path)):
            self._places.pop(stale, None)
            self._below.pop(stale, None)
        self._set(path, Place(at, line, path if called is None else called))

    def inherit(self, heir: KeyPath, source: KeyPath) -> None:
        """Lets what stands below ``heir`` be told as what stands at ``source``."""
        for path in list(self._from(source)):
            target = (*heir, *path[len(source) :])
            if path in self._places and target not in self._places:
                self._set(target, self._places[path])

    def find(self, path: KeyPath) -> Place:
        """The place of ``path``; of a key that is not there, the line of what should have it."""
        for length in range(len(path), -1, -1):
            place = self._places.get(path[:length])
            if place is not None:
                return Place(place.at, place.line, (*place.path, *path[length:]))
        raise KeyError("the root has a place")

    def _set(self, path: KeyPath, place: Place) -> None:
        self._places[path] = place
        while path and path not in self._below.setdefault(path[:-1], {}):
            self._below[path[:-1]][path] = None
            path = path[:-1]

    def _from(self, path: KeyPath) -> Iterator[KeyPath]:
        """``path`` and every path below it."""
        yield path
        for longer in self._below.get(path, ()):
            yield from self._from(longer)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. ``where`` is ``file:line: path.to.key`` as far as it is known."""

    where: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {with_fix(self.message, self.fix)}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem at a key; the loader adds its place in the file."""

    path: KeyPath
    message: str
    fix: str = ""


FROM_FOLDER = "a relative path starts at the scenario's folder"


def no_file(path: KeyPath, file: object) -> Finding:
    """The problem of a file that a key names and that is not there."""
    return Finding(path, f"there is no file {file}", FROM_FOLDER)


def found_in(path: KeyPath, error: UsageError) -> Finding:
    """The problem of a key whose file raised the error when it was read."""
    where = f"{error.where}: " if error.where and error.where != ".".join(map(str, path)) else ""
    return Finding(path, f"{where}{error.message}", error.fix)


class ScenarioError(UsageError):
    """A scenario that cannot be used. ``problems`` are all that were found, in the order of the file; never empty."""

    def __init__(self, problems: Sequence[Problem], reason: str = "SCENARIO") -> None:
        first = problems[0]
        super().__init__(reason, first.message, where=first.where, fix=first.fix)
        self.problems = tuple(problems)


def wrong(message: str, fix: str = "") -> PydanticCustomError:
    """The error that a validator raises: what is wrong, and what to do."""
    return PydanticCustomError("scenario", "{message}", {"message": message, "fix": fix})


def shown(value: object) -> str:
    """A value that was read, as messages show it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            return f"'{printable(value, 80)}'"
        case _:
            return printable(str(value), 80)


def known(word: object, options: Iterable[str]) -> str:
    """The likeliest of ``options``, or some of them."""
    names = list(options)
    if isinstance(word, str) and (hint := did_you_mean(word, names)):
        return hint
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"known are {', '.join(names[:MOST_NAMED])}{more}" if names else "there are none"


class Part(BaseModel):
    """The base of each mapping with fixed keys: frozen, without unknown keys. The text below a key is its reference."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )
