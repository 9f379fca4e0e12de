"""Channels, tokens, versions and statuses between a real server and a real client on loopback."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from job_driver.bounds import DriverBounds
from tests.integration.gate import guarded_server, login
from venn.v1 import admin_pb2, admin_pb2_grpc, device_pb2, device_pb2_grpc, job_pb2, job_pb2_grpc
from venn.v1.common_pb2 import Version
from venn.wire.admission import SOFTWARE, check_version, this_version
from venn.wire.bounds import ServerBounds
from venn.wire.calls import auth_stub
from venn.wire.channel import (
    bind,
    channel_options,
    is_literal,
    is_loopback,
    make_server,
    open_channel,
    parse_address,
    resolved,
    server_options,
)
from venn.wire.chunks import CHUNK_BYTES
from venn.wire.errors import UsageError
from venn.wire.keys import Role
from venn.wire.login import bearer
from venn.wire.status import abort, metadata_of, peer_error, reason_of


class Devices(device_pb2_grpc.DeviceServiceServicer):
    async def Connect(
        self, request_iterator: AsyncIterator[device_pb2.ConnectRequest], context: Any
    ) -> AsyncIterator[device_pb2.ConnectResponse]:
        async for frame in request_iterator:
            yield device_pb2.ConnectResponse(ack=device_pb2.Ack(through=frame.seq))


class Jobs(job_pb2_grpc.JobServiceServicer):
    def __init__(self) -> None:
        self.peers: set[str] = set()

    async def SubmitJob(self, request: job_pb2.SubmitJobRequest, context: Any) -> job_pb2.SubmitJobResponse:
        self.peers.add(context.peer())
        await check_version(context, request.version)
        return job_pb2.SubmitJobResponse(version=this_version())

    async def FollowJob(
        self, request: job_pb2.FollowJobRequest, context: Any
    ) -> AsyncIterator[job_pb2.FollowJobResponse]:
        yield job_pb2.FollowJobResponse(seq=1)


class Admins(admin_pb2_grpc.AdminServiceServicer):
    async def Explain(self, request: admin_pb2.ExplainRequest, context: Any) -> admin_pb2.ExplainResponse:
        problem = f"no job {request.subject}"
        await abort(
            context, grpc.StatusCode.NOT_FOUND, "UNKNOWN_JOB", problem, fix="see: venn job list", job="x" * 5000
        )


@dataclass
class World:
    address: str
    jobs: Jobs
    opened: list[grpc.aio.Channel] = field(default_factory=list)

    def channel(self, role: Role | None) -> grpc.aio.Channel:
        self.opened.append(login(self.address, role).channel() if role else open_channel(self.address))
        return self.opened[-1]


@asynccontextmanager
async def serving() -> AsyncIterator[World]:
    server, jobs = guarded_server(), Jobs()
    device_pb2_grpc.add_DeviceServiceServicer_to_server(Devices(), server)
    job_pb2_grpc.add_JobServiceServicer_to_server(jobs, server)
    admin_pb2_grpc.add_AdminServiceServicer_to_server(Admins(), server)
    world = World(bind(server, "127.0.0.1:0"), jobs)
    await server.start()
    try:
        yield world
    finally:
        for channel in world.opened:
            await channel.close()
        await server.stop(None)


async def frames() -> AsyncIterator[device_pb2.ConnectRequest]:
    yield device_pb2.ConnectRequest(seq=1)


async def test_every_kind_of_call_proves_and_shows_its_login() -> None:
    async with serving() as world:
        jobs: Any = job_pb2_grpc.JobServiceStub(world.channel("job"))
        assert (await jobs.SubmitJob(job_pb2.SubmitJobRequest(version=this_version()))).version.software == SOFTWARE
        assert [frame.seq async for frame in jobs.FollowJob(job_pb2.FollowJobRequest())] == [1]
        devices: Any = device_pb2_grpc.DeviceServiceStub(world.channel("device"))
        assert [frame.ack.through async for frame in devices.Connect(frames())] == [1]
        stream = devices.Connect(metadata=(("venn-extra", "x"),))
        for seq in range(1, 50):
            await stream.write(device_pb2.ConnectRequest(seq=seq))
            assert (await stream.read()).ack.through == seq
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF


@pytest.mark.parametrize("token", [None, "", "wrong", "0" * 64])
async def test_a_wrong_token_is_refused_on_every_kind_of_call(token: str | None) -> None:
    async with serving() as world:
        channel, shown = world.channel(None), () if token is None else (bearer(token),)
        jobs: Any = job_pb2_grpc.JobServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await jobs.SubmitJob(job_pb2.SubmitJobRequest(), metadata=shown)
        with pytest.raises(grpc.aio.AioRpcError) as stream:
            await jobs.FollowJob(job_pb2.FollowJobRequest(), metadata=shown).read()
        devices: Any = device_pb2_grpc.DeviceServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as both:
            await devices.Connect(metadata=shown).read()  # though it never says a word
        for refused in (unary, stream, both):
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert reason_of(refused.value) == "LOGIN"
        said = peer_error(unary.value, where=world.address)
        assert (said.reason, said.exit_code) == ("LOGIN", 4)


async def test_what_is_not_named_is_not_served_and_health_needs_no_login() -> None:
    async with serving() as world:
        for role in (None, "admin"):
            for service in ("grpc.health.v1.Health", "venn.v1.TaskService"):  # this server has neither
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await world.channel(role).unary_unary(f"/{service}/Check")(b"")
                assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("protocol", [0, 2, 2**32 - 1])
async def test_another_version_is_refused_and_both_are_named(protocol: int) -> None:
    async with serving() as world:
        jobs: Any = job_pb2_grpc.JobServiceStub(world.channel("job"))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await jobs.SubmitJob(job_pb2.SubmitJobRequest(version=Version(protocol=protocol, software="9.9\x1b[0m")))
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert reason_of(refused.value) == "VERSION"
        text = str(peer_error(refused.value, where=world.address))
        assert f"protocol {protocol} (venn-testbed 9.9" in text
        assert f"protocol 1 (venn-testbed {SOFTWARE})" in text
        assert "install the same version" in text
        assert text.isprintable()


async def test_a_status_carries_its_reason_and_details_within_bounds() -> None:
    async with serving() as world:
        admins: Any = admin_pb2_grpc.AdminServiceStub(world.channel("admin"))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await admins.Explain(admin_pb2.ExplainRequest(subject="y" * 100_000))
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        error = peer_error(refused.value, where="coordinator")
        assert (error.reason, error.fix, error.details["code"]) == ("UNKNOWN_JOB", "see: venn job list", "NOT_FOUND")
        assert metadata_of(refused.value)["job"].endswith("...")


async def test_a_long_message_in_any_script_arrives() -> None:
    async with serving() as world:
        admins: Any = admin_pb2_grpc.AdminServiceStub(world.channel("admin"))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await admins.Explain(admin_pb2.ExplainRequest(subject="\u5b66" * 1000))
        assert reason_of(refused.value) == "UNKNOWN_JOB"


async def test_statuses_without_a_reason_are_readable() -> None:
    async with serving() as world:
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await world.channel("admin").unary_unary("/venn.v1.AdminService/None")(b"")
        assert peer_error(unknown.value, where="it").reason == "WRONG_SERVER"
        assert reason_of(unknown.value) == ""
        assert metadata_of(unknown.value) == {}
    with pytest.raises(grpc.aio.AioRpcError) as gone:
        await world.channel("admin").unary_unary("/venn.v1.AdminService/None")(b"")
    await world.opened[-1].close()
    error = peer_error(gone.value, where=world.address)
    assert error.reason == "UNREACHABLE"
    assert str(error).startswith(f"{world.address}: it does not answer")


async def test_a_message_over_the_bound_is_refused_and_the_server_lives_on() -> None:
    async with serving() as world:
        options = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(world.address, options=options) as raw:
            shown = await login(world.address, "job").shown(auth_stub(raw))
            call = raw.unary_unary("/venn.v1.JobService/SubmitJob")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(bytes(ServerBounds().request_bytes + 1), metadata=(shown,))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert peer_error(refused.value, where="it").reason == "TOO_LARGE"
        jobs: Any = job_pb2_grpc.JobServiceStub(world.channel("job"))
        await jobs.SubmitJob(job_pb2.SubmitJobRequest(version=this_version()))


async def test_each_channel_has_its_own_connection() -> None:
    async with serving() as world:
        for _ in range(3):
            jobs: Any = job_pb2_grpc.JobServiceStub(world.channel("job"))
            for _ in range(2):
                await jobs.SubmitJob(job_pb2.SubmitJobRequest(version=this_version()))
        assert len(world.jobs.peers) == 3


async def test_a_port_in_use_is_one_clear_line() -> None:
    async with serving() as world:
        with pytest.raises(UsageError, match="another program listens here") as error:
            bind(make_server(), world.address)
        assert (error.value.reason, error.value.where) == ("PORT_IN_USE", world.address)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.invalid:0"])
async def test_only_loopback_without_insecure(address: str) -> None:
    with pytest.raises(UsageError) as error:
        bind(make_server(), address)
    assert error.value.reason == "NOT_LOOPBACK"


async def test_insecure_opens_other_addresses_that_exist() -> None:
    server = make_server()
    assert bind(server, "localhost:0").startswith("localhost:")
    host, port = parse_address(bind(server, "0.0.0.0:0", insecure=True))
    assert host == "0.0.0.0"
    assert port > 0
    with pytest.raises(UsageError, match="cannot listen here") as error:
        bind(server, "192.0.2.1:0", insecure=True)
    assert error.value.reason == "ADDRESS"
    await server.stop(None)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("127.0.0.1:9700", ("127.0.0.1", 9700)), ("[::1]:0", ("::1", 0)), (" localhost:65535 ", ("localhost", 65535))],
)
def test_addresses(text: str, parsed: tuple[str, int]) -> None:
    assert parse_address(text) == parsed
    assert is_loopback(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9700",
        ":9700",
        "host",
        "host:",
        "host:x",
        "host:65536",
        "host:-1",
        "::1:9700",
        "[host]:1",
        "http://h:1",
        "a b:1",
        "[]:1",
        "h:\u0661",
    ],
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="write host:port"):
        parse_address(text)


def test_literals_and_loopback() -> None:
    assert is_literal("10.0.0.1:1")
    assert not is_literal("localhost:1")
    assert not is_loopback("10.0.0.1:1")
    assert not is_loopback("example.org:1")


def test_a_name_is_looked_up_once() -> None:
    assert resolved("10.0.0.1:1") == "10.0.0.1:1"
    assert is_literal(resolved("localhost:1"))
    with pytest.raises(UsageError, match="this name has no address"):
        resolved(f"{64 * 'x'}:1")  # longer than a name may be


def test_keepalive_is_never_under_20_s_and_no_client_pings_faster_than_a_server_bears() -> None:
    client, server = dict(channel_options()), dict(server_options(ServerBounds()))
    for options in (client, server):
        assert options["grpc.keepalive_time_ms"] >= 20_000
        assert options["grpc.keepalive_timeout_ms"] >= 20_000
        assert options["grpc.http2.ping_timeout_ms"] >= 20_000
        assert options["grpc.keepalive_permit_without_calls"] == 1
    assert client["grpc.keepalive_time_ms"] >= 1.5 * server["grpc.http2.min_ping_interval_without_data_ms"]
    assert client["grpc.http2.max_pings_without_data"] == 0  # idle streams are still probed
    assert client["grpc.use_local_subchannel_pool"] == 1
    assert server["grpc.so_reuseport"] == 0
    assert client["grpc.max_send_message_length"] <= DriverBounds().request_bytes
    assert server["grpc.max_send_message_length"] <= client["grpc.max_receive_message_length"]


async def test_a_reader_that_stops_holds_little_of_what_a_peer_would_send() -> None:
    stopped, over = asyncio.Event(), asyncio.Event()

    async def stop(requests: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        for _ in range(40):
            await context.read()
        stopped.set()
        await over.wait()
        return b""

    server = make_server(read_ahead=2**18)
    handlers = {"Up": grpc.stream_unary_rpc_method_handler(stop)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", handlers),))
    address = bind(server, "127.0.0.1:0")
    await server.start()
    sent, message = 0, bytes(2**19)
    async with open_channel(address) as channel:
        call = channel.stream_unary("/test.Test/Up")()

        async def send() -> None:
            nonlocal sent
            while True:
                await call.write(message)
                sent += 1

        sending = asyncio.create_task(send())
        await stopped.wait()
        await asyncio.wait({sending}, timeout=0.3)
        assert not sending.done()
        assert sent <= 44
        sending.cancel()
        over.set()
        call.cancel()
    await server.stop(0)


async def settings(server: grpc.aio.Server) -> dict[int, int]:
    """What an HTTP/2 server says of itself as a peer connects, by number (RFC 9113, section 6.5.2)."""
    host, port = parse_address(bind(server, "127.0.0.1:0"))
    await server.start()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    head = await reader.readexactly(9)
    said = await reader.readexactly(int.from_bytes(head[:3]))
    writer.close()
    await server.stop(0)
    return dict(struct.iter_unpack(">HI", said))


async def test_a_bound_on_what_waits_in_memory_leaves_a_chunk_in_one_frame() -> None:
    said = await settings(make_server(read_ahead=2**16))
    assert said[4] == 2**16  # bytes that a stream may send unread
    assert said[5] >= CHUNK_BYTES  # the largest frame: gRPC's own choice would be 16 KiB here
