"""Warm workers: as many tasks at once as the pool is wide, each job's code in processes of its own."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress

from device_agent.failures import TaskFailed
from device_agent.runners.process import Output, Work, WorkerProcess
from device_agent.throttle import NOTHING, DutyCycle, Throttle
from venn.v1 import common_pb2

IDLE_KEPT = 4  # besides one per slot: processes of other jobs that stay warm


class WorkerPool:
    """Runs ``size`` tasks at once; the others wait in the order they came. ``nice``: how far the workers step back."""

    def __init__(self, size: int, *, nice: int = 5, throttle: Throttle = NOTHING) -> None:
        self._slots = asyncio.Semaphore(size)
        self._most_idle = size + IDLE_KEPT
        self._nice, self._throttle = nice, throttle
        self._duty = None if throttle.duty_cores is None else DutyCycle(throttle.duty_cores)
        # Whether anybody counts how often the processor limit was used up; else no task asks again.
        self._counted = self._duty is not None or throttle.held_back() is not None
        self._idle: list[WorkerProcess] = []  # the last used at the end
        self._background: set[asyncio.Task[None]] = set()

    async def warm(self) -> None:
        """Start a worker ahead of the first task: starting one takes a good part of a second. Raises OSError."""
        self._idle.insert(0, await self._start())

    async def run(self, work: Work) -> Output:
        """Run a task. Raises TaskFailed or LeaseOver. If cancelled, the work has stopped when this returns."""
        async with self._slots:
            worker = await self._take(work.code_digest)
            with self._returned(worker):
                return await worker.run(work, self._held_back if self._counted else None)

    async def close(self) -> None:
        """End all workers; they are gone when this returns."""
        if self._background:
            await asyncio.wait(self._background)
        idle, self._idle = self._idle, []
        for worker in idle:
            await worker.close()
        if self._duty is not None:
            self._duty.close()

    def _held_back(self) -> int:
        """The number of times that the processor limit was used up so far."""
        if self._duty is not None:
            return self._duty.stops
        return self._throttle.held_back() or 0

    async def _start(self) -> WorkerProcess:
        """Start a worker, and slow it down once it is warm: its start is no part of any task. Raises OSError."""
        worker = await WorkerProcess.start(self._nice, self._throttle)
        try:
            self._throttle.slow_down(worker.pid)
        except OSError:
            await worker.close()
            raise
        if self._duty is not None:
            self._duty.add(worker.pid)
        return worker

    async def _take(self, code_digest: bytes) -> WorkerProcess:
        for worker in reversed(self._idle):
            if worker.fits(code_digest) and worker.alive:
                self._idle.remove(worker)
                return worker
        try:
            return await self._start()
        except OSError as error:
            message = f"no worker process could be started: {error}"
            raise TaskFailed(common_pb2.PHASE_IMPORT, common_pb2.FAILURE_REASON_TASK_CRASHED, message) from error

    @contextmanager
    def _returned(self, worker: WorkerProcess) -> Iterator[None]:
        try:
            yield
        finally:
            if worker.alive:
                self._idle.append(worker)
            else:
                self._later(self._replace())
            if len(self._idle) > self._most_idle:
                self._later(self._idle.pop(0).close())

    async def _replace(self) -> None:
        """Start a worker in place of one that was killed, before it is needed; if that fails, its next task does."""
        with suppress(OSError):
            await self.warm()

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
