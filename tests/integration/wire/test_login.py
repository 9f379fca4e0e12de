"""A channel that is closed while its first call still has to prove who calls."""

import asyncio

import grpc
import pytest

from tests.integration.service.peers import KEYS, world
from venn.wire.calls import device_stub
from venn.wire.login import Login


@pytest.mark.parametrize("turns", range(8))
async def test_a_channel_that_is_closed_before_its_call_has_begun_ends_the_call(turns: int) -> None:
    async with world() as made:
        channel = Login(made.address, KEYS.device, "device").channel()
        reading = asyncio.create_task(device_stub(channel).Connect().read())
        for _ in range(turns):
            await asyncio.sleep(0)
        await channel.close()
        await asyncio.wait({reading})
        assert reading.cancelled() or isinstance(reading.exception(), grpc.aio.AioRpcError | grpc.aio.UsageError)
