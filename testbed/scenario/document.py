"""YAML text as plain values, with the line of every key for messages, and values as YAML text again.

Anchors, aliases and ``<<`` merges work. What is refused is refused with its line: duplicate keys, tags, several
documents, text that is not UTF-8, files too large to be meant, and words that YAML readers disagree on. YAML 1.1 takes
``1:30`` for 90, ``no`` for false and ``010`` for 8; YAML 1.2 does not. A scenario must not depend on which of the two a
reader knows, so the message says what to write in their place.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import yaml
from yaml.error import MarkedYAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from testbed.scenario.errors import KeyPath, Place, Places, Problem, ScenarioError
from venn.wire.notation import format_bytes
from venn.wire.text import printable

Scalar = bool | int | float | str | None

_TRUTH = {"true": True, "false": False}
_YES_NO = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]*)?(?P<exponent>[eE][-+]?[0-9]+)?")
_BARE_FRACTION = re.compile(r"[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_SIXTIES = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_OCTAL = re.compile(r"[-+]?0[0-9_]+")
_UNDERSCORED = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?")
_OTHER_BASE = re.compile(r"[-+]?0(?:x_*[0-9a-fA-F][0-9a-fA-F_]*|b_*[01][01_]*|o[0-7]+)")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)
_LONGEST_NUMBER = 40  # characters; Python's own int() refuses thousands of digits with a traceback


class Surprise(ValueError):
    """A word that YAML readers do not agree on. ``fix`` says what to write."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted word. Raises Surprise."""
    if text in ("", "~") or text.lower() == "null":
        return None
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    refuse_surprise(text)
    if len(text) <= _LONGEST_NUMBER:
        if (number := _NUMBER.fullmatch(text)) is not None:
            if number["fraction"] is None and number["exponent"] is None:
                return int(text)
            return _finite(text)
        if _BARE_FRACTION.fullmatch(text):
            return _finite(text)
    return text


def refuse_surprise(text: str) -> None:
    """Refuses a word. Raises Surprise if YAML 1.1 makes of ``text`` something that its reader does not see."""
    digits = text.replace("_", "")
    read, write = "", ""
    if text.lower() in _YES_NO:
        read = write = _YES_NO[text.lower()]
    elif _SIXTIES.fullmatch(text):
        read = _in_sixties(text)
        write = f"{read}s for a time"
    elif _NOT_FINITE.fullmatch(text):
        raise Surprise(f"{text} is not a finite number", "leave the key out for no limit")
    elif _OTHER_BASE.fullmatch(text):
        short = len(text) <= _LONGEST_NUMBER
        read, write = [str(int(digits, 0))] * 2 if short else ("a number in another base", "it with decimal digits")
    elif _OCTAL.fullmatch(text):
        read, write = "a number in base 8", digits.lstrip("+-0") or "0"
    elif "_" in text and _UNDERSCORED.fullmatch(text):
        read = write = digits
    if read:
        word = "the word" if text.lower() in _YES_NO else "text"
        shown = printable(text, 60)
        raise Surprise(f"YAML reads {shown} as {read}", f'write {write}, or "{shown}" in quotes for {word}')


def _in_sixties(text: str) -> str:
    """What YAML 1.1 makes of ``1:30``: 90."""
    digits = text.replace("_", "").lstrip("+-")
    total = 0.0
    for part in digits.split(":"):
        total = total * 60 + float(part)
    return f"{total:.15g}"


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise Surprise(f"{printable(text, 60)} is too large for a number", "write a smaller one")
    return value


_OPENED = {"[": "a list", "{": "a mapping", '"': "a quoted text", "'": "a quoted text"}


# What PyYAML says, what messages say (its own words if nothing), and what to do.
_SYNTAX = {
    "<stream end>": ("the file ends where a value should be", "is it cut off?"),
    "another document": ("a second document begins", "one file is one scenario: remove the --- line"),
    "undefined alias": ("", "an &anchor comes before its *alias"),
    "mapping values are not allowed here": (
        "a colon where no key can be",
        "check the indentation, or put the text in quotes",
    ),
    "could not find expected ':'": ("a key without a colon", "write key: value"),
}


