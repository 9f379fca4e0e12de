"""The pool of processes that simulate the cells of a comparison.

What the process of a comparison and those that simulate for it say to each other: one JSON object per line.

Runs cells in processes of their own, as many at once as asked for.

A process gets one order at a time, and by preference one of the world that it has made already. Cancelled, all of them
are killed: a cell's file is whole or absent, so nothing is lost but what was being simulated.
"""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

from testbed.compare.plan import Asked, cell_key, world_key
from testbed.report.words import slug
from testbed.runfolder.jsonlines import Row, integer, number, text
from venn.wire.errors import ExitCode, PeerError, VennError


@dataclass(frozen=True, slots=True)
class Order:
    """One cell to be simulated."""

    scenario: str  # a file: every override is made in it already
    name: str  # of the scenario
    policy: str
    seed: int
    world_key: str
    key: str  # of the cell
    world: str  # the file for what is true of the world
    out: str  # the file for the cell

    def line(self) -> bytes:
        """The order as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


def read_order(line: bytes) -> Order:
    """Reads an order from a line."""
    return Order(**json.loads(line))


def order_for(asked: Asked, scenario: Path) -> Order:
    """Makes the order for a run; ``scenario`` is the file that was made of its workload."""
    world = world_key(asked.workload, asked.seed)
    key = cell_key(world, asked.policy)
    return Order(
        scenario=str(scenario),
        name=asked.workload.name,
        policy=asked.policy,
        seed=asked.seed,
        world_key=world,
        key=key,
        world=str(asked.folder / f"world-{world}.json"),
        out=str(asked.folder / f"{slug(asked.policy)}-{key}.json"),
    )


WORKER = (sys.executable, "-m", "testbed.compare.worker")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

Done = Callable[[Order, float], None]  # a cell is there, after so many seconds
Part = Callable[[Order, float, bool], None]  # so much of a cell is done, 0 to 1; whether it compiles first


@dataclass(slots=True)
class Queue:
    """Orders that nobody has taken yet."""

    waiting: list[Order]  # in the order in which they should be done
    busy: Counter[str] = field(default_factory=Counter)  # processes that work on a world, by its key

    def take(self, world: str) -> Order | None:
        """Takes the next order for a process whose last one was of ``world``: one of that world, else the first of a
        world that nobody works on, else the first.
        """
        own = (order for order in self.waiting if order.world_key == world)
        fresh = (order for order in self.waiting if not self.busy[order.world_key])
        order = next(own, None) or next(fresh, None) or next(iter(self.waiting), None)
        if order is not None:
            self.waiting.remove(order)
            self.busy[order.world_key] += 1
        return order

    def release(self, order: Order) -> None:
        """Note that an order is done."""
        self.busy[order.world_key] -= 1


async def run_orders(
    orders: Sequence[Order], processes: int, done: Done, part: Part, *, log: Path, worker: Sequence[str] = WORKER
) -> None:
    """Run them all. ``log`` takes what the processes write on stderr. Raises VennError of the first that fails."""
    queue = Queue(list(orders))
    with _logged(log) as file:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(processes, len(orders))):
                    group.create_task(_work(queue, done, part, file.fileno(), worker))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None


@contextmanager
def _logged(log: Path) -> Iterator[BinaryIO]:
    """The log, open; gone afterwards if nothing was written."""
    try:
        with log.open("ab") as file:
            yield file
    finally:
        if log.is_file() and not log.stat().st_size:
            log.unlink()


async def _work(queue: Queue, done: Done, part: Part, log: int, worker: Sequence[str]) -> None:
    """One process, from its first order to the last one that there is."""
    process = await asyncio.create_subprocess_exec(
        *worker,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
        env=os.environ | ONE_THREAD,
        start_new_session=True,  # Ctrl-C is for us
    )
    try:
        world = ""
        while (order := queue.take(world)) is not None:
            started = time.monotonic()
            await _ask(process, order, part)
            queue.release(order)
            world = order.world_key
            done(order, time.monotonic() - started)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())


async def _ask(process: asyncio.subprocess.Process, order: Order, part: Part) -> None:
    """Have an order carried out. Raises what the cell raised, or PeerError if the process died."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ConnectionError):  # it died: the answer that is missing says so
        process.stdin.write(order.line())
        await process.stdin.drain()
    answer: Row = {"part": 0.0}
    while "part" in answer:
        line = await process.stdout.readline()
        answer = json.loads(line) if line else {}
        if "part" in answer:
            part(order, number(answer, "part"), "compiling" in answer)
    if not line:
        where = f"{order.name} under {order.policy}, seed {order.seed}"
        code = await process.wait()
        message = f"the process that simulated it ended with {code}"
        raise PeerError("CELL_DIED", message, where=where, fix="see worker.log; with less memory, give fewer --jobs")
    said = answer.get("error")
    if isinstance(said, dict):
        failure = VennError(
            text(said, "reason"), text(said, "message"), where=text(said, "where"), fix=text(said, "fix")
        )
        failure.exit_code = ExitCode(integer(answer, "exit_code"))
        raise failure
