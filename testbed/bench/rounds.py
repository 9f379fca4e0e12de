"""``venn bench round`` and ``venn bench transfer``: rounds of a real coordinator and driver, against bare streams.

``round``: a no-op round with a 10 kB model, new in each, on four warm devices, from its opening to its close. The four
agents, each with its worker, are the real programs. The baseline moves the same bytes to and from four clients over
bare grpc.aio streams, in turn with ours.

``transfer``: a 20 MB model down to 20 devices at once and an update of that size up from each, spool on. The devices
are bare sessions in this process that fetch and submit with the agent's own code. The baseline moves the same bytes
over bare grpc.aio streams between two processes that treat memory as ours do.
"""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from statistics import median

import grpc
import psutil

from device_agent.artifacts import ArtifactStore
from device_agent.transfer import Drivers, Response, Transfer
from testbed.bench.bare import LARGE, bare_channels, move_down, move_up
from testbed.bench.coordinator import check_in, offers
from testbed.bench.figures import Measured, Parts, Say, in_folder, parts
from testbed.live.processes.programs import Program
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as device
from venn.wire.calls import device_stub
from venn.wire.chunks import digest_of
from venn.wire.errors import PeerError
from venn.wire.login import Login, log_in
from venn.wire.process import reuse_freed_memory

JOB = """
import numpy as np

from job_driver import Arrays, Job, Result, Task


def initial(rng: np.random.Generator) -> Arrays:
    return {{"w": rng.random({floats}, dtype=np.float32)}}


def on_device(model: Arrays, task: Task) -> Result:
    return Result({{"w": {result}}})


job = Job(initial=initial, on_device=on_device)
"""
DEVICES = 4
MODEL_BYTES = 10_000
ROUNDS = 40  # in each repetition
WARM_ROUNDS = 10
REPETITIONS = 5
LARGE_DEVICES = 20
LARGE_BYTES = 20_000_000
LARGE_ROUNDS = 4  # the first is not counted


