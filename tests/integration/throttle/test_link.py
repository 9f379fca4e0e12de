"""A link in user space, between real sockets: what it passes, what it refuses, and how it breaks."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import pytest

from testbed.live.throttle.relay import Link, LinkSpec, target_of
from venn.wire.channel import ignore_no_proxy, make_server, open_channel

PATIENCE_S = 60.0
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def linked(answer: Answer, link: Link | None = None) -> AsyncIterator[tuple[Link, Ends]]:
    """A device's connection through a link to a server of this machine."""
    link = link or LinkSpec(up_bits=None, down_bits=None).link()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    proxy = await link.start()
    async with asyncio.timeout(PATIENCE_S):
        try:
            ends, said = await asked(proxy, target)
            assert b" 200 " in said
            yield link, ends
            ends[1].close()
        finally:
            await link.stop()
            server.close()


async def asked(proxy: str, target: str) -> tuple[Ends, bytes]:
    host, port = proxy.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    return (reader, writer), await reader.readuntil(b"\r\n\r\n")


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
        writer.write_eof()
    except OSError:
        pass
    finally:
        writer.close()


async def test_what_is_sent_arrives_and_is_counted_each_way() -> None:
    async with linked(echo, LinkSpec(up_bits=80e6, down_bits=80e6, delay_s=0.002, jitter_s=0.002).link()) as (
        link,
        ends,
    ):
        reader, writer = ends
        sent = bytes(range(256)) * 400
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        assert (link.up.passed, link.connections) == (len(sent), 1)
        assert link.down.passed == len(sent)


async def test_the_end_of_one_way_is_passed_on_and_the_other_way_goes_on() -> None:
    async with linked(echo) as (_, (reader, writer)):
        writer.write(b"last words")
        writer.write_eof()
        assert await reader.read() == b"last words"


async def test_a_reset_by_the_server_is_a_reset_for_the_device() -> None:
    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        end: socket.socket = writer.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with linked(slam) as (_, (reader, writer)):
        writer.write(b"x")
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)


async def test_a_link_that_is_reset_resets_the_device() -> None:
    async with linked(echo) as (link, (reader, writer)):
        writer.write(b"x")
        await reader.readexactly(1)
        await link.reset()
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)


async def test_a_black_hole_takes_and_gives_nothing_until_it_is_mended() -> None:
    async with linked(echo) as (link, (reader, writer)):
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        link.cut()
        writer.write(b"b")
        hearing = asyncio.ensure_future(reader.readexactly(1))
        writer.write(bytes(50_000_000))
        done, _ = await asyncio.wait({hearing}, timeout=0.2)
        assert not done
        assert link.down.passed == 1
        assert writer.transport.get_write_buffer_size() > 30_000_000  # it is not read either
        link.mend()
        assert await hearing == b"b"
        writer.transport.abort()


async def test_other_limits_hold_for_what_is_open() -> None:
    loop = asyncio.get_running_loop()
    async with linked(echo, LinkSpec(up_bits=None, down_bits=None).link()) as (link, (reader, writer)):
        link.limit(up_bits=8e5, down_bits=None, delay_s=0.1, jitter_s=0.0, stall=0.0)
        began, sent = loop.time(), bytes(20_000)  # 0.2 s
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        assert loop.time() - began > 0.25  # it cannot be sooner
        assert link.limits()["up_bits"] == 8e5
        link.limit(up_bits=None, down_bits=None, delay_s=0.0, jitter_s=0.0, stall=0.0)
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent


@pytest.mark.parametrize("target", ["192.0.2.7:80", "example.org:80", "127.0.0.1", "nonsense"])
async def test_it_leads_nowhere_but_to_this_machine(target: str) -> None:
    async with linked(echo) as (link, _):
        assert link._server is not None
        proxy = f"127.0.0.1:{link._server.getsockname()[1]}"
        (_, writer), said = await asked(proxy, target)
        assert b" 403 " in said
        writer.close()


async def test_a_port_where_nobody_listens_is_told() -> None:
    async with linked(echo) as (link, _):
        assert link._server is not None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            target = f"127.0.0.1:{free.getsockname()[1]}"
            (_, writer), said = await asked(f"127.0.0.1:{link._server.getsockname()[1]}", target)
        assert b" 502 " in said
        writer.close()


@pytest.mark.parametrize("exempt", ["", "127.0.0.1,localhost", "*"])
async def test_grpc_goes_through_it_whatever_the_environment_exempts(
    exempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device's channel, as its agent opens it: a proxy that was passed by would be no limit."""
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.setenv(name, exempt)
    ignore_no_proxy()
    server = make_server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    link = LinkSpec(up_bits=None, down_bits=None).link()
    proxy = await link.start()
    async with asyncio.timeout(PATIENCE_S), open_channel(f"127.0.0.1:{port}", proxy=proxy) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await channel.unary_unary("/none/None")(b"x" * 10_000)
        assert told.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert link.connections == 1
        assert link.up.passed > 0
    await link.stop()
    await server.stop(None)


def test_a_link_leads_beyond_this_machine_only_where_that_was_said() -> None:
    assert target_of(b"coordinator:9700") is None
    assert target_of(b"coordinator:9700", anywhere=True) == ("coordinator", 9700)
    assert target_of(b"127.0.0.1:9700") == ("127.0.0.1", 9700)
