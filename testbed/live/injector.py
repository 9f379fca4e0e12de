"""The timeline of a live run, carried out on its components.

``Injector`` does and writes down each action at its time. ``Faults`` has a method for each verb, and one that ends it.

Devices know their own absences from their population file, so that nothing has to be told to them in time: they leave,
crash and fall silent by themselves. Only what the backend does to a device from outside is done here.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.live.backend.protocol import Backend, Component
from testbed.world.timeline import Action, Verb
from venn.wire.errors import VennError
from venn.wire.files import JsonLines
from venn.wire.requirements import PROGRAMS

Find = Callable[[str], Component | None]  # a target's part, if it has one to itself


@dataclass(slots=True)
class _Down:
    """A program that was killed."""

    may_start: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)


class Faults:
    """What each verb does to a component, and what ends it. What a device does itself is left to it."""

    def __init__(self, find: Find, backend: Backend, carried: Mapping[str, frozenset[Verb]]) -> None:
        """``carried``: by device, what the backend does to it."""
        self._find, self._backend, self._carried = find, backend, carried
        self._down: dict[str, _Down] = {}  # by target
        self._kills: Counter[str] = Counter()  # by target

    def carries(self, action: Action) -> bool:
        """Whether an action is done here: to a program always, to a device as its backend says."""
        return action.target.partition(" ")[0] in PROGRAMS or action.verb in self._carried[action.target]

    def missed(self, action: Action) -> bool:
        """Whether an action finds nothing to act on: its program does not run, or has ended for good."""
        if action.target.partition(" ")[0] not in PROGRAMS:
            return False
        part = self._find(action.target)
        return part is None or not part.running

    async def crash(self, action: Action) -> None:
        """Kill it; a program stays away until ``restart``."""
        if action.target.partition(" ")[0] not in PROGRAMS:
            await self._backend.crash(action.target)
            return
        part = self._find(action.target)
        if part is not None and part.running:
            former = self._down.get(action.target)  # killed before, and not there again yet
            self._down[action.target] = _Down() if former is None else _Down(started=former.started)
            self._kills[action.target] += 1
            await part.kill()

    async def restart(self, action: Action) -> None:
        if down := self._down.get(action.target):
            down.may_start.set()

    async def suspend(self, action: Action) -> None:
        """Suspend it until ``resume``; its connections stay open."""
        if part := self._find(action.target):
            await part.pause()

    async def resume(self, action: Action) -> None:
        if part := self._find(action.target):
            await part.unpause()

    async def disconnect(self, action: Action) -> None:
        """Break its connections, and let none come about until ``reconnect``."""
        await self._backend.cut(action.target, reset=True)

    async def partition(self, action: Action) -> None:
        """Let nothing through until ``reconnect``; its connections stay open."""
        await self._backend.cut(action.target, reset=False)

    async def reconnect(self, action: Action) -> None:
        await self._backend.mend(action.target)

    async def limit(self, action: Action) -> None:
        """Give its link other limits until ``unlimit``."""
        await self._backend.limit(action.target, action.change)

    async def unlimit(self, action: Action) -> None:
        await self._backend.limit(action.target, None)

    # -- what becomes of those that were killed

    def kills(self, target: str) -> int:
        """How often a program was killed so far."""
        return self._kills[target]

    async def released(self, target: str) -> bool:
        """Wait until a program that has ended may start again; False: it was not killed here."""
        if (down := self._down.get(target)) is None:
            return False
        await down.may_start.wait()
        return True

    def started(self, target: str) -> None:
        """Note that a program that was killed is there again."""
        if down := self._down.pop(target, None):
            down.started.set()

    async def returned(self, target: str) -> bool:
        """Wait until a program that was killed is there again; False: it was not killed."""
        if (down := self._down.get(target)) is None:
            return False
        await down.started.wait()
        return True


Carry = Callable[[Action], Awaitable[None]]


_ENDS = {Verb.CRASH: (Verb.SUSPEND,), Verb.RECONNECT: (Verb.DISCONNECT, Verb.PARTITION)}


class Injector:
    """The timeline of one run: ``run`` once, then ``end`` always."""

    def __init__(self, actions: Sequence[Action], path: Path, faults: Faults) -> None:
        self._steps = sorted(_steps(actions), key=lambda step: step[0])
        self._path, self._faults = path, faults
        self._verbs: Mapping[Verb, tuple[Carry, Carry]] = {  # what is done, and what ends it
            Verb.CRASH: (faults.crash, faults.restart),
            Verb.SUSPEND: (faults.suspend, faults.resume),
            Verb.DISCONNECT: (faults.disconnect, faults.reconnect),
            Verb.PARTITION: (faults.partition, faults.reconnect),
            Verb.LIMIT: (faults.limit, faults.unlimit),
        }
        self._lasting: dict[tuple[str, Verb], Action] = {}  # by target: what was done and not ended yet
        self._last: dict[str, asyncio.Task[None]] = {}  # by target: steps on one go in order, and on others beside them

    async def run(self, epoch: float) -> None:
        """Do each action at its time, to the end. Raises an ExceptionGroup of what they raise, and PeerError if the
        disk is full. ``epoch`` is the Unix time at which the run's clock starts.
        """
        with JsonLines(self._path) as lines:
            async with asyncio.TaskGroup() as steps:
                for at_s, begins, action in self._steps:
                    await asyncio.sleep(epoch + at_s - time.time())
                    if begins:
                        missed = {"missed": True} if self._faults.missed(action) else {}
                        lines.write({**action.to_json(), "at": round(time.time(), 6), **missed})
                    turn = _after(self._last.get(action.target), self._begin if begins else self._end, action)
                    self._last[action.target] = steps.create_task(turn)

    async def end(self) -> None:
        """End what lasts when the run is over: suspensions and cuts. Slow links end with their devices."""
        lasting = [action for action in self._lasting.values() if action.verb is not Verb.LIMIT]
        ended = await asyncio.gather(*map(self._end, lasting), return_exceptions=True)
        for error in ended:
            if error is not None and not isinstance(error, VennError):  # told already, if it is why the run ends
                raise error

    async def _begin(self, action: Action) -> None:
        for verb in _ENDS.get(action.verb, ()):
            await self._end(self._lasting.get((action.target, verb)))
        if action.verb not in self._verbs or not self._faults.carries(action):
            return
        self._lasting[action.target, action.verb] = action
        await self._verbs[action.verb][0](action)
        if action.verb is Verb.CRASH and action.until_s is None:
            await self._end(action)

    async def _end(self, action: Action | None) -> None:
        """End an action, unless something else has ended it."""
        if action is not None and self._lasting.get((action.target, action.verb)) is action:
            del self._lasting[action.target, action.verb]
            await self._verbs[action.verb][1](action)


async def _after(before: asyncio.Task[None] | None, carry: Carry, action: Action) -> None:
    if before is not None:
        await asyncio.wait({before})
    await carry(action)


def _steps(actions: Sequence[Action]) -> Iterator[tuple[float, bool, Action]]:
    """Each action at its time, and once more when it is over."""
    for action in actions:
        yield action.at_s, True, action
        if action.until_s is not None:
            yield action.until_s, False, action
