"""What strangers can do to a server: connections, streams, unfinished calls, and watches that nobody reads."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.integration.wire.http2 import RawConnection
from venn.wire.bounds import Refusals, ServerBounds
from venn.wire.channel import bind, make_server, open_channel
from venn.wire.health import SERVICE, Health
from venn.wire.open_calls import OpenCalls
from venn.wire.status import reason_of

CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
STOP_S = 0.2
PATIENCE_S = 30.0


@dataclass
class Running:
    """A server with the health service and a stream that reads until its end."""

    server: grpc.aio.Server
    health: Health
    refusals: Refusals
    address: str
    streams: int = 0  # open
    most_streams: int = 0

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def read(self, _: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self.streams += 1
        self.most_streams = max(self.most_streams, self.streams)
        try:
            while await context.read() is not grpc.aio.EOF:
                pass
        finally:
            self.streams -= 1


@asynccontextmanager
async def running(**bounds: Any) -> AsyncIterator[Running]:
    bound, refusals = ServerBounds(**bounds), Refusals()
    server = make_server(bounds=bound, interceptors=[OpenCalls({SERVICE}, bound, refusals)])
    made = Running(server, Health({"known"}, bound, refusals), refusals, bind(server, "127.0.0.1:0"))
    made.health.add_to(server)
    handlers = {"Read": grpc.stream_stream_rpc_method_handler(made.read)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", handlers),))
    await server.start()
    made.health.serving(True)
    try:
        yield made
    finally:
        await server.stop(STOP_S)


async def check(made: Running, service: str = "") -> health_pb2.HealthCheckResponse:
    async with open_channel(made.address) as channel:
        return await HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S)


async def closed(reader: asyncio.StreamReader) -> None:
    """Until the other side has closed the connection."""
    with suppress(ConnectionError):
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(65536):
                pass


async def test_health_is_told_and_watched() -> None:
    async with running() as made, open_channel(made.address) as channel:
        assert (await check(made)).status == health_pb2.HealthCheckResponse.SERVING
        assert (await check(made, "known")).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await check(made, "other")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="known"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        made.health.serving(False)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        other = HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="other"))
        assert (await other.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


async def test_silent_connections_have_a_bound_and_end_with_the_handshakes_time() -> None:
    async with running(connections=8, handshake=0.3) as made:
        silent = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(20)]
        for reader, writer in silent:
            await closed(reader)
            writer.close()
        assert (await check(made)).status == health_pb2.HealthCheckResponse.SERVING


async def test_a_connection_beyond_the_bound_is_closed_and_one_within_it_stays() -> None:
    async with running(connections=1) as made, open_channel(made.address) as channel:
        await HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        await closed(reader)
        writer.close()
        await HealthStub(channel).Check(health_pb2.HealthCheckRequest())


async def test_the_calls_on_a_connection_have_a_bound_whatever_its_client_does() -> None:
    async with running(streams=4) as made:
        stranger = await RawConnection.open(made.port)
        for _ in range(12):
            await stranger.call("/test/Read", b"x")
        await stranger.ping()  # what was sent before it is handled
        assert (await check(made)).status == health_pb2.HealthCheckResponse.SERVING
        assert 0 < made.most_streams <= 4
        stranger.close()


async def test_unfinished_calls_have_a_bound_and_leave_room_for_others() -> None:
    async with running(open_calls=4) as made:
        strangers = [await RawConnection.open(made.port) for _ in range(3)]
        for stranger in strangers:
            for _ in range(4):
                await stranger.call(CHECK, b"\0" * 1000, whole=False)
            await stranger.ping()
            assert (await check(made)).status == health_pb2.HealthCheckResponse.SERVING
        assert made.refusals.times["open_calls"] >= 8
        for stranger in strangers:
            stranger.close()


async def test_a_call_whose_request_does_not_come_is_ended() -> None:
    async with running(open_call=0.05) as made:
        stranger = await RawConnection.open(made.port)
        await stranger.call(CHECK, b"\0" * 1000, whole=False)
        async with asyncio.timeout(PATIENCE_S):
            await stranger.headers.wait()
        assert made.refusals.times == {"open_call": 1}
        stranger.close()


async def test_a_large_request_is_refused() -> None:
    async with running(open_bytes=100, request_bytes=1000) as made:
        for size, reason in ((200, "TOO_LARGE"), (2000, "")):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await check(made, "x" * size)
            assert reason_of(caught.value) == reason
        assert made.refusals.times == {"open_bytes": 1}  # gRPC refuses the other one itself


async def test_bytes_that_are_no_request_are_refused() -> None:
    async with running() as made, open_channel(made.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(CHECK)(b"\xff\xff")
        assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")


async def test_watches_have_a_bound() -> None:
    async with running(watches=2) as made, open_channel(made.address) as channel:
        watches = [HealthStub(channel).Watch(health_pb2.HealthCheckRequest()) for _ in range(2)]
        for watch in watches:
            await watch.read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await HealthStub(channel).Watch(health_pb2.HealthCheckRequest()).read()
        assert reason_of(caught.value) == "TOO_MANY_WATCHES"
        watches[0].cancel()
        again = None
        async with asyncio.timeout(PATIENCE_S):
            while not again:  # refused until the server has noticed
                with suppress(grpc.aio.AioRpcError):
                    again = await HealthStub(channel).Watch(health_pb2.HealthCheckRequest()).read()


async def test_a_watcher_that_reads_nothing_keeps_no_server_from_stopping() -> None:
    async with running() as made:
        window_of_0 = struct.pack(">HI", 4, 0)
        stranger = await RawConnection.open(made.port, settings=window_of_0)
        await stranger.call(WATCH, b"")
        async with asyncio.timeout(PATIENCE_S):
            await stranger.headers.wait()
        made.health.serving(False)
        async with asyncio.timeout(PATIENCE_S):
            await made.server.stop(STOP_S)
        stranger.close()


async def test_accepting_heals_after_no_file_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource", reason="no file limits here")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with running() as made:
        await check(made)
        used = len(os.listdir("/dev/fd"))
        held: list[socket.socket] = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, hard))
            with suppress(OSError):
                while True:
                    held.append(socket.create_connection(("127.0.0.1", made.port)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for one in held:
                one.close()
        assert (await check(made)).status == health_pb2.HealthCheckResponse.SERVING