def _job_file(folder: Path, model_bytes: int, result: str) -> Path:
    file = folder / "noop.py"
    file.write_text(JOB.format(floats=model_bytes // 4, result=result))
    return file


def run_round(say: Say) -> Measured:
    """Measure; about 20 seconds."""
    return measured(in_folder(lambda folder: _both(folder, say)))


async def _both(folder: Path, say: Say) -> list[tuple[list[float], list[float]]]:
    """Milliseconds of each warm round, and for the same bytes over bare streams, in turn."""
    # Another model in each round: a device fetches none that it has.
    file, pairs = _job_file(folder, MODEL_BYTES, 'model["w"] + 1'), []
    async with parts(folder) as running, bare_channels(DEVICES) as channels:
        for number in range(DEVICES):
            name = f"bench-{number}"
            flags = ["--name", name, "--allow-code", str(file), "--dir", str(folder / name)]
            await running.start(name, ["agent"], flags)
        for number in range(1, REPETITIONS + 1):
            pairs.append((await _ours(running, file, folder / f"job-{number}", number), await _bare(channels)))
            ours, bare = map(median, pairs[-1])
            say(f"{number} of {REPETITIONS}: a round {ours:.1f} ms, its bytes over bare streams {bare:.1f} ms")
    return pairs


async def _ours(running: Parts, file: Path, folder: Path, seed: int) -> list[float]:
    """Milliseconds of each warm round; no two seeds have a model in common."""
    flags = {"demand": DEVICES, "deadline": "60s", "rounds": ROUNDS, "seed": seed}
    driver = await running.start_driver(file, folder, flags)
    async with asyncio.timeout(120):
        if await driver.wait() != 0:
            raise driver.failure("did not finish")
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    closed = [line for line in lines if line["status"] == "closed"]
    if len(closed) != ROUNDS:
        raise PeerError("ROUNDS_MISSING", f"{len(closed)} of {ROUNDS} rounds closed", where="venn bench round")
    return [(line["ended_at"] - line["opened_at"]) * 1000 for line in closed[WARM_ROUNDS:]]


async def _bare(channels: Sequence[grpc.aio.Channel]) -> list[float]:
    """Milliseconds for the same bytes over bare streams."""

    async def there_and_back(channel: grpc.aio.Channel) -> None:
        await move_down(channel, MODEL_BYTES)
        await move_up(channel, MODEL_BYTES)

    took = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await asyncio.gather(*map(there_and_back, channels))
        took.append((time.perf_counter() - started) * 1000)
    return took[WARM_ROUNDS:]


def measured(pairs: Sequence[tuple[list[float], list[float]]]) -> Measured:
    """``pairs``, one for each repetition: milliseconds of our rounds, and of the bare ones beside them."""
    figures, baseline = (
        {"round_ms": median(both), "round_p95_ms": both[int(0.95 * len(both))]}
        for both in (sorted(chain.from_iterable(several)) for several in zip(*pairs, strict=True))
    )
    return Measured("round", figures, baseline, median(median(bare) / median(ours) for ours, bare in pairs))


class Laps:
    """Times a phase that all devices begin together, from then until the last of them is done."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._ready, self._done = asyncio.Barrier(LARGE_DEVICES), asyncio.Barrier(LARGE_DEVICES)
        self._began = 0.0

    async def __aenter__(self) -> None:
        if await self._ready.wait() == 0:
            self._began = time.perf_counter()

    async def __aexit__(self, *_: object) -> None:
        if await self._done.wait() == 0:
            self.seconds.append(time.perf_counter() - self._began)


class Fleet:
    """Devices that fetch together and submit together. What lies between (a task, its encoding) is not timed."""

    def __init__(self, login: Login) -> None:
        self.down, self.up = Laps(), Laps()
        self.begun = asyncio.Event()
        self._login = login
        self._store = ArtifactStore()  # as in a swarm: bytes travel to each device, and are hashed and kept once

    async def serve(self, number: int) -> None:
        """One device, round after round."""
        reach = asyncio.Event()
        reach.set()
        drivers, seq = Drivers(reach, sign=self._login.sign_ticket), 1
        async with self._login.channel() as channel:
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
        transfer = Transfer(
            drivers,
            offer.driver_address,
            offer.ticket,
            lease=offer.lease,
            ends_at=asyncio.get_running_loop().time() + offer.remaining.ToTimedelta().total_seconds(),
            rng=random.Random(offer.lease),
        )
        async with self.down:
            body = await transfer.fetch(offer.task.model, self._store)
        response = Response(body, digest_of(body), 1.0, {})
        async with self.up:
            return await transfer.submit(response, lambda _: None)


def run_transfer(say: Say) -> Measured:
    """Measure; about 20 seconds."""
    reuse_freed_memory()  # as an agent does
    figures, baseline = in_folder(lambda folder: _transfers(folder, say))
    return Measured("transfer", figures, baseline, figures["transfer_mb_per_s"] / baseline["transfer_mb_per_s"])


async def _transfers(folder: Path, say: Say) -> tuple[dict[str, float], dict[str, float]]:
    file = _job_file(folder, LARGE_BYTES, 'model["w"]')
    async with parts(folder) as running:
        fleet = Fleet(log_in("device", running.address, running.keys))
        flags = {"demand": LARGE_DEVICES, "rounds": LARGE_ROUNDS, "deadline": "300s"}
        driver = await running.start_driver(file, folder / "transfer", flags)
        say(f"{LARGE_ROUNDS} rounds of {LARGE_DEVICES} x {LARGE_BYTES / 1e6:.0f} MB down and up")
        async with asyncio.TaskGroup() as group:
            memory = group.create_task(_growth(driver, fleet.begun))
            devices = [group.create_task(fleet.serve(number)) for number in range(LARGE_DEVICES)]
            if await driver.wait() != 0:
                raise driver.failure("did not finish")
            for task in devices:
                task.cancel()
            grown = await memory
    down, up = Laps(), Laps()

    async def there_and_back(channel: grpc.aio.Channel) -> None:
        async with down:
            await move_down(channel, LARGE_BYTES)
        async with up:
            await move_up(channel, LARGE_BYTES)

    async with bare_channels(LARGE_DEVICES, LARGE) as channels:
        for _ in range(LARGE_ROUNDS):
            await asyncio.gather(*map(there_and_back, channels))
    return _speeds(fleet.down, fleet.up) | {"driver_growth_models": grown / LARGE_BYTES}, _speeds(down, up)


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


def _speeds(down: Laps, up: Laps) -> dict[str, float]:
    """MB/s, both ways together and each, of the median round; the first is not counted."""
    megabytes = LARGE_DEVICES * LARGE_BYTES / 1e6
    rounds = list(zip(down.seconds[1:], up.seconds[1:], strict=True))
    return {
        "transfer_mb_per_s": 2 * megabytes / median(a + b for a, b in rounds),
        "down_mb_per_s": megabytes / median(a for a, _ in rounds),
        "up_mb_per_s": megabytes / median(b for _, b in rounds),
    }
