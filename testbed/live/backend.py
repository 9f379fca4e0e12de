"""What a world is made of: its parts, in whatever they run. Each backend makes its own; the rest is the same."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from testbed.live.prepare import DeviceHost
from testbed.world.timeline import LinkChange
from venn.wire.errors import VennError


class Part(Protocol):
    """One program of a run: started, watched, broken on purpose, stopped for certain."""

    name: str

    @property
    def running(self) -> bool: ...

    async def start(self) -> None:
        """Start it, again if it has ended."""

    def resume(self) -> None:
        """From its next start on it takes up what it left."""

    async def announced(self, within_s: float) -> dict[str, object]:
        """The one JSON line that it prints when it is ready. Raises VennError if it says nothing."""

    async def wait(self) -> int:
        """Its exit code; minus the signal's number if a signal ended it. Awaited by one task at a time."""

    async def stop(self, grace_s: float | None = None) -> int | None:
        """Tell it to end, and end it after ``grace_s`` seconds."""

    def failure(self, what: str = "") -> VennError:
        """What to tell the user when it failed."""

    async def kill(self) -> None:
        """At once, with all that it has started."""

    async def stand_still(self) -> None:
        """With all that it has started, until ``go_on``; its connections stay open."""

    async def go_on(self) -> None: ...


class Parts(Protocol):
    """Makes the parts of one run. ``make`` first, ``remove`` always."""

    async def make(self) -> None:
        """What must be there before any part. Raises VennError; nothing is left then."""

    def coordinator(self) -> Part: ...

    def driver(self, job: str, epoch: float) -> Part:
        """``epoch``: the Unix time at which the run's clock starts."""

    def device_host(self, host: DeviceHost, epoch: float) -> Part: ...

    async def crash(self, device: str) -> None:
        """Kill it, unless it sees to that itself."""

    async def cut(self, device: str, *, reset: bool) -> None:
        """Nothing comes through its link until ``mend``; ``reset``: and its connections break. Nothing is done to a
        device that sees to that itself. Raises VennError."""

    async def mend(self, device: str) -> None: ...

    async def limit(self, device: str, change: LinkChange | None) -> None:
        """Its link has these limits from now on; None: its own again. Raises VennError."""

    @property
    def others(self) -> Sequence[Part]:
        """That run since ``make``, and without which nothing goes on."""

    def start_cost_s(self, others: int, one_s: float) -> float:
        """From now until so many parts are warm, by estimate: ``one_s`` is what the first of them took."""

    def reached(self, said: Mapping[str, object]) -> str:
        """The address at which we reach the coordinator, which has announced itself."""

    async def read_back(self) -> None:
        """Of parts that have started: whether their limits are in force. Raises CannotEnforceError."""

    async def remove(self, *, at_once: bool = False) -> None:
        """All that was made; ``at_once``: also what still runs."""

    @property
    def limited(self) -> bool:
        """Whether devices are slowed down at all."""

    def not_in_force(self) -> list[str]:
        """Of a run that is over: the limits that were not, one line each."""

    def describe(self, degraded: Sequence[str]) -> None:
        """Writes down what was asked and what was in force."""
