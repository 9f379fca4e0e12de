import errno
import os
from pathlib import Path

import pytest

from venn.wire.errors import PeerError
from venn.wire.files import JsonLines, read_json_lines, write_atomic


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_atomic(path, b"old")
    write_atomic(path, "new", fsync=True)
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint"
    write_atomic(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PeerError) as error:
        write_atomic(path, b"new", fsync=True)
    assert error.value.reason == "OUT_OF_SPACE"
    assert str(path) in str(error.value)
    assert error.value.exit_code == 4
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_other_errors_of_the_system_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "absent" / "file", b"")


def test_lines_are_appended_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with JsonLines(path) as lines:
        lines.write({"n": 1})
        assert list(read_json_lines(path)) == [{"n": 1}]  # handed over at once
    with JsonLines(path, fsync=True) as lines:
        lines.write_many([{"n": 2}, [3]])
    assert list(read_json_lines(path)) == [{"n": 1}, {"n": 2}, [3]]


def test_a_line_that_a_crash_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"n":1}\n{"n":')
    assert list(read_json_lines(path)) == [{"n": 1}]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a Linux device")
def test_a_full_disk_is_one_clear_line() -> None:
    with JsonLines(Path("/dev/full")) as lines, pytest.raises(PeerError, match="no space is left") as error:
        lines.write({"n": 1})
    assert error.value.reason == "OUT_OF_SPACE"


def test_a_line_that_did_not_fit_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    with JsonLines(path, fsync=True) as lines:
        lines.write({"n": 1})

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(PeerError):
                lines.write({"n": 2})
        lines.write({"n": 3})
    assert list(read_json_lines(path)) == [{"n": 1}, {"n": 3}]
