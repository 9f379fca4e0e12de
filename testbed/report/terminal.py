"""The terminal of a command: its console, and single keys from it."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from venn.wire.command import Context


def console(context: Context, *, least_width: int = 0, errors: bool = False) -> Console:
    """A console on stdout, or on stderr for ``errors``. Without a terminal, no line is cut below ``least_width``."""
    made = Console(
        file=sys.stderr if errors else sys.stdout,
        no_color=not context.color,
        color_system="auto" if context.color else None,
        highlight=False,
        markup=False,
    )
    made.width = max(made.width, least_width)
    return made


@contextmanager
def pressed(heard: Callable[[str], None]) -> Iterator[None]:
    """Calls ``heard`` for each key while it is open; does nothing where standard input is not a terminal.

    Must be entered in a running event loop. Ctrl-C stays a signal.
    """
    if not sys.stdin.isatty():
        yield
        return
    import termios  # not on every platform that can import this module
    import tty

    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        for key in os.read(descriptor, 64).decode(errors="ignore"):
            heard(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
