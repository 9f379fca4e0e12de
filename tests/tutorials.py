"""Carries out a tutorial of docs/tutorials as it is written: its files, its commands, and what they print.

A block with ``title="FILE"`` is written to that file. In a ``console`` block each line that begins with ``$ `` is a
command, and the lines below it are what it prints on stdout, from the first line to the last: ``...`` stands for
anything within a line, or, alone in a line, for any lines.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Step:
    """A file to write, or a command (``file`` is empty) with the lines that it prints."""

    file: str
    text: str
    printed: str = ""


def steps(page: str) -> Iterator[Step]:
    for language, title, body in BLOCK.findall((PAGES / page).read_text()):
        if title:
            yield Step(title, body)
        elif language == "console":
            for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
                yield Step("", command, printed)


def follow(page: str, folder: Path) -> None:
    """Carry a tutorial out in ``folder``. Raises AssertionError where something else is printed."""
    for step in steps(page):
        if step.file:
            (folder / step.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.file).write_text(step.text)
            continue
        done = subprocess.run(
            ["bash", "-c", step.text],
            cwd=folder,
            env=environment(),
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        told = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
        both = f"{page}: $ {step.text}\nprints\n{told}{done.stderr}\nand not\n{step.printed}"
        assert done.returncode in (0, 1), both  # 1: an expectation is not met
        assert not step.printed or pattern(step.printed).fullmatch(told), both


def pattern(printed: str) -> re.Pattern[str]:
    """Of what is printed, whose lines all end with a newline."""
    lines = (
        r"(?:.*\n)*?" if line.strip() == "..." else ".*?".join(map(re.escape, line.split("..."))) + r"\n"
        for line in printed.splitlines()
    )
    return re.compile("".join(lines))


def environment() -> dict[str, str]:
    """``venn`` and ``python`` are those of the tests; no colours; nothing of a user's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VENN_")}
    return kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1", "COLUMNS": "100"}
