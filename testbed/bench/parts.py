"""The real programs that benchmarks run against."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from testbed.live.programs import Program

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
