"""``venn bench coordinator`` counts messages, and its echo exchanges as many of the same sizes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc

from testbed.bench.bare import server
from testbed.bench.coordinator import BenchDevice, Counter, Driver, Echo, Traffic
from venn.v1 import device_pb2 as device
from venn.wire.channel import bind


class Stream:
    """A coordinator that acknowledges, and makes the next offer, in one message."""

    def __init__(self, messages: list[bytes]) -> None:
        self.said: list[bytes] = []
        self._messages = messages

    async def write(self, message: bytes) -> None:
        self.said.append(message)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for message in self._messages:
            yield message


class Channel:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def stream_stream(self, method: str) -> Any:
        return lambda: self._stream


async def test_a_packed_message_is_one_message() -> None:
    packed = device.ConnectResponse(ack=device.Ack(through=3))
    packed.more.add(offer=device.Offer(lease=8))
    first = device.ConnectResponse(offer=device.Offer(lease=7))
    down = [message.SerializeToString() for message in (first, packed)]
    counter, stream = Counter(), Stream(down)
    counter.working.set()
    async with grpc.aio.insecure_channel("127.0.0.1:1") as nowhere:
        await BenchDevice(cast(grpc.aio.Channel, Channel(stream)), counter).work("one", Driver(nowhere))
    assert len(stream.said) == 5  # a check-in, and two for each lease
    assert counter.traffic == Traffic(up=5, up_bytes=sum(map(len, stream.said)), down=2, down_bytes=sum(map(len, down)))
    assert counter.cycles == 2


async def test_the_echo_exchanges_two_messages_up_and_one_down() -> None:
    bare = server()
    address = bind(bare, "127.0.0.1:0", insecure=False)
    await bare.start()
    channels = [grpc.aio.insecure_channel(address) for _ in range(3)]
    echo = Echo(channels)
    sent = Traffic(up=60, up_bytes=60 * 25, down=30, down_bytes=30 * 170)
    async with asyncio.timeout(60):
        assert await echo.exchange(sent) > 0
    assert echo.exchanged == Traffic(up=60, up_bytes=60 * 25, down=30, down_bytes=30 * 170)
    await asyncio.gather(*(channel.close() for channel in channels))
    await bare.stop(0)
