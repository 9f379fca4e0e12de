"""Inputs for decoders: any bytes, damaged valid ones, and valid forms with nasty values in them."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

# What terminals obey, what turns the direction of writing, what has no width, half a character, and what is long.
TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[31m",
    "\x9b2J",
    "\u202ea",
    "a\u200bb",
    "\ufeff",
    "\u2028",
    "a\n",
    "..",
    "/",
    "é" * 70,
    "a" * 200,
)
NUMBERS = (0, 1, -1, 2**31, 2**32 - 1, 2**48, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**400)
FLOATS = (0.0, -0.0, 5e-324, 1e-300, 0.1, 1e15, 1e16, 1e300, math.inf, -math.inf, math.nan)
WORDS = (
    *(text.encode() for text in TEXTS),
    *(str(number).encode() for number in (*NUMBERS, *FLOATS)),
    *(b"NaN", b"Infinity", b"1e999", b"1e-999", b"1e999999999", b"1/0", b"0x", b"9" * 5000, b"null", b"\xed\xa0\x80"),
    *(
        b"\xff" * 8,
        b"\x80" * 10,
        b"[" * 20_000,
        b"(" * 3000,
        b'{"a":' * 3000,
        b"\n",
        b",",
        b'"',
        b"\\ud800",
        b"-",
        b"e",
        b":",
    ),
)

JSON_LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    (*TEXTS, *NUMBERS, *FLOATS, None, True, "\ud800", "1e999999999", "1/0", "NaN", [], {}, [[]], {"a": {}}, [[[[[1]]]]])
)
JSON = st.recursive(
    JSON_LEAVES,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), some, max_size=3),
    max_leaves=5,
)


@st.composite
def damaged(draw: st.DrawFn, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """A valid encoding that was changed in a few places: flipped, cut, repeated, spliced with another, or added to."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        match draw(st.sampled_from(("flip", "cut", "end", "repeat", "splice", "word", "replace"))):
            case "flip" if start < len(data):
                data[start] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[start : min(end, start + 64)]
            case "end":
                del data[start:]
            case "repeat":
                data[end:end] = bytes(data[start:end][:4096]) * draw(st.integers(1, 3))
            case "splice":
                other = draw(st.sampled_from(seeds))
                data[start:end] = other[draw(st.integers(0, len(other))) :][: end - start]
            case "word":
                data[start:start] = draw(st.sampled_from((*words, *WORDS)))
            case _:
                data[start : min(end, start + 8)] = draw(st.binary(max_size=8))
    return bytes(data)


@st.composite
def json_like(draw: st.DrawFn, values: Sequence[Any]) -> Any:
    """A valid JSON value in which a part was replaced or taken away."""
    value = draw(st.sampled_from(values))
    for _ in range(draw(st.integers(1, 2))):
        value = _changed(draw, value)
    return value


def _changed(draw: st.DrawFn, value: Any) -> Any:
    keys: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    if not keys or draw(st.integers(0, 5)) == 0:
        return draw(JSON)
    key = draw(st.sampled_from(keys))
    copy = value.copy()
    match draw(st.integers(0, 7)):
        case 0:
            del copy[key]
        case 1 if isinstance(copy, dict):
            copy[draw(st.sampled_from(TEXTS))] = copy.pop(key)
        case 1:
            copy.append(copy[key])
        case _:
            copy[key] = _changed(draw, copy[key])
    return copy


def json_lines(lines: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """Lines of JSON of which one is changed, the others as they are."""
    at = st.integers(0, len(lines) - 1)
    return at.flatmap(
        lambda place: json_like([lines[place]]).map(
            lambda value: lines_text([*lines[:place], value, *lines[place + 1 :]])
        )
    )


def lines_text(values: Sequence[Any]) -> bytes:
    return "".join(json.dumps(value, separators=(",", ":")) + "\n" for value in values).encode()


_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: st.sampled_from((0, 1, -1, 2**31 - 1, -(2**31))),
    FieldDescriptor.CPPTYPE_UINT32: st.sampled_from((0, 1, 7, 2**32 - 1)),
    FieldDescriptor.CPPTYPE_INT64: st.sampled_from((0, 1, -1, 7, 2**62, 2**63 - 1, -(2**63))),
    FieldDescriptor.CPPTYPE_UINT64: st.sampled_from((0, 1, 7, 2**62, 2**63, 2**64 - 1)),
    FieldDescriptor.CPPTYPE_ENUM: st.sampled_from((0, 1, 2, 3, 99, -1)),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_DOUBLE: st.sampled_from(FLOATS),
    FieldDescriptor.CPPTYPE_FLOAT: st.sampled_from(FLOATS),
}
_STRINGS = st.sampled_from(
    (*TEXTS, "a", "cpu", "memory", "0.8", "1/3", "all", "or", 'a" or "b', "127.0.0.1:9", "x" * 65)
)
_BYTES = st.sampled_from((b"", b"\x00", bytes(16), bytes(32), b"\xff" * 33))


def messages(make: Callable[[], Message], depth: int = 5) -> st.SearchStrategy[bytes]:
    """Messages of a kind, serialised, each field absent, plain or nasty."""
    return _messages(make, depth).map(lambda message: message.SerializeToString())


@st.composite
def _messages(draw: st.DrawFn, make: Callable[[], Message], depth: int) -> Message:
    message = make()
    for field in message.DESCRIPTOR.fields:
        if draw(st.integers(0, 2)) == 0 or (field.containing_oneof and message.WhichOneof(field.containing_oneof.name)):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(draw, message, field, depth)
        elif hasattr(getattr(message, field.name), "extend"):  # of repeated fields; newer protobuf warns of ``label``
            for _ in range(draw(st.integers(0, 3))):
                _add(draw, message, field, depth)
        elif field.message_type is not None:
            if depth:
                getattr(message, field.name).CopyFrom(draw(_messages(type(getattr(message, field.name)), depth - 1)))
        else:
            setattr(message, field.name, draw(_scalar(field)))
    return message


def _add(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    many = getattr(message, field.name)
    if field.message_type is None:
        many.append(draw(_scalar(field)))
    elif depth:
        one = many.add()
        one.CopyFrom(draw(_messages(type(one), depth - 1)))


def _fill_map(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    key, value = field.message_type.fields
    many = getattr(message, field.name)
    for _ in range(draw(st.integers(0, 3))):
        name = draw(_scalar(key))
        if value.message_type is None:
            many[name] = draw(_scalar(value))
        elif depth:
            many[name].CopyFrom(draw(_messages(type(many[name]), depth - 1)))


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _BYTES
    return _STRINGS if field.cpp_type == FieldDescriptor.CPPTYPE_STRING else _INTEGERS[field.cpp_type]
