import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import grpc
import pytest

from venn.wire.errors import CannotEnforceError, ExitCode, PeerError, UsageError
from venn.wire.exits import guard


def raising(error: BaseException) -> NoReturn:
    raise error


def after(cause: Exception) -> Exception:
    """What a library raises as it closes the file that it could not write."""
    try:
        try:
            raise cause
        finally:
            raise AttributeError("pos")
    except AttributeError as error:
        return error


def test_success_and_codes_pass() -> None:
    assert guard(lambda: None, [], "venn x") == 0
    assert guard(lambda: 1, [], "venn x") == 1
    assert guard(lambda: raising(SystemExit(3)), [], "venn x") == 3
    assert guard(lambda: raising(KeyboardInterrupt()), [], "venn x") == 130


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("R", "bad", where="f.yaml:3", fix="do this"), 2, "venn x: f.yaml:3: bad; do this"),
        (CannotEnforceError("R", "no tc"), 3, "venn x: no tc"),
        (PeerError("R", "gone\x1b[0m"), 4, "venn x: gone[0m"),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [PeerError("R", "gone")])]), 4, "venn x: gone"),
        (OSError(errno.ENOSPC, "No space", "/data"), 4, "venn x: /data: no space is left on the disk; "),
        (after(OSError(errno.ENOSPC, "No space", "/data")), 4, "venn x: /data: no space is left on the disk; "),
        (PeerError("BUG", "a bug in venn: KeyError", where="/tmp/crash"), 4, "venn x: /tmp/crash: a bug in venn: "),
        (ModuleNotFoundError("No module", name="rich.table"), 2, "venn x: this needs the Python package rich, "),
    ],
)
def test_what_was_expected_is_one_line(
    error: Exception, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guard(lambda: raising(error), [], "venn x") == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_programs_get_one_object(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    error = UsageError("PORT_IN_USE", "taken", where="127.0.0.1:1", fix="choose another")
    shape = {"error": {"reason": "PORT_IN_USE", "message": "taken", "where": "127.0.0.1:1", "fix": "choose another"}}
    assert guard(lambda: raising(error), ["--json"], "venn x") == 2
    out, err = capsys.readouterr()
    assert json.loads(out) == shape
    assert err == ""
    guard(lambda: raising(error), ["--", "--json"], "venn x")
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("VENN_JSON", "1")
    guard(lambda: raising(error), [], "venn x")
    assert json.loads(capsys.readouterr().out) == shape


def test_programs_are_told_of_ctrl_c_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard(lambda: raising(KeyboardInterrupt()), ["--json"], "venn x") == 130
    assert json.loads(capsys.readouterr().out)["error"]["reason"] == "STOPPED"
    assert guard(lambda: raising(KeyboardInterrupt()), [], "venn x") == 130
    assert capsys.readouterr().out == ""


def test_a_bug_in_a_part_has_its_crash_file_already(capsys: pytest.CaptureFixture[str]) -> None:
    error = PeerError("BUG", "coordinator: a bug in venn: KeyError: 3", where="/tmp/crash.txt")
    error.exit_code = ExitCode.BUG
    assert guard(lambda: raising(error), [], "venn x") == 70
    assert capsys.readouterr().err == "venn x: /tmp/crash.txt: coordinator: a bug in venn: KeyError: 3\n"


def test_our_bug_is_one_line_and_a_crash_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert guard(lambda: raising(ZeroDivisionError("oops\nmore")), ["--flag"], "venn x") == 70
    [crash] = tmp_path.iterdir()
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert str(crash) in err
    assert "ZeroDivisionError: oops more" in err
    text = crash.read_text()
    assert "venn x --flag" in text
    assert "Traceback" in text


def test_a_failed_call_that_nobody_explained_is_the_peers_fault(capsys: pytest.CaptureFixture[str]) -> None:
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "refused")
    assert guard(lambda: raising(error), [], "venn x") == 4
    assert "it does not answer" in capsys.readouterr().err


def test_a_reader_that_left_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        pipe.write("text")
        assert guard(lambda: raising(BrokenPipeError()), [], "venn x") == 1


def test_a_terminal_that_was_closed_is_no_bug(tmp_path: Path) -> None:
    program = """
import sys
from venn.wire.exits import guard

def run():
    sys.stdin.readline()  # by now it is closed
    print("somebody there?", flush=True)

code = guard(run, [], "venn x")
open(sys.argv[1], "w").write(str(code))
"""
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", program, str(tmp_path / "code")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        os.close(ours)
        process.communicate(b"go on\n", timeout=20)
    assert [path.name for path in tmp_path.iterdir()] == ["code"]  # and no crash file
    assert (tmp_path / "code").read_text() == "1"


def test_a_broken_pipe_of_something_else_is_a_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert guard(lambda: raising(BrokenPipeError()), [], "venn x") == 70
