"""The messages of a call in one direction: how much was sent and not read yet, and who waits for room or for more."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from grpc.aio import EOF

WINDOW = 256 * 1024  # bytes that may be under way


class Pipe:
    """The bytes under way, in one direction of one call."""

    def __init__(self) -> None:
        self.bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._over = False

    def put(self, size: int) -> None:
        """Note that so many bytes were sent."""
        self.bytes += size

    def get(self, size: int) -> None:
        """Note that so many bytes were read."""
        self.bytes -= size
        if self._waiter is not None and self.bytes <= WINDOW:
            self._release()

    def close(self) -> None:
        """Let a writer that waits go on: the call is over."""
        self._over = True
        if self._waiter is not None:
            self._release()

    async def room(self) -> None:
        """Wait until there is room for more."""
        if self.bytes <= WINDOW or self._over:
            await asyncio.sleep(0)
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _release(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.get_loop().call_soon(_set, waiter)


def _set(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class Messages:
    """The messages of a call, one after the other. (An async generator would outlive its reader until it is
    collected.)
    """

    def __init__(self, read: Callable[[], Awaitable[Any]]) -> None:
        self._read = read

    def __aiter__(self) -> "Messages":
        return self

    async def __anext__(self) -> Any:
        message = await self._read()
        if message is EOF:
            raise StopAsyncIteration
        return message
