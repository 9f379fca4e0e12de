"""Strangers: one on the wire who sends again what was sent before, and noise; and a device that lies."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc

from testbed.chaos.channel import Channel
from testbed.chaos.process import Process
from testbed.chaos.programs import Surroundings, login
from venn.v1 import common_pb2, device_pb2
from venn.wire.admission import this_version
from venn.wire.keys import Role

CONNECT, DRIVE = "/venn.v1.DeviceService/Connect", "/venn.v1.JobService/Drive"
TASKS = ("/venn.v1.TaskService/Submit", "/venn.v1.TaskService/Exchange")
PAUSE_S = 2.0


async def replay(process: Process, around: Surroundings) -> None:
    """Send what others have sent before, on streams of one's own, until killed."""
    seen = process.network.seen
    while True:
        drivers = [address for address in process.network.listening if address != around.coordinator]
        places: list[tuple[str, str, Role | None]]
        places = [(CONNECT, around.coordinator, "device"), (DRIVE, around.coordinator, "job")]
        places += [(method, address, None) for method in TASKS for address in drivers[-3:]]
        method, address, role = process.rng.choice(places)
        messages = list(seen.get(method, ()))
        if messages:
            places_of = [process.rng.randrange(len(messages)) for _ in range(process.rng.randint(1, 4))]
            if process.rng.random() < 0.5:
                places_of.sort()
            chosen = [messages[number] for number in places_of]
            if process.rng.random() < 0.3:
                chosen.append(process.rng.randbytes(process.rng.randint(0, 60)))
            plain = Channel(process.network, process.machine, address)
            await _say(plain if role is None else login(role, around).channel(), method, chosen)
        await asyncio.sleep(PAUSE_S * process.rng.random())


async def _say(channel: Any, method: str, messages: list[bytes]) -> None:
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
        call = channel.stream_stream(method)()
        async with asyncio.timeout(PAUSE_S):
            for message in messages:
                await call.write(message)
                await call.read()
    await channel.close()


async def lie(process: Process, around: Surroundings) -> None:
    """Take leases, and say of each that its response counts, without one; until killed."""
    while True:
        channel = login("device", around).channel()
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            call = channel.stream_stream(
                CONNECT,
                device_pb2.ConnectRequest.SerializeToString,
                device_pb2.ConnectResponse.FromString,
            )()
            await _session(process, call.write, call.read)
        await channel.close()
        await asyncio.sleep(PAUSE_S)


async def _session(
    process: Process,
    write: Callable[[device_pb2.ConnectRequest], Awaitable[None]],
    read: Callable[[], Awaitable[object]],
) -> None:
    check_in = device_pb2.CheckIn(device="liar", instance=process.rng.randbytes(16), version=this_version(), interval=1)
    check_in.capabilities.numbers["size"] = 8.0
    await write(device_pb2.ConnectRequest(seq=1, check_in=check_in))
    said = 1
    while isinstance(message := await read(), device_pb2.ConnectResponse):
        for frame in (message, *message.more):
            if frame.WhichOneof("frame") != "offer":
                continue
            offer = frame.offer
            receipt = common_pb2.Receipt(
                lease=offer.lease,
                attempt=offer.attempt,
                outcome=common_pb2.OUTCOME_COUNTED,
                digest=process.rng.randbytes(32),
            )
            for answer in (
                device_pb2.ConnectRequest(accepted=device_pb2.Accepted(lease=offer.lease)),
                device_pb2.ConnectRequest(finished=device_pb2.Finished(lease=offer.lease, receipt=receipt)),
            ):
                said += 1
                answer.seq = said
                await write(answer)
