"""The client's side of calls, as ``grpc.aio`` has it: channels, and the four kinds of calls that the product makes."""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

import grpc
from grpc.aio import EOF, AioRpcError, Metadata

from testbed.chaos.network import CLIENT, Connection, Machine, Network
from testbed.chaos.pipe import Messages, Pipe

FINISHED = "RPC already finished."
_numbers = itertools.count(1)
Codec = Callable[[Any], Any] | None


class Channel:
    """A channel to one address; connects at the first call, and again once the connection is over."""

    def __init__(self, network: Network, machine: Machine, address: str) -> None:
        self.network, self.machine, self.address = network, machine, address
        self._connection: Connection | None = None
        self._calls: dict[int, Call] = {}

    def unary_unary(self, method: str, *codecs: Codec, **named: Any) -> Any:
        return self._callable(UnaryCall, method, codecs, named)

    def unary_stream(self, method: str, *codecs: Codec, **named: Any) -> Any:
        return self._callable(UnaryStreamCall, method, codecs, named)

    def stream_stream(self, method: str, *codecs: Codec, **named: Any) -> Any:
        return self._callable(Call, method, codecs, named)

    stream_unary = stream_stream

    def _callable(self, kind: type["Call"], method: str, codecs: tuple[Codec, ...], named: Any) -> Any:
        serialize, deserialize, *_ = (*codecs, None, None)
        serialize = named.get("request_serializer") or serialize
        deserialize = named.get("response_deserializer") or deserialize

        def begin(
            request: Any = None, *, timeout: float | None = None, metadata: Sequence[Any] | None = None, **_: Any
        ) -> Call:
            return kind(self, method, serialize, deserialize, tuple(metadata or ()), request, timeout)

        return begin

    def connect(self) -> Connection | float:
        """The connection; or in so many seconds say that nobody answers."""
        if self._connection is None or not self._connection.open[CLIENT]:
            dialled = self.network.dial(self.machine, self.address)
            if isinstance(dialled, float):
                return dialled
            self._connection = dialled
        return self._connection

    async def close(self, grace: float | None = None) -> None:
        """End all calls, and the connection; with a grace, once the calls have ended."""
        if grace and self._calls:
            await asyncio.sleep(grace)
        for call in list(self._calls.values()):
            call.cancel()
        if self._connection is not None:
            self._connection.close(CLIENT)
        await asyncio.sleep(0)

    async def __aenter__(self) -> "Channel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Call:
    """A call, both ways a stream; the other kinds restrict it."""

    def __init__(
        self,
        channel: Channel,
        method: str,
        serialize: Codec,
        deserialize: Codec,
        metadata: tuple[Any, ...],
        request: Any,
        timeout: float | None,
    ) -> None:
        self._channel, self.method = channel, method
        self._serialize, self._deserialize = serialize, deserialize
        self._loop = asyncio.get_running_loop()
        self.number = next(_numbers)
        self._inbox: deque[bytes] = deque()
        self._change: asyncio.Future[None] | None = None
        self._status: tuple[grpc.StatusCode, str, Any] | None = None
        self._cancelled = False
        self.up, self.down = Pipe(), Pipe()  # what was sent and not read yet
        channel._calls[self.number] = self
        self._timer = None if timeout is None else self._loop.call_later(timeout, self._time_out)
        self._connection = self._dial(metadata)

    def _dial(self, metadata: tuple[Any, ...]) -> Connection | None:
        dialled = self._channel.connect()
        if isinstance(dialled, float):
            refused = (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", ())
            self._loop.call_later(dialled, self.end, *refused)
            return None
        dialled.calls[CLIENT][self.number] = self
        server = dialled.server
        dialled.post(CLIENT, server.begin, dialled, self, metadata)
        return dialled

    # -- what arrives

    def take(self, message: bytes) -> None:
        """Take a message of the other side."""
        if self._status is None:
            self._inbox.append(message)
            self._wake()

    def end(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        """End with a status."""
        if self._status is None:
            self._status = code, details, trailing
            self._channel._calls.pop(self.number, None)
            if self._connection is not None:
                self._connection.calls[CLIENT].pop(self.number, None)
            if self._timer is not None:
                self._timer.cancel()
            self.up.close()
            self._wake()

    def connection_lost(self) -> None:
        """Note that the connection is over."""
        self.end(grpc.StatusCode.UNAVAILABLE, "Socket closed", ())

    def _time_out(self) -> None:
        self._tell_cancelled()
        self.end(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", ())

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    async def _changed(self) -> None:
        self._change = self._loop.create_future()
        try:
            await self._change
        except asyncio.CancelledError:
            self.cancel()  # as grpc.aio does
            raise
        finally:
            self._change = None

    # -- what the product calls

    def done(self) -> bool:
        return self._status is not None

    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> bool:
        """End the call from this side."""
        if self._status is not None:
            return False
        self._cancelled = True
        self._tell_cancelled()
        self.end(grpc.StatusCode.CANCELLED, "Locally cancelled by application!", ())
        return True

    def _tell_cancelled(self) -> None:
        if self._connection is not None:
            self._connection.post(CLIENT, self._connection.server.cancel, self._connection, self.number)

    async def write(self, request: Any) -> None:
        """Send a message; waits while the other side does not read."""
        if self._status is not None:
            raise asyncio.InvalidStateError(FINISHED)
        raw = self._serialize(request) if self._serialize else request
        self._send(raw)
        await self.up.room()
        if self._status is not None:
            self._raise()

    def _send(self, raw: bytes) -> None:
        if self._connection is not None:
            self._channel.network.note(self.method, raw)
            self.up.put(len(raw))
            self._connection.post(CLIENT, self._connection.server.take, self._connection, self.number, raw, self.up)

    async def done_writing(self) -> None:
        """Say no more."""
        if self._connection is not None and self._status is None:
            self._connection.post(CLIENT, self._connection.server.half_close, self._connection, self.number)

    async def read(self) -> Any:
        """Read a message; EOF at the end. Raises AioRpcError for any other end than OK."""
        while not self._inbox:
            if self._status is not None:
                self._raise()
                return EOF
            await self._changed()
        raw = self._inbox.popleft()
        self.down.get(len(raw))
        return self._deserialize(raw) if self._deserialize else raw

    def _raise(self) -> None:
        assert self._status is not None
        code, details, trailing = self._status
        if self._cancelled:
            raise asyncio.CancelledError
        if code is not grpc.StatusCode.OK:
            raise AioRpcError(code, Metadata(), Metadata(*trailing), details)

    def __aiter__(self) -> Messages:
        return Messages(self.read)


class UnaryStreamCall(Call):
    """A call with one request."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        request = args[5]
        self._send(self._serialize(request) if self._serialize else request)
        if self._connection is not None:
            self._connection.post(CLIENT, self._connection.server.half_close, self._connection, self.number)


class UnaryCall(UnaryStreamCall):
    """A call with one request and one answer. On a flawed link it may arrive twice, as a proxy's retry does."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        connection = self._connection
        if connection is not None and self._channel.network.repeats(connection):
            connection.post(CLIENT, connection.server.repeat, connection, self.method, args[4], self._request(args[5]))

    def _request(self, request: Any) -> bytes:
        raw: bytes = self._serialize(request) if self._serialize else request
        return raw

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answer().__await__()

    async def _answer(self) -> Any:
        answer = await self.read()
        if answer is EOF:
            raise AioRpcError(grpc.StatusCode.INTERNAL, Metadata(), Metadata(), "no answer")
        while self._status is None:
            await self._changed()
        self._raise()
        return answer