def syntax_problem(error: yaml.YAMLError, source: str, text: str) -> Problem:
    """The problem of a text that is not YAML, in one line where PyYAML has five."""
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        return Problem(f"{source}:{line}", f"holds a character that YAML forbids (U+{code:04X})", "remove it")
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return Problem(source, f"is not YAML: {error}")
    mark, problem = error.problem_mark, error.problem or "cannot be read"
    where = f"{source}:{mark.line + 1}"
    opened = error.context_mark
    what = _OPENED.get(text[opened.index : opened.index + 1]) if opened is not None else None
    if opened is not None and what and mark.index >= len(text.rstrip()):
        return Problem(where, f"the file ends inside {what} that begins on line {opened.line + 1}", "is it cut off?")
    if text[mark.index : mark.index + 1] == "\t":
        return Problem(where, "a tab, where YAML allows only spaces", "indent with spaces")
    for words, (message, fix) in _SYNTAX.items():
        if words in problem:
            return Problem(where, message or problem, fix)
    begun = f" (in what begins on line {opened.line + 1})" if opened is not None and opened.line != mark.line else ""
    return Problem(where, f"not YAML: {problem}{begun}")


Value = Scalar | list["Value"] | dict[str, "Value"]

MOST_BYTES = 1_000_000
MOST_VALUES = 50_000  # with every alias counted as often as it is used
DEEPEST = 20
FEWER, FLATTER = "write fewer", "write it with fewer levels"
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
    """The values of a file. Raises ScenarioError: no such file, not readable, too large, not UTF-8, not YAML."""
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
    """The values of a text. Raises ScenarioError, with ``source`` and the line."""
    try:
        node = _Composer(text, source).get_single_node()
    except yaml.YAMLError as error:
        raise ScenarioError([syntax_problem(error, source, text)]) from None
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


class _Composer(yaml.SafeLoader):
    """Composes nodes: no more and no deeper ones than a scenario has, with room for its keys, which are nodes too."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self._source = source
        self._count = self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self._count += 1
        if self._count > 2 * MOST_VALUES:
            raise self._problem(f"has more than {MOST_VALUES} values", FEWER)
        if self._depth > DEEPEST + 1:
            raise self._problem(f"is nested deeper than {DEEPEST} levels", FLATTER)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _problem(self, message: str, fix: str) -> ScenarioError:
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]  # its stub has no types
        return ScenarioError([Problem(f"{self._source}:{line}", message, fix)])


class _Reader:
    """Turns composed nodes into values, and keeps their places."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._count = 0
        self._merging: list[Node] = []  # mappings that are taken in, each by the one before
        self.places = Places()

    def value(self, node: Node, path: KeyPath) -> Value:
        self._visit(node, path)
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
            if source in self._merging:
                raise self._problem(source, path, "<< takes in the mapping that it stands in", "remove it")
            self._visit(source, path)
            self._merging.append(source)
            merged.update(self._mapping(source, path))
            self._merging.pop()

    def _visit(self, node: Node, path: KeyPath) -> None:
        """Count a node; one that is taken in counts with all that is in it, each time."""
        self._count += 1
        if self._count > MOST_VALUES:
            raise self._problem(node, path, f"has more than {MOST_VALUES} values, aliases included", FEWER)
        if len(path) + len(self._merging) > DEEPEST:
            raise self._problem(node, path, f"is nested deeper than {DEEPEST} levels", FLATTER)

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


class _Dumper(yaml.SafeDumper):
    """Quotes every text that ``plain_scalar`` would not read back as the same text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        plain = plain_scalar(text) == text
    except Surprise:
        plain = False
    return dumper.represent_scalar(_TEXT_TAG, text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def written(values: Mapping[str, Any]) -> str:
    """YAML text that ``parse_document`` reads back as the same values."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120)
