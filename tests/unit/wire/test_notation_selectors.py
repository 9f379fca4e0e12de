"""Selectors and rates: read, written back, refused."""

from fractions import Fraction

import pytest

from venn.wire.notation import NotationError
from venn.wire.requirements import Selector, Whom, parse_rate_of, parse_selector


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("all", Selector(Whom.ALL)),
        ("flagship", Selector(Whom.FLEET, "flagship")),
        ("25% of flagship", Selector(Whom.FLEET, "flagship", part=Fraction(1, 4))),
        ("3 of site=lab", Selector(Whom.LABEL, "site", "lab", count=3)),
        ("coordinator", Selector(Whom.COORDINATOR)),
        ("broker", Selector(Whom.BROKER)),
        ("driver tablet-pen", Selector(Whom.DRIVER, "tablet-pen")),
    ],
)
def test_selectors(text: str, selector: Selector) -> None:
    assert parse_selector(text) == selector
    assert str(selector) == text


def test_blanks_do_not_matter() -> None:
    assert parse_selector(" 12.5 %  of site = lab two ") == Selector(Whom.LABEL, "site", "lab two", part=Fraction(1, 8))


def test_rates() -> None:
    assert str(parse_rate_of("20%/min")) == "20%/min of all"
    assert parse_rate_of("150 % / min of budget").per_minute == Fraction(3, 2)


@pytest.mark.parametrize(
    ("part", "of", "size"), [("25%", 20, 5), ("25%", 2, 1), ("10%", 4, 0), ("3", 2, 2), ("3", 9, 3), ("100%", 7, 7)]
)
def test_sizes_are_rounded_half_up(part: str, of: int, size: int) -> None:
    assert parse_selector(f"{part} of all").size(of) == size


@pytest.mark.parametrize(
    "text", ["", "two words", "0 of all", "0% of all", "101% of all", "0.5 of all", "half of all", "5 of", "driver", 7]
)
def test_no_selectors(text: object) -> None:
    with pytest.raises(NotationError):
        parse_selector(text)


@pytest.mark.parametrize("text", ["20%", "20/min", "0%/min", "20%/s", "20%/min of driver a", 20])
def test_no_rates(text: object) -> None:
    with pytest.raises(NotationError):
        parse_rate_of(text)
