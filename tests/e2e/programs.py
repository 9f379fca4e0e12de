"""The real programs, started as a user starts them; and what is left of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
QUICK = ROOT / "examples" / "quick.yaml"
VENN = [sys.executable, "-m", "testbed.cli.main"]
PATIENCE_S = 120.0  # other tests run beside these; what goes wrong for good is told a little later
SPIN = """\
import time

import numpy as np
from job_driver import Job, Result


def spin(model, task):
    end = time.process_time() + 0.4
    while time.process_time() < end:
        pass
    return Result(dict(model))


job = Job(initial=lambda rng: {"w": np.zeros(50_000)}, on_device=spin)
"""  # a job file whose task takes processor time, and whose model is 400 kB

# What a broker answers to a CONNECT of MQTT 3.1.1 without a password, with a wrong one, and with the right one.
ASK_BROKER = """
import socket, sys

_, host, port, token = sys.argv

def text(word):
    return len(word).to_bytes(2, "big") + word.encode()

def answer(password):
    login = text("venn") + text(password) if password else b""
    body = text("MQTT") + bytes([4, 0xC2 if password else 2]) + (60).to_bytes(2, "big") + text("test") + login
    with socket.create_connection((host, int(port)), 10) as broker:
        broker.sendall(bytes([0x10, len(body)]) + body)
        return broker.recv(4)[3]

print(answer(""), answer("wrong"), answer(open(token).read().strip()))
"""
NOT_AUTHORIZED, ACCEPTED = 5, 0
GUARDED = [NOT_AUTHORIZED, NOT_AUTHORIZED, ACCEPTED]


def environment() -> dict[str, str]:
    """Ours, without settings of venn, but for the image of its containers."""
    kept = ("VENN_IMAGE",)
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith("VENN_")}


class Started:
    """A program that runs beside the test; what it says is in its files."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        name = f"{'-'.join(word for word in words[:2] if word.isalpha())}-{time.monotonic_ns()}"
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*VENN, *words], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def family(self) -> list[psutil.Process]:
        """It, and all that it started."""
        itself = psutil.Process(self.process.pid)
        return [itself, *itself.children(recursive=True)]

    def child(self, *words: str) -> psutil.Process:
        """Its own child with these words in its command line."""

        def found() -> psutil.Process | None:
            for process in psutil.Process(self.process.pid).children():
                try:
                    if set(words) <= set(process.cmdline()):
                        return process
                except psutil.Error:
                    continue
            return None

        return waited(found, f"a child {words}")

    def stop(self, number: int) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Its exit code; no word of it is a traceback."""
        code = self.process.wait(PATIENCE_S)
        assert "Traceback" not in self.out + self.err, self.out + self.err
        return code

    def said(self) -> dict[str, Any]:
        """The one JSON object on its standard output."""
        assert self.out.count("\n") == 1, self.out
        value: dict[str, Any] = json.loads(self.out)
        return value


@contextmanager
def started(folder: Path, *words: str) -> Iterator[Started]:
    """Ended at the end, with all that it started."""
    program = Started(folder, *words)
    try:
        yield program
    finally:
        family = program.family() if program.process.poll() is None else []
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        program.process.wait(PATIENCE_S)


def run(folder: Path, *words: str) -> Started:
    """A program that ended by itself."""
    with started(folder, *words) as program:
        program.end()
    return program


def waited(condition: Callable[[], Any], what: str) -> Any:
    """What the condition gives as soon as it gives something."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"waited in vain for {what}"
        time.sleep(0.02)
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log; none if it is not there yet."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def left(family: list[psutil.Process], *, place: Path) -> list[str]:
    """What still runs: of a family, or with a place in its command line."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it is gone, or a zombie
            words = process.cmdline()
            if process in family or any(str(place) in word for word in words):
                found.append(" ".join(words))
    return found
