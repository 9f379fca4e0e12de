"""What every benchmark has: its figures, and the programs that it starts in a folder of its own."""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from testbed.live.processes.programs import Program
from testbed.runfolder.machine import machine, versions
from venn.wire.command import run_async

READY_WITHIN_S = 30.0
Found = TypeVar("Found")
Say = Callable[[str], None]  # takes a line of progress


@dataclass(frozen=True, slots=True)
class Untested:
    """What could not be measured here: nothing is known of it, and nothing is guessed."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"untested: {self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of ours, the same figures of what it is held against, and the ratio (higher is better)."""

    name: str
    figures: Mapping[str, float]  # the unit is in each key
    baseline: Mapping[str, float]
    ratio: float
    untested: tuple[Untested, ...] = ()
    saturated: tuple[str, ...] = ()  # why the host was too busy for these figures; empty: it was not
    machine: Mapping[str, str | int | float] = field(default_factory=lambda: machine() | versions())

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def folded(got: float, asked: float) -> float:
    """The ratio of the two that is at most 1; 1 where they are the same."""
    if got == asked:
        return 1.0
    return min(got / asked, asked / got) if got > 0 and asked > 0 else 0.0


class Figures:
    """What was got and what was asked, by the same key; each is said as it comes."""

    def __init__(self, say: Say) -> None:
        self.got: dict[str, float] = {}
        self.asked: dict[str, float] = {}
        self._say = say

    def add(self, key: str, got: float, asked: float) -> None:
        self.got[key], self.asked[key] = got, asked
        self._say(f"{key}: {got:.4g} of {asked:g}")

    @property
    def worst(self) -> float:
        """The worst ratio of got to asked, or of asked to got where that is less; 0 where one of the two is nothing."""
        return min((folded(got, self.asked[key]) for key, got in self.got.items()), default=0.0)


def in_folder(work: Callable[[Path], Awaitable[Found]]) -> Found:
    """The result of ``work`` in a folder that is removed afterwards. Raises SystemExit if a signal ends it."""
    found: list[Found] = []

    async def main() -> None:
        found.append(await work(Path(folder)))

    with tempfile.TemporaryDirectory(prefix="venn-bench-") as folder:
        code = run_async(main())
    if not found:
        raise SystemExit(code)
    return found[0]


@dataclass(slots=True)
class Parts:
    """A coordinator, and what is started beside it; stopped together, the latest first."""

    folder: Path
    coordinator: Program
    address: str = ""
    others: list[Program] = field(default_factory=list)

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    async def start(self, name: str, command: Sequence[str], flags: Sequence[str]) -> Program:
        """``venn COMMAND --coordinator ... FLAGS``, logged to NAME.log."""
        to = ["--coordinator", self.address, "--keys", str(self.keys)]
        program = Program(name, [*command, *to, *flags], log=self.folder / f"{name}.log")
        self.others.append(program)
        await program.start()
        return program

    async def start_driver(self, file: Path, folder: Path, flags: Mapping[str, object]) -> Program:
        """The driver of the job in ``file``; a round closes when all have responded."""
        flags = {"name": folder.name, "dir": folder, "min-response": "100%", **flags}
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        return await self.start(f"driver-{folder.name}", ["job", "run", str(file)], words)


@asynccontextmanager
async def parts(folder: Path, *more: str) -> AsyncIterator[Parts]:
    """A coordinator that runs in ``folder``, with its journal and keys there; ``more``: flags of its command."""
    flags = ["--listen", "127.0.0.1:0", "--dir", str(folder), "--keys", str(folder / "keys"), "--json", *more]
    coordinator = Program("coordinator", ["coordinator", *flags], log=folder / "coordinator.log", announces=True)
    running = Parts(folder, coordinator)
    try:
        await coordinator.start()
        running.address = str((await coordinator.announced(READY_WITHIN_S))["listening"])
        yield running
    finally:
        for program in (*reversed(running.others), coordinator):
            await program.stop()
