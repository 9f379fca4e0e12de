"""Whose something is, and whether they still run."""

import os
from pathlib import Path

from venn.wire.process import MARK, alive, mark_of, own_mark


def test_this_process_is_alive() -> None:
    assert MARK.fullmatch(own_mark())
    assert alive(own_mark())
    assert mark_of(os.getpid()) == own_mark()


def test_another_process_with_the_same_id_is_another(tmp_path: Path) -> None:
    place = tmp_path / "7"
    place.mkdir()
    fields = ["S", *["0"] * 18, "4711", "0"]
    (place / "stat").write_text(f"7 (a ) name) {' '.join(fields)}")
    assert mark_of(7, tmp_path) == "p7-s4711"
    assert alive("p7-s4711", tmp_path)
    assert not alive("p7-s4712", tmp_path)
    assert not alive("p8-s4711", tmp_path)
    assert not alive("nonsense", tmp_path)


def test_a_zombie_is_gone(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (x) Z " + " ".join(["0"] * 20))
    assert mark_of(7, tmp_path) is None
