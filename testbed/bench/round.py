"""A no-op round with a 10 kB model, new in each, on four warm devices, from its opening to its close.

The coordinator, the driver and four agents, each with its worker, are the real programs. The baseline moves the same
bytes to and from four clients over bare grpc.aio streams, in turn with ours.
"""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import grpc

from testbed.bench.figures import Benchmark, Measured, Parts, parts
from testbed.bench.loads.echo import DOWN, UP, bare_server
from venn.wire.channel import channel_options
from venn.wire.command import run_async
from venn.wire.errors import PeerError

DEVICES = 4
MODEL_BYTES = 10_000
ROUNDS = 40  # in each repetition
WARM_ROUNDS = 10
REPETITIONS = 5
JOB = """
import numpy as np

from job_driver import Arrays, Job, Result, Task


def initial(rng: np.random.Generator) -> Arrays:
    return {{"w": rng.random({floats}, dtype=np.float32)}}


def nothing(model: Arrays, task: Task) -> Result:
    return Result({{"w": model["w"] + 1}})  # another model in each round: a device fetches none that it has


job = Job(initial=initial, on_device=nothing)
"""


async def _both(folder: Path, say: Callable[[str], None]) -> list[tuple[list[float], list[float]]]:
    """Milliseconds of each warm round, and for the same bytes over bare streams, in turn."""
    file = folder / "noop.py"
    file.write_text(JOB.format(floats=MODEL_BYTES // 4))
    pairs = []
    async with parts(folder) as running, bare_server() as address:
        for number in range(DEVICES):
            name = f"bench-{number}"
            flags = ["--name", name, "--allow-code", str(file), "--dir", str(folder / name)]
            await running.start(name, ["agent"], flags)
        for number in range(1, REPETITIONS + 1):
            pairs.append((await _ours(running, file, folder / f"job-{number}", number), await _bare(address)))
            ours, bare = map(statistics.median, pairs[-1])
            say(f"{number} of {REPETITIONS}: a round {ours:.1f} ms, its bytes over bare streams {bare:.1f} ms")
    return pairs


async def _ours(running: Parts, file: Path, folder: Path, seed: int) -> list[float]:
    """Milliseconds of each warm round; no two seeds have a model in common."""
    flags = ["--name", folder.name, "--demand", str(DEVICES), "--min-response", "100%", "--deadline", "60s"]
    flags += ["--rounds", str(ROUNDS), "--dir", str(folder), "--seed", str(seed)]
    driver = await running.start(f"driver-{folder.name}", ["job", "run", str(file)], flags)
    async with asyncio.timeout(120):
        if await driver.wait() != 0:
            raise driver.failure("did not finish")
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    closed = [line for line in lines if line["status"] == "closed"]
    if len(closed) != ROUNDS:
        raise PeerError("ROUNDS_MISSING", f"{len(closed)} of {ROUNDS} rounds closed", where="venn bench round")
    return [(line["ended_at"] - line["opened_at"]) * 1000 for line in closed[WARM_ROUNDS:]]


async def _bare(address: str) -> list[float]:
    """Milliseconds for the same bytes over bare streams."""
    took = []
    channels = [grpc.aio.insecure_channel(address, options=channel_options()) for _ in range(DEVICES)]
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await asyncio.gather(*(_there_and_back(channel) for channel in channels))
        took.append((time.perf_counter() - started) * 1000)
    for channel in channels:
        await channel.close()
    return took[WARM_ROUNDS:]


async def _there_and_back(channel: grpc.aio.Channel) -> None:
    down: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(DOWN)
    async for _ in down(str(MODEL_BYTES).encode()):
        pass
    up: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(UP)
    call = up()
    await call.write(bytes(MODEL_BYTES))
    await call.done_writing()
    await call


def run(say: Callable[[str], None]) -> Measured:
    """Measure; about 20 seconds."""
    pairs: list[tuple[list[float], list[float]]] = []

    async def main(folder: Path) -> int:
        pairs.extend(await _both(folder, say))
        return 0

    with tempfile.TemporaryDirectory(prefix="venn-bench-") as folder:
        run_async(main(Path(folder)))
    return measured(pairs)


def measured(pairs: Sequence[tuple[list[float], list[float]]]) -> Measured:
    """``pairs``, one for each repetition: milliseconds of our rounds, and of the bare ones beside them."""
    ours, bare = (sorted(chain.from_iterable(several)) for several in zip(*pairs, strict=True))
    return Measured(
        name="round",
        figures={"round_ms": statistics.median(ours), "round_p95_ms": ours[int(0.95 * len(ours))]},
        baseline={"round_ms": statistics.median(bare), "round_p95_ms": bare[int(0.95 * len(bare))]},
        ratio=statistics.median(statistics.median(base) / statistics.median(mine) for mine, base in pairs),
    )


BENCHMARK = Benchmark("round", "one empty round, from start to close", run)
