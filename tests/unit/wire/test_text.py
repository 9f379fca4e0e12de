from hypothesis import given
from hypothesis import strategies as st

from venn.wire.text import did_you_mean, printable


@given(st.text(max_size=300), st.integers(3, 50))
def test_nothing_unprintable_passes(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)


def test_escapes_and_direction_marks_are_gone_and_lines_become_one() -> None:
    assert printable("\x1b[31mred\x1b[0m \u202eevil\x00") == "[31mred[0m evil"
    assert printable("one\ntwo\tthree\r") == "one two three"
    assert printable("one\ntwo", keep_newlines=True) == "one\ntwo"
    assert printable("x" * 20, 10) == "xxxxxxx..."
    assert printable("\x00" * 1000 + "hidden", 10) == ""


def test_guesses() -> None:
    assert did_you_mean("requirment", ["demand", "requirement"]) == "did you mean requirement?"
    assert did_you_mean("zzz", ["demand"]) == ""
