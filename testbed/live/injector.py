"""Carries a run's timeline out, and writes down each action at its time.

Devices know their own absences from their population file, so that nothing has to be told to them in time: they leave,
crash and fall silent by themselves. What a part cannot do to itself is done by ``Hands``.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from testbed.churn.timeline import Action, Verb
from testbed.live.hands import Hands
from venn.wire.errors import VennError
from venn.wire.files import JsonLines

Deed = Callable[[Action], Awaitable[None]]


_ENDS = {Verb.CRASH: (Verb.SUSPEND,), Verb.RECONNECT: (Verb.DISCONNECT, Verb.PARTITION)}


class Injector:
    """``run`` once, then ``end`` always."""

    def __init__(self, actions: Sequence[Action], path: Path, hands: Hands) -> None:
        self._steps = sorted(_steps(actions), key=lambda step: step[0])
        self._path = path
        self._deeds: Mapping[Verb, tuple[Deed, Deed]] = {  # what is done, and what ends it
            Verb.CRASH: (hands.crash, hands.restart),
            Verb.SUSPEND: (hands.suspend, hands.resume),
            Verb.DISCONNECT: (hands.disconnect, hands.reconnect),
            Verb.PARTITION: (hands.partition, hands.reconnect),
            Verb.LIMIT: (hands.limit, hands.unlimit),
        }
        self._lasting: dict[tuple[str, Verb], Action] = {}  # by target: what was done and not ended yet
        self._last: dict[str, asyncio.Task[None]] = {}  # by target: deeds on one go in order, and on others beside them

    async def run(self, epoch: float) -> None:
        """Until the timeline is over. Raises an ExceptionGroup of what its hands raise, and PeerError if the disk is
        full. ``epoch`` is the Unix time at which the run's clock starts.
        """
        with JsonLines(self._path) as lines:
            async with asyncio.TaskGroup() as deeds:
                for at_s, begins, action in self._steps:
                    await asyncio.sleep(epoch + at_s - time.time())
                    if begins:
                        lines.write({**action.to_json(), "at": round(time.time(), 6)})
                    turn = _after(self._last.get(action.target), self._begin if begins else self._end, action)
                    self._last[action.target] = deeds.create_task(turn)

    async def end(self) -> None:
        """The run is over: nothing stands still or is cut off any more. Slow links end with their devices."""
        lasting = [action for action in self._lasting.values() if action.verb is not Verb.LIMIT]
        ended = await asyncio.gather(*map(self._end, lasting), return_exceptions=True)
        for error in ended:
            if error is not None and not isinstance(error, VennError):  # told already, if it is why the run ends
                raise error

    async def _begin(self, action: Action) -> None:
        for verb in _ENDS.get(action.verb, ()):
            await self._end(self._lasting.get((action.target, verb)))
        if action.verb not in self._deeds:
            return
        self._lasting[action.target, action.verb] = action
        await self._deeds[action.verb][0](action)
        if action.verb is Verb.CRASH and action.until_s is None:
            await self._end(action)

    async def _end(self, action: Action | None) -> None:
        """Nothing, if something else has ended it."""
        if action is not None and self._lasting.get((action.target, action.verb)) is action:
            del self._lasting[action.target, action.verb]
            await self._deeds[action.verb][1](action)


async def _after(before: asyncio.Task[None] | None, deed: Deed, action: Action) -> None:
    if before is not None:
        await asyncio.wait({before})
    await deed(action)


def _steps(actions: Sequence[Action]) -> Iterator[tuple[float, bool, Action]]:
    """Each action at its time, and once more when it is over."""
    for action in actions:
        yield action.at_s, True, action
        if action.until_s is not None:
            yield action.until_s, False, action
