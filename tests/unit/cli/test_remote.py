"""Commands that ask a running coordinator, where there is none, or where they may not."""

import json
import socket
from pathlib import Path

import pytest

from testbed.cli.main import main
from venn.wire.keys import ensure_keys

COMMANDS = [
    ["status"],
    ["watch"],
    ["explain", "digits"],
    ["device", "list"],
    ["device", "drain", "--all"],
    ["job", "list"],
    ["job", "wait", "digits"],
    ["job", "cancel", "digits"],
]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VENN_KEYS", str(tmp_path / "keys"))
    ensure_keys()


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_coordinator_that_is_not_there(words: list[str], nobody: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--coordinator", nobody]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"venn {words[0]}: coordinator ")
    of_a_run = "; of a finished run, name the folder with --run DIR" if words[0] == "explain" else ""
    assert err.endswith(f"{nobody}: it does not answer; check that it runs and that the address is right{of_a_run}\n")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nor_was_ever_one_and_so_no_key(
    words: list[str], nobody: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*words, "--coordinator", nobody, "--keys", str(tmp_path / "none")]) == 4
    assert "it does not answer; check that it runs" in capsys.readouterr().err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_programs_get_one_object(words: list[str], nobody: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--coordinator", nobody, "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["error"]["reason"] == "UNREACHABLE"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_no_address(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--coordinator", "nonsense"]) == 2
    assert "'nonsense': is no address; write host:port" in capsys.readouterr().err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_without_a_key(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        address = f"127.0.0.1:{somebody.getsockname()[1]}"
        assert main([*words, "--coordinator", address, "--keys", str(tmp_path / "none")]) == 2
    assert "no " in capsys.readouterr().err


@pytest.mark.parametrize("words", [*COMMANDS, ["run"], ["demo"], ["coordinator"], ["agent"], ["swarm"], ["job", "run"]])
def test_nonsense_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--no-such-flag"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "--no-such-flag" in err
