import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.cli.commands import COMMANDS, GROUPS
from testbed.cli.main import main
from venn.wire.command import find_command


def test_help_lists_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ([], ["--help"], ["-h"], ["help"]):
        assert main(argv) == 0
        out = capsys.readouterr().out
        assert all(f"  venn {name} " in out for name in COMMANDS)
        assert [line for line in out.splitlines() if line in GROUPS] == list(GROUPS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("venn ")


def test_an_unknown_command_gets_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agnet"]) == 2
    assert capsys.readouterr().err == "venn: 'agnet' is not a command; did you mean agent?\n"
    assert main(["--json", "xyz"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["fix"] == "see: venn --help"


def test_only_the_command_that_runs_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    calls: list[list[str]] = []

    def fake_import(name: str) -> SimpleNamespace:
        asked.append(name)
        return SimpleNamespace(main=lambda argv: calls.append(argv) or 1)

    monkeypatch.setattr("importlib.import_module", fake_import)
    assert main(["agent", "--name", "x"]) == 1
    assert main(["help", "agent"]) == 1
    assert asked == ["device_agent.cli"] * 2
    assert calls == [["--name", "x"], ["--help"]]


def test_a_missing_extra_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'rich'", name="rich.table")

    monkeypatch.setattr("importlib.import_module", missing)
    assert main(["run", "x.yaml"]) == 2
    err = capsys.readouterr().err
    assert err == (
        "venn: venn run needs the Python package rich, which is not installed; pip install 'venn-testbed[testbed]'\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_helps_quickly(name: str) -> None:
    program = (
        "import sys\n"
        "from testbed.cli.main import main\n"
        f"code = main([{name!r}, '--help'])\n"
        "print('LOADED', *sys.modules)\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out, _, loaded = done.stdout.rpartition("LOADED")
    assert "--help" in out
    if name in ("agent", "swarm", "job", "coordinator"):
        heavy = {"pydantic", "sklearn", "matplotlib"} & {module.partition(".")[0] for module in loaded.split()}
        assert not heavy, "what only the testbed needs"


CALLS_A_COORDINATOR = {
    *("agent", "agent doctor", "swarm", "watch", "status", "explain", "device list", "device drain"),
    *(
        "job run",
        "job list",
        "job wait",
        "job cancel",
        "job transfer",
        "token create",
        "device keys",
        "device revoke",
        "compose attend",
        "compose device",
    ),
}


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if not below:
        yield name, command
    for word, child in (below or {}).items():
        yield from leaves(child, f"{name} {word}")


@pytest.mark.parametrize("name", [*COMMANDS, "agent doctor"])
def test_help_is_plain_has_an_example_and_offers_only_what_has_an_effect(name: str) -> None:
    module = "device_agent.doctor" if name == "agent doctor" else COMMANDS[name].module
    for path, command in leaves(find_command(import_module(module).app, name.rsplit(maxsplit=1)[-1]), name):
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--json", "--quiet", "--verbose", "--no-color"} <= options, path
        assert ("--coordinator" in options) == (path in CALLS_A_COORDINATOR), path
        assert not {"--show-completion", "--install-completion"} & options, path
        assert command.rich_markup_mode is None, path
        assert re.match(rf"Example: venn {path}\b|compose\.yaml shows", command.epilog or ""), path


def test_ctrl_c_while_modules_are_imported_ends_it_at_once() -> None:
    """Some modules take an interrupt for a failed import, and go on without; and it would be lost."""
    program = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may ignore it
import importlib, testbed.cli.main

def import_module(name):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        pass
    return type(sys)("lost")

importlib.import_module = import_module
testbed.cli.main.main(["status", "--json"])
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 130
    assert '"STOPPED"' in done.stdout
    assert done.stderr == ""
