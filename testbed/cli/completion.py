"""What the shell offers after ``venn``: commands, options and values; for bash, zsh and fish."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.completion import (  # type: ignore[attr-defined]  # it has these, and does not say so to type checkers
    completion_init,
    get_completion_script,
    install,
    shell_complete,
)
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from testbed.cli.commands import COMMANDS
from venn.wire.command import application, find_command
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import write_line

ASKED = "_VENN_COMPLETE"  # in the environment of `venn` when the shell asks
SHELLS = ("bash", "zsh", "fish")
AT_FIRST = "if [[ $funcstack[1] == _venn ]]; then _venn_completion; fi"  # zsh loads the file at the first Tab
BELOW = {"agent": {"doctor": "device_agent.doctor"}}  # commands that the module of a command dispatches by itself


def answer() -> int:
    """Prints what may follow the words that are in the environment, in the form that the shell wants."""
    completion_init()
    return shell_complete(get_command(app), {}, "venn", ASKED, os.environ[ASKED])


def run(option: str, shell: str) -> int:
    """Carries out ``--show-completion`` or ``--install-completion``. Raises UsageError: none of ``SHELLS``."""
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        known = f"name one of {', '.join(SHELLS)}: venn {option} bash"
        raise UsageError("USAGE", f"there is no completion for the shell {shell!r}", fix=known)
    if option == "--show-completion":
        write_line(sys.stdout, _script(shell))
    else:
        _, path = install(shell=shell, prog_name="venn", complete_var=ASKED)
        path.write_text(_script(shell) + "\n")
        write_line(sys.stdout, f"wrote {path}; completion works in the next {shell} that you start")
    return ExitCode.OK


def _script(shell: str) -> str:
    script = get_completion_script(prog_name="venn", complete_var=ASKED, shell=shell)
    return f"{script}\n\n{AT_FIRST}" if shell == "zsh" else script


class _Commands(TyperGroup):
    """All commands by their summaries; only the one that is completed is imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return args[0], _imported(args[0]) if args[0] in COMMANDS else None, args[1:]


app = application()


@app.callback(cls=_Commands)
def venn(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    show: Annotated[str, typer.Option("--show-completion", help="Print the completion script of a shell.")] = "",
    install: Annotated[str, typer.Option("--install-completion", help="Install completion for a shell.")] = "",
) -> None:
    """The options of ``venn`` itself."""


def _imported(name: str) -> Any:
    try:
        below = {word: _found(module, word) for word, module in BELOW.get(name, {}).items()}
        found = _found(COMMANDS[name].module, name)
    except ModuleNotFoundError:  # an extra that is not installed: `venn NAME` says which
        return TyperCommand(name)
    return TyperGroup(name=name, params=found.params, commands=below) if below else found


def _found(module: str, name: str) -> Any:
    return find_command(import_module(module).app, name)
