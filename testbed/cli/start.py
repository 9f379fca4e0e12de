"""Starts a command: imports that one only, so that a device needs only what a device uses."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from testbed.cli.main import Command
from venn.wire.errors import ExitCode
from venn.wire.exits import OURS, missing_package, tell_stopped


def start(command: Command, argv: list[str]) -> int:
    """The exit code of the command. Raises UsageError: it needs an extra that is not installed."""
    try:
        with _leaving_at_once(argv):
            module = import_module(command.module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        raise missing_package(error, f"venn {command.name}", command.extra or "all") from error
    return int(module.main(argv))


@contextmanager
def _leaving_at_once(argv: list[str]) -> Iterator[None]:
    """Ctrl-C while modules are imported: some of them would take it for a failed import, and go on."""

    def leave(number: int, _: object) -> None:
        tell_stopped(argv)
        os._exit(ExitCode.INTERRUPTED)

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
