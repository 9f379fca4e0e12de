"""Requests and answers in turn on one stream, between a real server and a real client on loopback."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from venn.wire.calls import Exchange, Exchanges
from venn.wire.channel import bind, make_server, open_channel
from venn.wire.status import abort, reason_of


class Server:
    """Answers in capitals; "no" is refused, "wait" is answered once ``go`` is set."""

    def __init__(self) -> None:
        self.exchanges, self.streams, self.asked = Exchanges(), 0, asyncio.Event()
        self.go = asyncio.Event()
        self._handlers: set[asyncio.Task[Any]] = set()

    async def ended(self) -> None:
        """Until all streams so far have ended."""
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def serve(self, _: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers.add(handler)
        self.streams += 1
        while (request := await self.exchanges.request(context)) is not None:
            self.asked.set()
            if request == b"no":
                await abort(context, grpc.StatusCode.FAILED_PRECONDITION, "NO", "as the test says")
            if request == b"wait":
                await self.go.wait()
            await context.write(request.upper())


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def exchange(server: Server) -> AsyncIterator[Exchange[bytes, bytes]]:
    listening = make_server()
    handlers = {"Exchange": grpc.stream_stream_rpc_method_handler(server.serve)}
    listening.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", handlers),))
    address = bind(listening, "127.0.0.1:0")
    await listening.start()
    async with open_channel(address) as channel:
        yield Exchange(channel.stream_stream("/test/Exchange"))
    server.exchanges.end()
    await server.ended()  # and does not wait until it is told to
    await listening.stop(None)


async def test_all_requests_go_on_one_stream_each_with_its_answer(
    server: Server, exchange: Exchange[bytes, bytes]
) -> None:
    answers = await asyncio.gather(*(exchange.ask(bytes([letter])) for letter in b"abc"))
    assert (answers, await exchange.ask(b"d"), server.streams) == ([b"A", b"B", b"C"], b"D", 1)


async def test_a_refusal_ends_the_stream_and_the_next_request_begins_another(
    server: Server, exchange: Exchange[bytes, bytes]
) -> None:
    assert await exchange.ask(b"a") == b"A"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await exchange.ask(b"no")
    assert reason_of(caught.value) == "NO"
    assert (await exchange.ask(b"b"), server.streams) == (b"B", 2)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_stream_that_is_left_in_the_middle_is_not_used_again(
    server: Server, exchange: Exchange[bytes, bytes], cancelled: bool
) -> None:
    """Its answer would be taken for another's."""
    asking = asyncio.create_task(exchange.ask(b"wait", timeout=60.0 if cancelled else 0.05))
    await server.asked.wait()
    if cancelled:
        asking.cancel()
        await asyncio.wait({asking})
    else:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asking
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    server.go.set()
    assert (await exchange.ask(b"b"), server.streams) == (b"B", 2)


async def test_a_server_that_ends_gives_the_answer_that_is_due(
    server: Server, exchange: Exchange[bytes, bytes]
) -> None:
    asking = asyncio.create_task(exchange.ask(b"wait"))
    await server.asked.wait()
    server.exchanges.end()
    server.go.set()
    assert await asking == b"WAIT"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await exchange.ask(b"a")
    # INTERNAL is what gRPC says where the stream's end is on its way to us.
    assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)
