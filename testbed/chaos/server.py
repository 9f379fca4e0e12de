"""The server's side of calls, as ``grpc.aio`` has it: handlers by method, contexts, interceptors."""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError
from grpc.aio import EOF, AbortError, InternalError

from testbed.chaos.loop import ProcessLoop
from testbed.chaos.network import SERVER, Connection, Network
from testbed.chaos.pipe import Messages, Pipe

Failed = Callable[[BaseException, str], None]


class Undecodable(Exception):
    """The error of a message that its service's type cannot be made of: grpc.aio ends the call with UNKNOWN."""


class Details:
    """The details of a call, for interceptors and handlers of services."""

    def __init__(self, method: str, metadata: tuple[Any, ...]) -> None:
        self.method, self.invocation_metadata = method, metadata


class Server:
    """A server of one process. ``failed`` is told what a handler raised that is no refusal."""

    def __init__(self, network: Network, loop: ProcessLoop, interceptors: Sequence[Any], failed: Failed) -> None:
        self.network, self.loop = network, loop
        self.serving = False
        self._interceptors, self._failed = interceptors, failed
        self._generic: list[Any] = []
        self._registered: dict[str, Any] = {}
        self._connections: dict[Connection, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    # -- what the product calls

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        self._generic.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        for name, handler in handlers.items():
            self._registered[f"/{service}/{name}"] = handler

    async def start(self) -> None:
        self.serving = True

    async def stop(self, grace: float | None) -> None:
        """Take no new calls, wait so long for the others, and close all connections."""
        self.serving = False
        if self._tasks and grace:
            await asyncio.wait(list(self._tasks), timeout=grace)
        for connection in list(self._connections):
            connection.close(SERVER)
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=1.0)

    # -- what arrives

    def begin(self, connection: Connection, client: Any, metadata: tuple[Any, ...]) -> None:
        """Begin a call."""
        self._connections[connection] = None
        call = ServerCall(self, connection, client, metadata)
        connection.calls[SERVER][client.number] = call
        self._run(call)

    def repeat(self, connection: Connection, method: str, metadata: tuple[Any, ...], request: bytes) -> None:
        """Serve a unary call a second time; nobody hears the answer."""
        call = ServerCall(self, connection, None, metadata, method)
        call.take(request, Pipe())
        call.half_close()
        self._run(call)

    def take(self, connection: Connection, number: int, message: bytes, pipe: Pipe) -> None:
        """Take a message of a call."""
        if (call := connection.calls[SERVER].get(number)) is not None:
            call.take(message, pipe)

    def half_close(self, connection: Connection, number: int) -> None:
        """Note that the client says no more."""
        if (call := connection.calls[SERVER].get(number)) is not None:
            call.half_close()

    def cancel(self, connection: Connection, number: int) -> None:
        """Note that the client has ended the call."""
        if (call := connection.calls[SERVER].pop(number, None)) is not None:
            call.connection_lost()

    # -- calls

    def _run(self, call: "ServerCall") -> None:
        call.task = self.loop.create_task(self._serve(call))
        self._tasks[call.task] = None
        call.task.add_done_callback(lambda task: self._tasks.pop(task, None))

    async def _serve(self, call: "ServerCall") -> None:
        try:
            handler = await self._handler(call)
            if handler is None:
                call.end(grpc.StatusCode.UNIMPLEMENTED, "Method not found!", ())
                return
            await _serve(handler, call)
            call.end(grpc.StatusCode.OK, "", ())
        except AbortError:
            pass  # its status was told
        except asyncio.CancelledError:
            call.end(grpc.StatusCode.CANCELLED, "", ())
        except Undecodable as error:
            call.end(grpc.StatusCode.UNKNOWN, str(error), ())
        except Exception as error:
            call.end(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}", ())
            if not (call.lost and isinstance(error, grpc.aio.BaseError)):
                self._failed(error, call.method)
        finally:
            call.over()

    async def _handler(self, call: "ServerCall") -> Any:
        details = Details(call.method, call.metadata)

        async def found(details: Any) -> Any:
            if details.method in self._registered:
                return self._registered[details.method]
            return next((one for each in self._generic if (one := each.service(details)) is not None), None)

        continuation = found
        for interceptor in reversed(self._interceptors):
            continuation = _through(interceptor, continuation)
        return await continuation(details)


