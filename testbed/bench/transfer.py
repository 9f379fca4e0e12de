"""A 20 MB model down to 20 devices at once and an update of that size up from each, spool on.

The coordinator and the driver are the real programs; the devices are bare sessions in this process that fetch and
submit with the agent's own code. The baseline moves the same bytes over bare grpc.aio streams between two processes
that treat memory as ours do.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc
import psutil

from device_agent.artifacts import ArtifactStore
from device_agent.transfer import Drivers, Response, Transfer
from testbed.bench.coordinator import check_in, offers
from testbed.bench.figures import Benchmark, Measured, parts
from testbed.bench.loads.echo import CHUNK_BYTES, DOWN, LARGE, UP, bare_server
from testbed.live.processes.programs import Program
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as device
from venn.wire.channel import channel_options, open_channel
from venn.wire.command import run_async
from venn.wire.digest import digest_of
from venn.wire.memory import reuse_freed_memory
from venn.wire.stubs import device_stub
from venn.wire.tokens import load_token

DEVICES = 20
FLOATS = 5_000_000  # of 4 bytes: 20 MB
MODEL_BYTES = 4 * FLOATS
ROUNDS = 4  # the first is not counted
JOB = f"""
import numpy as np

from job_driver import Arrays, Job, Result, Task


def initial(rng: np.random.Generator) -> Arrays:
    return {{"w": rng.random({FLOATS}, dtype=np.float32)}}


def echo(model: Arrays, task: Task) -> Result:
    return Result(model)


job = Job(initial=initial, on_device=echo)
"""


class Laps:
    """Times a phase that ``DEVICES`` tasks begin together, from then until the last of them is done."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._ready, self._done = asyncio.Barrier(DEVICES), asyncio.Barrier(DEVICES)
        self._began = 0.0

    async def __aenter__(self) -> None:
        if await self._ready.wait() == 0:
            self._began = time.perf_counter()

    async def __aexit__(self, *_: object) -> None:
        if await self._done.wait() == 0:
            self.seconds.append(time.perf_counter() - self._began)


class Fleet:
    """Devices that fetch together and submit together. What lies between (a task, its encoding) is not timed."""

    def __init__(self, address: str, token: str) -> None:
        self.down, self.up = Laps(), Laps()
        self.begun = asyncio.Event()
        self._address, self._token = address, token
        self._store = ArtifactStore()  # as in a swarm: bytes travel to each device, and are hashed and kept once

    async def serve(self, number: int) -> None:
        """One device, round after round."""
        reach = asyncio.Event()
        reach.set()
        drivers, seq = Drivers(reach), 1
        async with open_channel(self._address, token=self._token) as channel:
            call = device_stub(channel).Connect()
            await call.write(check_in(f"bench-{number}"))
            async for offer in offers(call):
                self.begun.set()
                await call.write(device.ConnectRequest(seq=seq + 1, accepted=device.Accepted(lease=offer.lease)))
                receipt = await self._transfer(drivers, offer)
                seq += 2
                finished = device.Finished(lease=offer.lease, receipt=receipt)
                await call.write(device.ConnectRequest(seq=seq, finished=finished))

    async def _transfer(self, drivers: Drivers, offer: device.Offer) -> common.Receipt:
        ends_at = asyncio.get_running_loop().time() + offer.remaining.ToTimedelta().total_seconds()
        transfer = Transfer(
            drivers,
            offer.driver_address,
            offer.ticket,
            lease=offer.lease,
            ends_at=ends_at,
            rng=random.Random(offer.lease),
        )
        async with self.down:
            body = await transfer.fetch(offer.task.model, self._store)
        response = Response(body, digest_of(body), 1.0, {})
        async with self.up:
            return await transfer.submit(response, lambda _: None)


