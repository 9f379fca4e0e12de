"""Single keys from a terminal, without Enter; the terminal is as it was afterwards, whatever happens."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
