"""JSON of others, read as the types that are expected."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from venn.wire.jsontext import MOST_INTEGER, made, parse_json, read_as


@dataclass(frozen=True)
class Part:
    name: str


@dataclass(frozen=True)
class Whole:
    count: int
    parts: Sequence[Part]
    ratio: float | None = None
    places: Mapping[str, Path] = field(default_factory=dict)


class Even:
    """What makes itself of its JSON."""

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def from_json(cls, value: object) -> "Even":
        if read_as(int, value) % 2:
            raise ValueError("it is odd")
        return cls(read_as(int, value))


def test_an_object_becomes_a_dataclass() -> None:
    said = {"count": 3, "parts": [{"name": "a"}], "ratio": 1, "places": {"x": "/y"}, "later": True}
    assert made(Whole, said) == Whole(3, (Part("a"),), 1.0, {"x": Path("/y")})
    assert made(Whole, {"count": 3, "parts": []}) == Whole(3, ())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"count": True}, "count: it is not a whole number"),
        ({"count": 3.0}, "count: it is not a whole number"),
        ({"count": MOST_INTEGER + 1}, "count: it is not a whole number"),
        ({"count": None}, "count: it is not a whole number"),
        ({"parts": {}}, "parts: it is not a list"),
        ({"parts": [{"name": 3}]}, "parts: name: it is not a text"),
        ({"parts": [{}]}, "parts: name is missing"),
        ({"ratio": "1"}, "ratio: it is not null"),
        ({"ratio": 10**400}, "ratio: it is not null"),
        ({"places": []}, "places: it is not an object"),
        ({"places": {"x": 3}}, "places: it is not a path"),
    ],
)
def test_what_is_of_another_type_is_told(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=rf"^{told}$"):
        made(Whole, {"count": 3, "parts": []} | change)


def test_a_whole_object_has_all_fields() -> None:
    with pytest.raises(ValueError, match="ratio is missing"):
        made(Whole, {"count": 3, "parts": []}, whole=True)
    with pytest.raises(ValueError, match="it is not an object"):
        made(Whole, [])


def test_other_types() -> None:
    assert read_as(tuple[float, float | None, str], [1, None, "a"]) == (1.0, None, "a")
    assert read_as(tuple[int, ...], [1, 2]) == (1, 2)
    assert read_as(Mapping[str, Any], {"a": [1]}) == {"a": [1]}
    assert read_as(Even, 4).number == 4
    assert math.isnan(read_as(float, math.nan))
    for hint, value in ((tuple[int, int], [1]), (Even, 3), (bool, 1), (str, None)):
        with pytest.raises(ValueError, match="it"):
            read_as(hint, value)
    with pytest.raises(TypeError, match="no reader of"):
        read_as(complex, 1)


def test_a_text_that_is_nested_too_deep_is_no_json() -> None:
    assert parse_json(b'{"a": [1]}') == {"a": [1]}
    for text, told in (("[" * 100_000, "too deep"), ("[", "Expecting"), ("9" * 5000, "limit"), (b"\xff", "decode")):
        with pytest.raises(ValueError, match=told):
            parse_json(text)