async def _ours(folder: Path, say: Callable[[str], None]) -> tuple[Laps, Laps, float]:
    """Seconds down and up, and by how many models the driver's peak memory grew."""
    file = folder / "echo.py"
    file.write_text(JOB)
    async with parts(folder) as running:
        fleet = Fleet(running.address, load_token("device", dir=running.tokens))
        flags = ["--name", "transfer", "--demand", str(DEVICES), "--rounds", str(ROUNDS), "--min-response", "100%"]
        flags += ["--deadline", "300s", "--dir", str(folder / "job")]
        driver = await running.start("driver", ["job", "run", str(file)], flags)
        say(f"{ROUNDS} rounds of {DEVICES} x {MODEL_BYTES / 1e6:.0f} MB down and up")
        async with asyncio.TaskGroup() as group:
            memory = group.create_task(_growth(driver, fleet.begun))
            devices = [group.create_task(fleet.serve(number)) for number in range(DEVICES)]
            if await driver.wait() != 0:
                raise driver.failure("did not finish")
            for task in devices:
                task.cancel()
            grown = await memory
    return fleet.down, fleet.up, grown / MODEL_BYTES


async def _growth(driver: Program, begun: asyncio.Event) -> float:
    """Bytes by which the driver's resident memory grew at most, from when its first device has its first offer."""
    process = psutil.Process(driver.pid)
    await begun.wait()
    least = most = process.memory_info().rss
    with suppress(psutil.Error):
        while driver.running:
            most = max(most, process.memory_info().rss)
            await asyncio.sleep(0.02)
    return most - least


async def _bare() -> tuple[Laps, Laps]:
    """Seconds down and up for the same bytes over bare streams."""
    down, up = Laps(), Laps()
    async with bare_server(LARGE) as address:
        channels = [grpc.aio.insecure_channel(address, options=channel_options()) for _ in range(DEVICES)]
        for _ in range(ROUNDS):
            await asyncio.gather(*(_there_and_back(channel, down, up) for channel in channels))
        for channel in channels:
            await channel.close()
    return down, up


async def _there_and_back(channel: grpc.aio.Channel, down: Laps, up: Laps) -> None:
    fetch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(DOWN)
    async with down:
        async for _ in fetch(str(MODEL_BYTES).encode()):
            pass
    submit: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(UP)
    async with up:
        call, chunk = submit(), bytes(CHUNK_BYTES)
        for start in range(0, MODEL_BYTES, CHUNK_BYTES):
            await call.write(chunk if start + CHUNK_BYTES <= MODEL_BYTES else chunk[: MODEL_BYTES - start])
        await call.done_writing()
        await call


def run(say: Callable[[str], None]) -> Measured:
    """Measure; about 20 seconds."""
    figures: dict[str, float] = {}
    baseline: dict[str, float] = {}

    async def main(folder: Path) -> int:
        down, up, grown = await _ours(folder, say)
        figures.update(_speeds(down, up), driver_growth_models=grown)
        baseline.update(_speeds(*await _bare()))
        return 0

    reuse_freed_memory()  # as an agent does
    with tempfile.TemporaryDirectory(prefix="venn-bench-") as folder:
        run_async(main(Path(folder)))
    return Measured("transfer", figures, baseline, figures["transfer_mb_per_s"] / baseline["transfer_mb_per_s"])


def _speeds(down: Laps, up: Laps) -> dict[str, float]:
    """MB/s, both ways together and each, of the median round; the first is not counted."""
    megabytes = DEVICES * MODEL_BYTES / 1e6
    rounds = list(zip(down.seconds[1:], up.seconds[1:], strict=True))
    return {
        "transfer_mb_per_s": 2 * megabytes / statistics.median(a + b for a, b in rounds),
        "down_mb_per_s": megabytes / statistics.median(a for a, _ in rounds),
        "up_mb_per_s": megabytes / statistics.median(b for _, b in rounds),
    }


BENCHMARK = Benchmark("transfer", "models down and updates up, against a bare byte stream", run)
