"""What every benchmark has: its figures, and the programs that it starts.

What a benchmark prints: one object, the same shape for each.

The real programs that benchmarks run against.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from testbed.live.processes.programs import Program
from testbed.runfolder.machine import machine, versions


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


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One that ``venn bench NAME`` runs."""

    name: str
    summary: str
    run: Callable[[Callable[[str], None]], Measured]  # takes where to say how far it is
    backends: Mapping[str, Callable[[Callable[[str], None]], Measured]] = field(default_factory=dict)  # on one only


def folded(got: float, asked: float) -> float:
    """At most 1, and 1 where they are the same."""
    if got == asked:
        return 1.0
    return min(got / asked, asked / got) if got > 0 and asked > 0 else 0.0


READY_WITHIN_S = 30.0


@dataclass(slots=True)
class Parts:
    """A coordinator, and what is started beside it; stopped together, the latest first."""

    folder: Path
    address: str
    coordinator: Program
    _others: list[Program] = field(default_factory=list)

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens"

    async def start(self, name: str, command: Sequence[str], flags: Sequence[str]) -> Program:
        """``venn COMMAND --coordinator ... FLAGS``, logged to NAME.log."""
        to = ["--coordinator", self.address, "--tokens", str(self.tokens)]
        program = Program(name, [*command, *to, *flags], log=self.folder / f"{name}.log")
        self._others.append(program)
        await program.start()
        return program

    async def stop(self) -> None:
        for program in reversed(self._others):
            await program.stop()
        await self.coordinator.stop()


@asynccontextmanager
async def parts(folder: Path) -> AsyncIterator[Parts]:
    """A coordinator that runs in ``folder``, with its journal and tokens there."""
    flags = ["--listen", "127.0.0.1:0", "--dir", str(folder), "--tokens", str(folder / "tokens"), "--json"]
    coordinator = Program("coordinator", ["coordinator", *flags], log=folder / "coordinator.log", announces=True)
    await coordinator.start()
    try:
        running = Parts(folder, str((await coordinator.announced(READY_WITHIN_S))["listening"]), coordinator)
    except BaseException:
        await coordinator.stop()
        raise
    try:
        yield running
    finally:
        await running.stop()
