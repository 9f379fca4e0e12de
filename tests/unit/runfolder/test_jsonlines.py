from pathlib import Path

import pytest

from testbed.runfolder.jsonlines import integer, metrics, number, read_rows, text, texts
from venn.wire.errors import UsageError


def test_an_absent_file_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "no.jsonl") == ()


@pytest.mark.parametrize("tail", [b"", b"\n", b'{"n":', b'{"n": 3, "x": "\xff', b'{"n":\n'])
def test_a_file_cut_at_its_last_line_is_read_up_to_there(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2}\n' + tail)
    assert [row["n"] for row in read_rows(path)] == [1, 2]


def test_a_last_line_without_its_newline_counts_if_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2}')
    assert len(read_rows(path)) == 2


@pytest.mark.parametrize("line", [b"{", b"[1]", b"rubbish"])
def test_damage_before_the_last_line_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n' + line + b'\n{"n": 3}\n')
    with pytest.raises(UsageError, match=r"a\.jsonl:2"):
        read_rows(path)


def test_fields_of_the_wrong_kind_are_as_good_as_absent() -> None:
    row: dict[str, object] = {"n": "7", "t": 3, "texts": ["a", 1], "metrics": {"loss": 1, "name": "x"}, "yes": True}
    assert (number(row, "n"), number(row, "yes"), integer(row, "t"), text(row, "t")) == (0.0, 0.0, 3, "")
    assert (texts(row, "texts"), texts(row, "t")) == (["a"], [])
    assert (metrics(row), metrics({"metrics": 3})) == ({"loss": 1.0}, {})
