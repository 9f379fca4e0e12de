"""The barest device that a coordinator accepts: a stream that checks in."""

import secrets
from collections.abc import AsyncIterable, AsyncIterator

from venn.v1 import device_pb2 as device
from venn.wire.versions import this_version


def check_in(name: str) -> device.ConnectRequest:
    frame = device.CheckIn(device=name, instance=secrets.token_bytes(16), version=this_version(), interval=1)
    frame.capabilities.numbers["cpu"] = 4.0
    frame.capabilities.numbers["memory"] = 4e9
    return device.ConnectRequest(seq=1, check_in=frame)


async def offers(messages: AsyncIterable[device.ConnectResponse]) -> AsyncIterator[device.Offer]:
    """The offers among what comes down a stream, those in ``more`` included."""
    async for message in messages:
        for frame in (message, *message.more):
            if frame.WhichOneof("frame") == "offer":
                yield frame.offer
