"""A no-op round with a 10 kB model on four warm devices, from its opening to its close.

The coordinator, the driver and four agents, each with its worker, are the real programs. The baseline moves the same
bytes to and from four clients over bare grpc.aio streams.
"""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import grpc

from testbed.bench.echo import DOWN, UP, bare_server
from testbed.bench.figures import Benchmark, Measured
from testbed.bench.parts import parts
from venn.wire.channel import channel_options
from venn.wire.command import run_async
from venn.wire.errors import PeerError

DEVICES = 4
MODEL_BYTES = 10_000
ROUNDS = 100
WARM_ROUNDS = 10
JOB = """
import numpy as np

from job_driver import Arrays, Job, Result, Task


def initial(rng: np.random.Generator) -> Arrays:
    return {{"w": np.zeros({floats}, dtype=np.float32)}}


def nothing(model: Arrays, task: Task) -> Result:
    return Result(model)


job = Job(initial=initial, on_device=nothing)
"""


async def _ours(folder: Path, say: Callable[[str], None]) -> list[float]:
    """Milliseconds of each warm round."""
    file = folder / "noop.py"
    file.write_text(JOB.format(floats=MODEL_BYTES // 4))
    async with parts(folder) as running:
        for number in range(DEVICES):
            name = f"bench-{number}"
            flags = ["--name", name, "--allow-code", str(file), "--dir", str(folder / name)]
            await running.start(name, ["agent"], flags)
        flags = ["--name", "noop", "--demand", str(DEVICES), "--min-response", "100%", "--deadline", "60s"]
        flags += ["--rounds", str(ROUNDS), "--dir", str(folder / "job")]
        driver = await running.start("driver", ["job", "run", str(file)], flags)
        say(f"{ROUNDS} rounds on {DEVICES} agents")
        async with asyncio.timeout(120):
            if await driver.wait() != 0:
                raise driver.failure("did not finish")
    lines = [json.loads(line) for line in (folder / "job" / "rounds.jsonl").read_text().splitlines()]
    closed = [line for line in lines if line["status"] == "closed"]
    if len(closed) != ROUNDS:
        raise PeerError("ROUNDS_MISSING", f"{len(closed)} of {ROUNDS} rounds closed", where="venn bench round")
    return [(line["ended_at"] - line["opened_at"]) * 1000 for line in closed[WARM_ROUNDS:]]


async def _bare() -> list[float]:
    """Milliseconds for the same bytes over bare streams."""
    took = []
    async with bare_server() as address:
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
    found: list[tuple[list[float], list[float]]] = []

    async def main(folder: Path) -> int:
        found.append((await _ours(folder, say), await _bare()))
        return 0

    with tempfile.TemporaryDirectory(prefix="venn-bench-") as folder:
        run_async(main(Path(folder)))
    ours, bare = found[0]
    percentile = int(0.95 * len(ours))
    return Measured(
        name="round",
        figures={"round_ms": statistics.median(ours), "round_p95_ms": sorted(ours)[percentile]},
        baseline={"round_ms": statistics.median(bare), "round_p95_ms": sorted(bare)[percentile]},
        ratio=statistics.median(bare) / statistics.median(ours),
    )


BENCHMARK = Benchmark("round", "one empty round, from start to close", run)