def _through(interceptor: Any, inner: Any) -> Any:
    async def continuation(details: Any) -> Any:
        return await interceptor.intercept_service(inner, details)

    return continuation


async def _serve(handler: Any, call: "ServerCall") -> None:
    """Call the handler's function as the kind of its method says."""
    call.deserialize, call.serialize = handler.request_deserializer, handler.response_serializer
    kinds = {
        (False, False): handler.unary_unary,
        (False, True): handler.unary_stream,
        (True, False): handler.stream_unary,
        (True, True): handler.stream_stream,
    }
    function = kinds[bool(handler.request_streaming), bool(handler.response_streaming)]
    request = call if handler.request_streaming else await call.read()
    if request is EOF:
        return  # the client left before it had asked
    answer = function(request, call)
    if inspect.isasyncgen(answer):
        async for message in answer:
            await call.write(message)
        return
    said = await answer
    if not handler.response_streaming:
        await call.write(said)


class ServerCall:
    """A call at its server: the context that handlers get."""

    def __init__(
        self, server: Server, connection: Connection, client: Any, metadata: tuple[Any, ...], method: str = ""
    ) -> None:
        self._server, self._connection, self._client = server, connection, client
        self.method = method or client.method
        self.metadata = metadata
        self.task: asyncio.Task[None] | None = None
        self.serialize: Callable[[Any], bytes] | None = None
        self.deserialize: Callable[[bytes], Any] | None = None
        self.lost = False
        self._inbox: deque[tuple[bytes, Pipe]] = deque()
        self._closed = self._ended = False
        self._change: asyncio.Future[None] | None = None

    # -- what arrives

    def take(self, message: bytes, pipe: Pipe) -> None:
        self._inbox.append((message, pipe))
        self._wake()

    def half_close(self) -> None:
        self._closed = True
        self._wake()

    def connection_lost(self) -> None:
        """End as grpc.aio does: a read ends like a half-close, and the handler is cancelled, one of them first."""
        self.lost = self._closed = True
        self._inbox.clear()
        if self._client is not None:
            self._client.down.close()
        task, loop = self.task, self._server.loop
        if self._connection.rng.random() < 0.5:
            self._wake()
            loop.call_later(0.001, _cancel, task)
        else:
            _cancel(task)

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    # -- the end

    def end(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        """Tell the client the status, once."""
        if not self._ended:
            self._ended = True
            if self._client is not None:
                self._connection.post(SERVER, self._client.end, code, details, trailing)

    def over(self) -> None:
        """Forget the call."""
        if self._client is not None:
            self._connection.calls[SERVER].pop(self._client.number, None)

    # -- the context

    async def read(self) -> Any:
        while not self._inbox:
            if self._closed:
                return EOF
            self._change = self._server.loop.create_future()
            try:
                await self._change
            finally:
                self._change = None
        raw, pipe = self._inbox.popleft()
        pipe.get(len(raw))
        try:
            return self.deserialize(raw) if self.deserialize else raw
        except DecodeError as error:
            raise Undecodable(str(error)) from error

    async def write(self, message: Any) -> None:
        if self.lost or self._ended:
            raise InternalError("Failed 'execute_batch'")
        raw = self.serialize(message) if self.serialize else message
        if self._client is None:
            return
        self._client.down.put(len(raw))
        self._connection.post(SERVER, self._client.take, raw)
        await self._client.down.room()

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        self.end(code, details, trailing_metadata)
        raise AbortError("Locally aborted.")

    def peer(self) -> str:
        return f"ipv4:{self._connection.machines[0].ip}:{self._connection.number % 50_000 + 10_000}"

    def invocation_metadata(self) -> Any:
        return self.metadata

    def auth_context(self) -> Mapping[str, Any]:
        return {}

    def cancelled(self) -> bool:
        return self.lost

    def set_trailing_metadata(self, metadata: Any) -> None:
        pass

    def __aiter__(self) -> Messages:
        return Messages(self.read)


def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
