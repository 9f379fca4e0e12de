"""The worker processes that run job code for an agent: a pool of warm ones, each job's code in processes of its own."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from device_agent.actions import TaskFailed
from device_agent.answers import Output
from device_agent.confine.inforce import InForce
from device_agent.confine.orders import Means
from device_agent.confine.settings import Confinement
from device_agent.confine.users import Users
from device_agent.throttle import NOTHING, DutyCycle, Throttle
from device_agent.worker_process import Work, WorkerProcess
from venn.v1 import common_pb2

IDLE_KEPT = 4  # besides one per slot: processes of other jobs that stay warm


class WorkerPool:
    """Runs ``size`` tasks at once; the others wait in the order they came. ``nice``: how far the workers step back.

    ``told`` is called with what holds each worker that has started.
    """

    def __init__(
        self,
        size: int,
        *,
        nice: int = 5,
        throttle: Throttle = NOTHING,
        confinement: Confinement | None = None,
        told: Callable[[InForce], None] = lambda in_force: None,
    ) -> None:
        self._slots = asyncio.Semaphore(size)
        self._most_idle = size + IDLE_KEPT
        self._nice, self._throttle = nice, throttle
        self._confinement = (confinement or Confinement()).for_workers(size)
        self._told = told
        self._users = Users()
        self._duty = None if throttle.duty_cores is None else DutyCycle(throttle.duty_cores)
        # Whether anybody counts how often the processor limit was used up; else no task asks again.
        self._counted = self._duty is not None or throttle.held_back() is not None
        self._idle: list[WorkerProcess] = []  # the last used at the end
        self._background: set[asyncio.Task[None]] = set()

    async def warm(self, data: tuple[Path, ...] = ()) -> None:
        """Start a worker for a job with this data ahead of its first task: starting one takes a good part of a second.
        Raises OSError.
        """
        self._idle.insert(0, await self._start(data))

    async def run(self, work: Work) -> Output:
        """Run a task. Raises TaskFailed or LeaseOver. If cancelled, the work has stopped when this returns."""
        async with self._slots:
            worker = await self._take(work)
            with self._returned(worker):
                return await worker.run(work, self._held_back if self._counted else None)

    async def close(self) -> None:
        """End all workers; they are gone when this returns."""
        if self._background:
            await asyncio.wait(self._background)
        idle, self._idle = self._idle, []
        for worker in idle:
            await self._end(worker)
        if self._duty is not None:
            self._duty.close()

    def _held_back(self) -> int:
        """The number of times that the processor limit was used up so far."""
        if self._duty is not None:
            return self._duty.stops
        return self._throttle.held_back() or 0

    async def _start(self, data: tuple[Path, ...]) -> WorkerProcess:
        """Start a worker, and slow it down once it is warm: its start is no part of any task. Raises OSError."""
        user, why = self._users.take() if self._confinement.uses(Means.USER) else (None, "not wanted")
        orders = self._confinement.orders(self._nice, data, user, why, self._throttle.memory_bytes)
        try:
            worker = await WorkerProcess.start(orders, self._throttle, data)
        except BaseException:
            self._users.give_back(user)
            raise
        try:
            self._confinement.check(worker.in_force)
            self._throttle.slow_down(worker.pid)
        except OSError:
            await self._end(worker)
            raise
        if self._duty is not None:
            self._duty.add(worker.pid)
        self._told(worker.in_force)
        return worker

    async def _end(self, worker: WorkerProcess) -> None:
        await worker.close()
        self._users.give_back(worker.user)

    async def _take(self, work: Work) -> WorkerProcess:
        for worker in reversed(self._idle):
            if worker.fits(work) and worker.alive:
                self._idle.remove(worker)
                return worker
        try:
            return await self._start(work.reads)
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
                self._later(self._replace(worker))
            if len(self._idle) > self._most_idle:
                self._later(self._end(self._idle.pop(0)))

    async def _replace(self, lost: WorkerProcess) -> None:
        """Start a worker in place of one that was killed, before it is needed; if that fails, its next task does."""
        await self._end(lost)
        with suppress(OSError):
            await self.warm(lost.data)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
