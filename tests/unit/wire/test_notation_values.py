from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from venn.wire.notation import (
    NotationError,
    exact_decimal,
    format_bytes,
    format_duration,
    format_fraction,
    format_number,
    format_rate,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_number,
    parse_rate,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("2m", 120),
        ("1h", 3600),
        ("250ms", 0.25),
        ("1.5 h", 5400),
        (" 0s ", 0),
        ("1d", 86400),
        (".5s", 0.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["15", 15, 0.5, "-1s", "s", "", "15 parsecs", "1h30m", "1:30", True, "\u0661\u0665s", "nan s", "infs"]
)
def test_no_durations(text: str | float) -> None:
    with pytest.raises(NotationError) as error:
        parse_duration(text)
    assert "15s" in error.value.fix or "1 ms" in error.value.fix
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "count"), [("4 GB", 4 * 10**9), ("512MB", 512 * 10**6), ("1.5 kB", 1500), ("2 GiB", 2**31), ("7 B", 7)]
)
def test_sizes(text: str, count: int) -> None:
    assert parse_bytes(text) == count
    assert parse_bytes(format_bytes(count)) == count


@pytest.mark.parametrize("text", ["4", 4, "0.5 B", "1e30 B", "4 gb", "-4 GB", "4 Gb"])
def test_no_sizes(text: str | int) -> None:
    with pytest.raises(NotationError):
        parse_bytes(text)


def test_a_mistyped_unit_gets_a_guess() -> None:
    with pytest.raises(NotationError, match="did you mean GB"):
        parse_bytes("4 Gb")
    with pytest.raises(NotationError, match="did you mean Mbit/s"):
        parse_rate("4 MBit/s")


def test_rates() -> None:
    assert parse_rate("4 Mbit/s") == 4e6
    assert format_rate(4e6) == "4 Mbit/s"
    assert format_rate(999) == "999 bit/s"


@pytest.mark.parametrize("written", ["80%", "0.8", 0.8, " 80 % ", "0.80"])
def test_fractions_are_exactly_what_was_written(written: str | float) -> None:
    assert parse_fraction(written) == Fraction(4, 5)


@pytest.mark.parametrize("written", ["-1%", "eighty", "80 percent", -0.1, float("nan"), float("inf"), True, "nan"])
def test_no_fractions(written: str | float) -> None:
    with pytest.raises(NotationError):
        parse_fraction(written)


def test_numbers() -> None:
    assert parse_number("7") == 7
    assert parse_number("-2.5e3") == -2500
    for bad in ("7s", "seven", "", float("inf"), "1e999999"):
        with pytest.raises(NotationError):
            parse_number(bad)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(15, "15s"), (120, "2m"), (90, "90s"), (0.25, "250ms"), (86400, "1d"), (0, "0s"), (88.3, "88300ms")],
)
def test_durations_are_written_in_the_largest_whole_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_sizes_are_written_as_people_write_them() -> None:
    assert format_bytes(12 * 10**9) == "12 GB"
    assert format_bytes(1_500_000_000) == "1.5 GB"
    assert format_bytes(512 * 2**20) == "512 MiB"
    assert format_bytes(0) == "0 B"
    assert format_fraction(Fraction(4, 5)) == "80%"
    assert format_fraction(0.125) == "12.5%"


@given(st.floats(0, 1e300))
@example(4.6126126126133096e42)
def test_a_written_duration_reads_back_the_same(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12)


@given(st.floats(0, 1e300))
@example(4.5e-317)
def test_a_written_rate_reads_back_the_same(rate: float) -> None:
    assert parse_rate(format_rate(rate)) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("written", ["1e-300%", "15e-324", "81e168"])
def test_a_fraction_of_very_many_digits_is_refused(written: str) -> None:
    """It is exact, so its text would have them all."""
    with pytest.raises(NotationError, match="has more than 40 digits"):
        parse_fraction(written)


@given(st.integers(0, 10**15))
def test_a_written_size_reads_back_the_same(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == count


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_reads_back_the_same(number: float) -> None:
    assert parse_number(format_number(number)) == number


@given(st.decimals(0, 1000, places=6))
def test_exact_decimals_read_back_the_same(number: object) -> None:
    fraction = Fraction(str(number))
    assert Fraction(exact_decimal(fraction)) == fraction
    assert parse_fraction(format_fraction(fraction)) == fraction


def test_an_endless_decimal_is_refused() -> None:
    with pytest.raises(ValueError, match="not a finite decimal"):
        exact_decimal(Fraction(1, 3))
    assert exact_decimal(Fraction(-5, 4)) == "-1.25"


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for parse in (parse_duration, parse_bytes, parse_rate, parse_fraction, parse_number):
        with suppress(NotationError):
            parse(text)
