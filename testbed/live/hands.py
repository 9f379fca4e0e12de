"""What a run does to its own parts, as its timeline says: a method for each verb, and one that ends what it did."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.churn.timeline import Action
from testbed.live.parts import Part
from venn.wire.notation import PROGRAMS

Find = Callable[[str], Part | None]  # a target's part, if it has one to itself


@dataclass(slots=True)
class _Down:
    """A program that was killed."""

    may_start: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)


class Hands:
    """A device that crashes kills itself, and one that shares its part falls silent by itself: they are passed over."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._down: dict[str, _Down] = {}  # by target

    async def crash(self, action: Action) -> None:
        """Kill a program; it stays away until ``restart``."""
        part = self._find(action.target) if action.target.partition(" ")[0] in PROGRAMS else None
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
