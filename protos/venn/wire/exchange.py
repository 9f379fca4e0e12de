"""Exchanges: requests and answers in turn on one lasting stream. A message on it costs a third of what a call does."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc
from grpc.aio import EOF, AioRpcError, Metadata

from venn.wire.status import abort

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Exchange(Generic[Request, Answer]):
    """The side of an exchange that asks. One request is under way at a time, others wait for their turn."""

    def __init__(self, begin: Callable[[], "grpc.aio.StreamStreamCall[Request, Answer]"]) -> None:
        """``begin`` opens the stream: at the first request, and again once a stream has ended."""
        self._begin = begin
        self._turn = asyncio.Lock()
        self._call: grpc.aio.StreamStreamCall[Request, Answer] | None = None  # that waits for the next request

    async def ask(self, request: Request, timeout: float | None = None) -> Answer:  # noqa: ASYNC109 - as calls have it
        """Send a request and return its answer. Raises AioRpcError where it is refused, or not answered: in so many
        seconds, or because the other side ends.

        A stream that is left in the middle is not used again: the answer could be taken for that to the next request.
        """
        async with self._turn:
            call, self._call = self._call, None
            if call is None or call.done():
                call = self._begin()
            try:
                async with asyncio.timeout(timeout):
                    await call.write(request)
                    answer = await call.read()
            except TimeoutError as error:
                call.cancel()
                raise _failed(grpc.StatusCode.DEADLINE_EXCEEDED) from error
            except BaseException:
                call.cancel()
                raise
            if answer is EOF:
                raise _failed(grpc.StatusCode.UNAVAILABLE)
            self._call = call
            return answer  # type: ignore[return-value]  # it is no EOF

    def end(self) -> None:
        """End the stream, if no answer is due on it."""
        if self._call is not None:
            self._call.cancel()


class Exchanges:
    """The side of exchanges that answers."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Task[Any]] = set()  # handlers, for their next request
        self._over = False

    async def request(self, context: grpc.aio.ServicerContext[Any, Any], within_s: float | None = None) -> Any:
        """The next request, None at the stream's end; a stream on which none comes in time is ended."""
        handler = asyncio.current_task()
        if self._over or handler is None:
            return None
        self._waiting.add(handler)
        try:
            async with asyncio.timeout(within_s):
                message = await context.read()
        except TimeoutError:
            await abort(context, grpc.StatusCode.DEADLINE_EXCEEDED, "HEADER", "no request came")
        except asyncio.CancelledError:
            if not self._over:
                raise  # the transport, not we
            handler.uncancel()
            return None
        finally:
            self._waiting.discard(handler)
        return None if message is EOF else message

    def end(self) -> None:
        """End all streams: at once, or with the answer that is due. A server that stops would wait for them."""
        self._over = True
        for handler in self._waiting:
            handler.cancel()


def _failed(code: grpc.StatusCode) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata())
