"""What a run does to its own parts, as its timeline says: a method for each verb, and one that ends what it did."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.churn.timeline import Action
from testbed.live.parts import Part, Parts
from venn.wire.notation import PROGRAMS

Find = Callable[[str], Part | None]  # a target's part, if it has one to itself


@dataclass(slots=True)
class _Down:
    """A program that was killed."""

    may_start: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)


class Hands:
    """What a device sees to itself is passed over, as its silence where it shares its part."""

    def __init__(self, find: Find, parts: Parts) -> None:
        self._find, self._parts = find, parts
        self._down: dict[str, _Down] = {}  # by target

    async def crash(self, action: Action) -> None:
        """Kill it; a program stays away until ``restart``."""
        if action.target.partition(" ")[0] not in PROGRAMS:
            await self._parts.crash(action.target)
            return
        part = self._find(action.target)
        if part is not None and part.running:
            self._down[action.target] = _Down()
            await part.kill()

    async def restart(self, action: Action) -> None:
        if down := self._down.get(action.target):
            down.may_start.set()

    async def suspend(self, action: Action) -> None:
        """It stands still until ``resume``, its connections open."""
        if part := self._find(action.target):
            await part.stand_still()

    async def resume(self, action: Action) -> None:
        if part := self._find(action.target):
            await part.go_on()

    async def disconnect(self, action: Action) -> None:
        """Its connections break, and none comes about until ``reconnect``."""
        await self._parts.cut(action.target, reset=True)

    async def partition(self, action: Action) -> None:
        """Nothing comes through until ``reconnect``, and its connections stay open."""
        await self._parts.cut(action.target, reset=False)

    async def reconnect(self, action: Action) -> None:
        await self._parts.mend(action.target)

    async def limit(self, action: Action) -> None:
        """Its link has other limits until ``unlimit``."""
        await self._parts.limit(action.target, action.change)

    async def unlimit(self, action: Action) -> None:
        await self._parts.limit(action.target, None)

    # -- what becomes of those that were killed

    async def released(self, target: str) -> bool:
        """Waits until a program that has ended may start again; False: it was not killed here."""
        if (down := self._down.get(target)) is None:
            return False
        await down.may_start.wait()
        return True

    def started(self, target: str) -> None:
        """A program that was killed is there again."""
        if down := self._down.pop(target, None):
            down.started.set()

    async def returned(self, target: str) -> bool:
        """Waits until a program that was killed is there again; False: it was not."""
        if (down := self._down.get(target)) is None:
            return False
        await down.started.wait()
        return True
