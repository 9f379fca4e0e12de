"""``venn``: its help, and the command that is asked for."""

import os
import sys

from testbed.cli.commands import COMMANDS, GROUPS, Command
from venn.wire import RUN_MARK
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import guard, write_line

TYPE_CHECKING = False  # type checkers take it for typing's, which takes a while to import
if TYPE_CHECKING:
    from types import ModuleType

# Of the standard library, too, each function imports what it needs: `venn --help` is this file and little else.


def main(argv: list[str]) -> int:
    """The exit code of ``venn ARGV``."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # else its core greets each closed connection on stderr
    return guard(lambda: _dispatch(argv), argv, "venn")


def entry_point() -> None:
    """Runs the program. A part of a run ends with the run, whatever ended that."""
    if RUN_MARK in os.environ:
        from venn.wire.process import end_with_parent

        end_with_parent()
    sys.exit(main(sys.argv[1:]))


def _dispatch(argv: list[str]) -> int:
    if "_VENN_COMPLETE" in os.environ:
        from testbed.cli import completion

        return completion.answer()
    match argv:
        case [] | ["--help" | "-h" | "help"]:
            write_line(sys.stdout, _help())
            return ExitCode.OK
        case ["--version"]:
            from importlib.metadata import version

            write_line(sys.stdout, f"venn {version('venn-testbed')}")
            return ExitCode.OK
        case ["--show-completion" | "--install-completion" as option, *shell] if len(shell) < 2:
            from testbed.cli import completion

            return completion.run(option, *(shell or [""]))
        case ["help", name, *_]:
            return _dispatch([name, "--help"])
        case [name, *rest] if name in COMMANDS:
            return _start(COMMANDS[name], rest)
    from venn.wire.text import did_you_mean, printable

    word = next((word for word in argv if not word.startswith("-")), argv[0])
    fix = did_you_mean(word, COMMANDS) or "see: venn --help"
    raise UsageError("USAGE", f"{printable(word, 40)!r} is not a command", fix=fix)


def _help() -> str:
    lines = ["Usage: venn COMMAND [OPTIONS]     (venn COMMAND --help for details)", ""]
    for group, commands in GROUPS.items():
        lines += [group, *(f"  venn {f'{c.name} {c.synopsis}':<34} {c.summary}" for c in commands), ""]
    lines.append("Completion in bash, zsh and fish: venn --install-completion [SHELL]")
    lines.append("Everywhere: --json  --quiet  -v  --no-color  --help     To call a coordinator: --coordinator ADDR")
    return "\n".join(lines)


def _start(command: Command, argv: list[str]) -> int:
    """Runs a command, and imports that one only: a device needs only what a device uses.

    Raises UsageError: it needs an extra that is not installed.
    """
    try:
        module = _imported(command.module, argv)
    except ModuleNotFoundError as error:
        from venn.wire.exits import OURS, missing_package

        if (error.name or "").partition(".")[0] in OURS:
            raise
        raise missing_package(error, f"venn {command.name}", command.extra or "all") from error
    if hasattr(module, "main"):
        return int(module.main(argv))
    from venn.wire.command import execute

    return execute(module.app, argv, f"venn {command.name}")


def _imported(name: str, argv: list[str]) -> "ModuleType":
    """A module. Ctrl-C meanwhile ends the process: some modules would take it for a failed import, and go on."""
    import signal
    import threading
    from importlib import import_module

    from venn.wire.exits import tell_stopped

    def leave(number: int, _: object) -> None:
        tell_stopped(argv)
        os._exit(ExitCode.INTERRUPTED)

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        return import_module(name)
    before = signal.signal(signal.SIGINT, leave)
    try:
        return import_module(name)
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    entry_point()
