"""``--set PATH=VALUE``: a key of the file given another value, read and checked as if it stood in the file.

A flag of its own sets a key, too: ``--policy=fifo`` is ``policy=fifo``, and is told as what the user gave.
"""

from collections.abc import Sequence

from testbed.scenario.document import Document, Value, parse_value
from testbed.scenario.errors import Problem, ScenarioError
from testbed.scenario.places import KeyPath, Places
from testbed.scenario.wording import known

# Below these keys stand names that the user chose: a name that is not there is a slip, not a wish for a new entry.
NAMED = ("jobs", "fleets", "data", "requirements")


def override(document: Document, overrides: Sequence[str]) -> Document:
    """The document with every override applied, in order. Raises ScenarioError."""
    root = document.root
    for text in overrides:
        root = _apply(root, text, document.places)
    return Document(root, document.places)


def as_words(overrides: Sequence[str]) -> list[str]:
    """As they stand on a command line."""
    return [word for each in overrides for word in ([each] if each.startswith("--") else ["--set", each])]


def _apply(root: Value, text: str, places: Places) -> Value:
    flag = text.startswith("--")
    at = text if flag else f"--set {text}"
    dotted, equals, value = text.removeprefix("--").partition("=")
    steps = dotted.replace("-", "_").split(".") if flag else dotted.strip().split(".")
    if not equals or not all(steps):
        raise ScenarioError([Problem(at, "is not PATH=VALUE", "write e.g. --set jobs.handwriting.demand=30")])
    return _Change(at, parse_value(value, at), places, () if flag else None).at(root, steps, ())


class _Change:
    """One override on its way down to its key."""

    def __init__(self, source: str, value: Value, places: Places, called: KeyPath | None) -> None:
        """``called``: what its key is called in messages beside ``source``; None: by its path."""
        self._source = source
        self._value = value
        self._places = places
        self._called = called

    def at(self, node: Value, steps: Sequence[str], path: KeyPath) -> Value:
        """``node``, which stands at ``path``, with the change made below it."""
        if not steps:
            self._places.put(path, self._source, 0, called=self._called)
            return self._value
        step, rest = steps[0], steps[1:]
        if isinstance(node, list):
            return self._in_list(node, step, rest, path)
        if node is not None and not isinstance(node, dict):
            raise self._problem(f"{_dotted(path)} has no keys", "set it whole")
        mapping = node or {}
        if path[:1] and path[0] in NAMED and len(path) == 1 and rest and step not in mapping:
            raise self._problem(f"there is no {step} in {path[0]}", known(step, mapping))
        if node is None:
            self._places.put(path, self._source, 0)
        return {**mapping, step: self.at(mapping.get(step), rest, (*path, step))}

    def _in_list(self, node: list[Value], step: str, rest: Sequence[str], path: KeyPath) -> Value:
        if not (step.isascii() and step.isdecimal() and int(step) < len(node)):
            raise self._problem(f"{_dotted(path)} is a list of {len(node)}", "name an entry by its number, from 0")
        index = int(step)
        return [*node[:index], self.at(node[index], rest, (*path, index)), *node[index + 1 :]]

    def _problem(self, message: str, fix: str) -> ScenarioError:
        return ScenarioError([Problem(self._source, message, fix)])


def _dotted(path: KeyPath) -> str:
    return ".".join(str(step) for step in path)
