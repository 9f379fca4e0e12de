"""The terminal of a command: it is left as it was found, and what is printed to it is whole."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

READS_KEYS = """
import asyncio, sys
from testbed.report.terminal import pressed
from venn.wire.command import run_async

async def main():
    heard = []
    with pressed(heard.append):
        print("ready", flush=True)
        while "q" not in heard:
            await asyncio.sleep(0.01)
        print("x" * 200_000)
    print("y" * 200_000)
    print("heard", *heard)

sys.exit(run_async(main()))
"""
PRINTS = """
import sys
from venn.wire.exits import guard

sys.exit(guard(lambda: print("y" * 200_000 + "end"), [], "venn x"))
"""


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal: the side of the user, and that of programs."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def _state(descriptor: int) -> tuple[int, list[object]]:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL), termios.tcgetattr(descriptor)


def _said(terminal: tuple[int, int], code: str, unbuffered: str, key: bytes = b"") -> str:
    """What a program prints to the terminal until it has ended with 0; ``key`` is pressed when it is ready."""
    ours, theirs = terminal
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    said = b""
    while True:
        over = program.poll() is not None
        if select.select([ours], [], [], 0 if over else 0.05)[0]:
            said += os.read(ours, 4096)
        elif over:
            break
        if key and b"ready" in said:
            os.write(ours, key)
            key = b""
    assert program.returncode == 0, said[-2000:]
    return said.decode()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_reading_keys_changes_no_flag_and_cuts_no_print(terminal: tuple[int, int], unbuffered: str) -> None:
    before = _state(terminal[1])
    said = _said(terminal, READS_KEYS, unbuffered, key=b"q")
    assert _state(terminal[1]) == before
    assert (said.count("x"), said.count("y")) == (200_000, 200_000 + said.count("ready"))
    assert "heard q" in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_terminal_that_was_left_non_blocking_gets_all_and_stays_so(
    terminal: tuple[int, int], unbuffered: str
) -> None:
    os.set_blocking(terminal[1], False)
    said = _said(terminal, PRINTS, unbuffered)
    assert said.count("y") == 200_000
    assert "end" in said
    assert not os.get_blocking(terminal[1])
