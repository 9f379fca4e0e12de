"""A YAML text as plain values, with the line of every key: the form that errors are told from.

Anchors, aliases and ``<<`` merges work. What is refused is refused with its line: duplicate keys, tags, several
documents, words that YAML readers disagree on (``scalars``), text that is not UTF-8, and files too large to be meant.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from testbed.scenario.errors import Problem, ScenarioError
from testbed.scenario.places import KeyPath, Place, Places
from testbed.scenario.scalars import Scalar, Surprise, plain_scalar, refuse_surprise
from testbed.scenario.syntax import syntax_problem
from venn.wire.notation import format_bytes

Value = Scalar | list["Value"] | dict[str, "Value"]

MOST_BYTES = 1_000_000
MOST_VALUES = 50_000  # with every alias counted as often as it is used
DEEPEST = 20
_TEXT_TAG = "tag:yaml.org,2002:str"
_MERGE_TAG = "tag:yaml.org,2002:merge"
_TAGS = {
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge", "map", "seq")
}


@dataclass(frozen=True, slots=True)
class Document:
    """A file's values and where they stand."""

    root: Value
    places: Places


def read_document(path: Path) -> Document:
    """Raises ScenarioError: no such file, not readable, too large, not UTF-8, not YAML."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
            size = max(len(raw), path.stat().st_size)
    except FileNotFoundError:
        fix = "`venn scenario list` shows those that come with it, `venn new` makes one"
        raise ScenarioError([Problem(str(path), "no such file", fix)]) from None
    except IsADirectoryError:
        raise ScenarioError([Problem(str(path), "is a folder, not a scenario file", "name the file in it")]) from None
    except OSError as error:
        raise ScenarioError([Problem(str(path), f"cannot be read: {error.strerror}")]) from None
    if len(raw) > MOST_BYTES:
        message = f"is {format_bytes(size)}; a scenario has at most {format_bytes(MOST_BYTES)}"
        raise ScenarioError([Problem(str(path), message, "is it the right file?")])
    return parse_document(_decoded(raw, str(path)), str(path))


def parse_document(text: str, source: str) -> Document:
    """Raises ScenarioError, with ``source`` and the line."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ScenarioError([syntax_problem(error, source, text)]) from None
    except RecursionError:
        raise ScenarioError([Problem(source, f"is nested deeper than {DEEPEST} levels")]) from None
    if node is None:
        raise ScenarioError([Problem(f"{source}:1", "is empty", "`venn new` makes a scenario to start from")])
    reader = _Reader(source)
    root = reader.root(node)
    return Document(root, reader.places)


def parse_value(text: str, source: str) -> Value:
    """A single value in the file's notation, as in ``--set PATH=VALUE``. Raises ScenarioError; empty text is None."""
    try:
        return parse_document(text, source).root if text.strip() else None
    except ScenarioError as error:
        problems = [Problem(source, each.message, each.fix) for each in error.problems]
        raise ScenarioError(problems) from None


def _decoded(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8 text (byte {raw[error.start]:#04x})"
        raise ScenarioError([Problem(f"{source}:{line}", message, "save it as UTF-8")]) from None


class _Reader:
    """Turns composed nodes into values, and keeps their places."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._count = 0
        self.places = Places()

    def value(self, node: Node, path: KeyPath) -> Value:
        self._count += 1
        if self._count > MOST_VALUES:
            raise self._problem(node, path, f"has more than {MOST_VALUES} values, aliases included")
        if len(path) > DEEPEST:
            raise self._problem(node, path, f"is nested deeper than {DEEPEST} levels")
        if node.tag not in _TAGS:
            raise self._problem(node, path, f"the tag {node.tag} has no meaning here", "leave it out")
        match node:
            case ScalarNode():
                return self._scalar(node, path)
            case SequenceNode():
                return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
            case MappingNode():
                return self._mapping(node, path)
            case _:
                raise AssertionError(f"YAML has no other node: {node!r}")

    def root(self, node: Node) -> Value:
        return self._item(node, ())

    def _item(self, node: Node, path: KeyPath) -> Value:
        self._put(node, path)
        return self.value(node, path)

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Scalar:
        if node.style is not None:
            if node.tag != _TEXT_TAG:
                raise self._problem(node, path, "a tag has no meaning here", "leave it out")
            return str(node.value)
        try:
            return plain_scalar(node.value)
        except Surprise as surprise:
            raise self._problem(node, path, str(surprise), surprise.fix) from None

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Value]:
        merged: dict[str, Value] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE_TAG:
                self._merge(value_node, path, merged)
        own: dict[str, Value] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE_TAG:
                continue
            key = self._key(key_node, path)
            here = (*path, key)
            if key in own:
                first = self.places.find(here).line
                raise self._problem(key_node, here, f"a second time; the first is on line {first}", "keep one")
            self._put(key_node, here)
            own[key] = self.value(value_node, here)
        return {**merged, **own}

    def _merge(self, node: Node, path: KeyPath, merged: dict[str, Value]) -> None:
        """``<<: *anchor``, or a list of them, of which the earlier wins."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        for source in reversed(sources):
            if not isinstance(source, MappingNode):
                raise self._problem(node, path, "<< takes in a mapping, and this is none")
            merged.update(self._mapping(source, path))

    def _key(self, node: Node, path: KeyPath) -> str:
        if not isinstance(node, ScalarNode):
            raise self._problem(node, path, "a key is a word")
        if node.style is None:
            try:
                refuse_surprise(node.value)
            except Surprise as surprise:
                raise self._problem(node, (*path, node.value), str(surprise), surprise.fix) from None
        return str(node.value)

    def _put(self, node: Node, path: KeyPath) -> None:
        line = node.start_mark.line + 1
        self.places.put(path, f"{self._source}:{line}", line)

    def _problem(self, node: Node, path: KeyPath, message: str, fix: str = "") -> ScenarioError:
        line = node.start_mark.line + 1
        return ScenarioError([Problem(str(Place(f"{self._source}:{line}", line, path)), message, fix)])
