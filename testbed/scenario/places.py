"""Where each value of a scenario stands in its file, for messages."""

from collections.abc import Iterator
from dataclasses import dataclass

from venn.wire.text import printable

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """``at`` is ``file:line``, or the ``--set`` that a value comes from; ``path`` is what its keys are called there."""

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

    def put(self, path: KeyPath, at: str, line: int, *, called: KeyPath | None = None) -> None:
        """``path`` now stands there, ``called`` so (by default as it is); whatever stood below it is forgotten."""
        if path in self._places:
            for stale in [other for other in self._places if other[: len(path)] == path]:
                del self._places[stale]
        self._places[path] = Place(at, line, path if called is None else called)

    def inherit(self, heir: KeyPath, source: KeyPath) -> None:
        """What stands below ``heir`` is what stands at ``source``, and is told as that."""
        for path, place in list(self._below(source)):
            self._places.setdefault((*heir, *path[len(source) :]), place)

    def find(self, path: KeyPath) -> Place:
        """The place of ``path``; of a key that is not there, the line of what should have it."""
        for length in range(len(path), -1, -1):
            place = self._places.get(path[:length])
            if place is not None:
                return Place(place.at, place.line, (*place.path, *path[length:]))
        raise KeyError("the root has a place")

    def _below(self, path: KeyPath) -> Iterator[tuple[KeyPath, Place]]:
        return ((other, place) for other, place in self._places.items() if other[: len(path)] == path)
