"""The terminal of a command: its console, and single keys from it."""

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table
from rich.text import Text

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

    Must be entered in a running event loop. Ctrl-C stays a signal. The terminal stays blocking, if it is: what uvloop
    reads it makes non-blocking, standard output is the same open file, and a long print would lose what the terminal
    does not take at once.
    """
    if not sys.stdin.isatty():
        yield
        return
    import termios  # not on every platform that can import this module
    import tty

    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before, blocking = termios.tcgetattr(descriptor), os.get_blocking(descriptor)

    def read() -> None:
        for key in os.read(descriptor, 64).decode(errors="ignore"):
            heard(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    os.set_blocking(descriptor, blocking)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def text_table(
    header: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Collection[str], gap: int = 2
) -> Table:
    """A table without lines; columns of the headers in ``right`` are flush right."""
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(Text(name), justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def line(text: str, style: str = "") -> Text:
    """One line, however long: a terminal wraps it, a file keeps it whole."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")
