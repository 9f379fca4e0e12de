"""Turns in which the devices of one process connect: so many at a time.

A swarm whose devices all connect at once is slower than one in which they take turns: each connection takes
milliseconds of the one loop, all of them are under way for longer than a device waits for its welcome, and none gets
there.
"""

import asyncio
from collections.abc import Callable

MOST = 64  # devices that connect at a time
LONGEST_S = 2.0  # of a turn: who cannot reach the coordinator holds up no others


class Turns:
    """The turns of one process."""

    def __init__(self, most: int = MOST, longest_s: float = LONGEST_S) -> None:
        self._free, self._longest_s = asyncio.Semaphore(most), longest_s

    async def take(self) -> Callable[[], None]:
        """Wait for a turn; returns what ends it, before its time and any number of times."""
        await self._free.acquire()
        over = False

        def end() -> None:
            nonlocal over
            if not over:
                over = True
                timer.cancel()
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._longest_s, end)
        return end
