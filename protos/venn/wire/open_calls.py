"""Calls of those who have shown nothing yet, neither a login nor a ticket: bounded in number, in bytes and in time.

gRPC reads the whole request of a unary call before it calls the method, for as long as that takes. So here such a call
is served as a stream, whose one request is read by us.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

import grpc
from grpc.aio import EOF

from venn.wire.bounds import Refusals, ServerBounds, host_of
from venn.wire.status import abort

Context = grpc.aio.ServicerContext[Any, Any]


class OpenCalls(grpc.aio.ServerInterceptor):
    """Reads the requests of unary calls of services that are open to anybody; streams call ``request`` themselves."""

    def __init__(self, services: Collection[str], bounds: ServerBounds, refusals: Refusals) -> None:
        self._services, self._bounds, self._refusals = services, bounds, refusals
        self._handlers: dict[str, Any] = {}  # by method
        self._waiting: dict[asyncio.Task[Any], None] = {}  # for a request, the longest first
        self._ended: set[asyncio.Task[Any]] = set()  # by us, to make room

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        method = handler_call_details.method
        if method in self._handlers:
            return self._handlers[method]
        handler = await continuation(handler_call_details)
        service = method.rpartition("/")[0].lstrip("/")
        if handler is None or handler.request_streaming or service not in self._services:
            return handler
        self._handlers[method] = grpc.stream_stream_rpc_method_handler(
            partial(self._serve, handler), response_serializer=handler.response_serializer
        )
        return self._handlers[method]

    async def _serve(self, handler: Any, _: object, context: Context) -> None:
        raw = await self.request(context)
        try:
            request = handler.request_deserializer(raw)
        except Exception:  # protobuf's implementations raise different types
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED", "these bytes are not the request")
        if handler.response_streaming:
            await handler.unary_stream(request, context)
        else:
            await context.write(await handler.unary_unary(request, context))

    async def request(self, context: Context) -> bytes:
        """Read the first message of a call. The call is ended if it is too large or does not come in time; and if more
        calls wait than may, the one that waits longest.
        """
        task = asyncio.current_task()
        assert task is not None
        if len(self._waiting) >= self._bounds.open_calls:
            self._end_oldest()
        self._waiting[task] = None
        try:
            async with asyncio.timeout(self._bounds.open_call):
                raw: Any = await context.read()
        except TimeoutError:
            self._met("open_call", context, "no request came in time")
            await abort(context, grpc.StatusCode.DEADLINE_EXCEEDED, "HEADER", "no request came in time")
        except asyncio.CancelledError:
            if task not in self._ended:
                raise  # the transport, not we
            self._ended.discard(task)
            task.uncancel()
            self._met("open_calls", context, "too many calls without a request")
            await abort(context, grpc.StatusCode.UNAVAILABLE, "BUSY", "too many calls wait for their requests here")
        finally:
            self._waiting.pop(task, None)
        if raw is EOF:
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "HEADER", "the call ended without a request")
        if len(raw) > self._bounds.open_bytes:
            self._met("open_bytes", context, f"a request of {len(raw)} bytes")
            message = f"the request has {len(raw)} bytes, allowed are {self._bounds.open_bytes}"
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE", message)
        return bytes(raw)

    def _end_oldest(self) -> None:
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        self._ended.add(oldest)
        oldest.cancel()

    def _met(self, bound: str, context: Context, why: str) -> None:
        self._refusals.met(bound, host_of(context.peer()), why)
