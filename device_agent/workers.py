"""The worker processes that run job code for an agent: a pool of warm ones, each job's code in processes of its own."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from device_agent import pipes
from device_agent.actions import LeaseOver, TaskFailed
from device_agent.pipes import Header
from device_agent.throttle import NOTHING, DutyCycle, Throttle
from venn.v1 import common_pb2
from venn.wire import RUN_MARK
from venn.wire.text import printable

TAIL_BYTES = 8192  # of output that are kept
TAIL_LINES, TAIL_CHARACTERS = 20, 4000  # of them told
STOP_WITHIN_S = 0.5  # a cancelled task; else its process is killed
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")  # what may start threads of its own
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in LIBRARIES} | {"VECLIB_MAXIMUM_THREADS": "1"}
CRASHED = (common_pb2.PHASE_ON_DEVICE, common_pb2.FAILURE_REASON_TASK_CRASHED)
PHASES = {"import": common_pb2.PHASE_IMPORT, "on_device": common_pb2.PHASE_ON_DEVICE}
IDLE_KEPT = 4  # besides one per slot: processes of other jobs that stay warm
GONE = (asyncio.IncompleteReadError, pipes.BrokenFrame, ConnectionError)


@dataclass(frozen=True, slots=True)
class Work:
    """One task, as a worker needs it. ``ends_at`` is in the loop's time."""

    code: bytes | None  # the bundle; None: the synthetic task
    code_digest: bytes
    model: bytes
    model_digest: bytes
    params: dict[str, bool | int | float | str]
    data: str  # a path
    device: str
    round: int
    attempt: int
    seed: int
    ends_at: float
    progress: Callable[[float], None] = field(compare=False)
    grace_s: float = 0.0  # the lease may end so much later: until then the task is not stopped for it


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a task."""

    body: bytes  # encoded arrays
    digest: bytes
    weight: float
    metrics: dict[str, float]
    compute_s: float  # wall time of the job's function
    compute_cpu_s: float  # processor time
    held_back: int  # times that the processor limit was used up meanwhile


class NotStarted(OSError):
    """The error of a worker process that ended before it was ready."""


class WorkerProcess:
    """A worker process, in a session of its own (Ctrl-C reaches it through the agent), without the agent's secrets.

    What the job's code starts is in its process group, and is killed with it, or when it ends by itself. The group is
    signalled only while the worker lives or has just ended: later its number may be another's.
    """

    def __init__(self, process: asyncio.subprocess.Process, output: int) -> None:
        self._process = process
        self._output = output  # what the job prints: read end, not blocking
        self._tail = bytearray()
        self._code: bytes | None = None  # digest of the code that it holds; None: still fresh
        self._model = b""
        self._task = 0
        os.set_blocking(output, False)
        asyncio.get_running_loop().add_reader(output, self._drain)
        self._gone = asyncio.create_task(self._end_group())  # done when the worker has ended, and all in its group

    @classmethod
    async def start(cls, nice: int, throttle: Throttle = NOTHING) -> "WorkerProcess":
        """Start the process. Raises OSError. If cancelled, its process has ended when this returns."""
        output, theirs = os.pipe()
        spawning = asyncio.create_task(_spawn(nice, throttle, theirs))
        cancelled = await _settled(spawning)  # cut short here, nobody would know the process, to end it
        os.close(theirs)
        if spawning.exception() is not None:
            os.close(output)
        worker = cls(spawning.result(), output)
        try:
            if cancelled:
                raise asyncio.CancelledError
            await worker._receive()
        except GONE as error:
            await worker.close()
            raise NotStarted(worker.tail() or worker._how()) from error
        except BaseException:
            await _settled(asyncio.create_task(worker.close()))
            raise
        return worker

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def fits(self, code_digest: bytes) -> bool:
        """Whether the worker holds this code, or none yet: one job's code never runs where another's has been."""
        return self._code is None or self._code == code_digest

    async def run(self, work: Work, held_back: Callable[[], int] | None = None) -> Output:
        """Run a task. ``held_back`` counts how often the processor limit was used up so far; None: nobody does.

        Raises TaskFailed, or LeaseOver when the lease ends first. If cancelled, the task has stopped, or its process
        was killed, when this returns.
        """
        self._drain()
        self._tail.clear()
        self._task += 1
        try:
            async with asyncio.timeout_at(work.ends_at + work.grace_s):
                await self._hand_over(work, counts=held_back is not None)
                return await self._outcome(work.progress, held_back)
        except TimeoutError:
            await self._stop()
            raise LeaseOver(common_pb2.PHASE_ON_DEVICE) from None
        except asyncio.CancelledError:
            await _settled(asyncio.create_task(self._stop()))
            raise
        except GONE as error:
            await self.close()
            raise TaskFailed(*CRASHED, f"the worker process died: {self._how()}", self.tail()) from error

    def tail(self) -> str:
        """The last lines of what the task printed."""
        self._drain()
        text = printable(self._tail.decode(errors="replace"), 4 * TAIL_BYTES, keep_newlines=True)
        return "\n".join(text.splitlines()[-TAIL_LINES:])[-TAIL_CHARACTERS:]

    async def close(self) -> None:
        """End the process; it is gone when this returns."""
        if self.alive:  # not by asyncio's kill(), which may take the exit code from asyncio's own watcher (3.11)
            self._kill_group()
        await asyncio.wait({self._gone})
        self._drain()
        if self._output >= 0:
            asyncio.get_running_loop().remove_reader(self._output)
            os.close(self._output)
            self._output = -1
        with suppress(TimeoutError):  # somebody whom the job's code started may hold the pipe open
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._process.communicate()

    async def _end_group(self) -> None:
        await self._process.wait()
        self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    # -- messages

    async def _hand_over(self, work: Work, *, counts: bool) -> None:
        if work.code is not None and self._code != work.code_digest:
            await self._send({"do": "load", "digest": work.code_digest.hex()}, work.code)
        self._code = work.code_digest
        said = {name: getattr(work, name) for name in ("params", "data", "device", "round", "attempt", "seed")}
        said |= {"seconds_left": work.ends_at - asyncio.get_running_loop().time(), "say_began": counts}
        brings_model = self._model != work.model_digest
        said |= {"do": "run", "id": self._task, "brings_model": brings_model}
        await self._send(said, work.model if brings_model else b"")
        self._model = work.model_digest

    async def _outcome(self, progress: Callable[[float], None], held_back: Callable[[], int] | None) -> Output:
        before = 0
        while True:
            said, body = await self._receive()
            match said:
                case {"say": "began"} if held_back is not None:
                    before = held_back()
                case {"say": "progress", "fraction": float(fraction)}:
                    progress(fraction)
                case {"say": "done"}:
                    return Output(
                        body,
                        bytes.fromhex(said["digest"]),
                        said["weight"],
                        said["metrics"],
                        said["compute_s"],
                        said["compute_cpu_s"],
                        held_back() - before if held_back is not None else 0,
                    )
                case {"say": "failed", "phase": str(phase), "message": str(message)}:
                    reason = common_pb2.FAILURE_REASON_TASK_CRASHED
                    raise TaskFailed(PHASES[phase], reason, printable(message, 500), self.tail())
                case _:
                    raise pipes.BrokenFrame(f"{said.get('say')}")

    async def _stop(self) -> None:
        """Stop the task under way, or end its process."""
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._send({"do": "cancel", "id": self._task})
                while True:
                    said, _ = await self._receive()
                    if said.get("say") not in ("began", "progress"):
                        return
        except (TimeoutError, *GONE):
            await self.close()

    async def _send(self, header: Header, body: bytes = b"") -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(pipes.pack(header, body))
        if body:
            stdin.write(body)
        await stdin.drain()

    async def _receive(self) -> tuple[Header, bytes]:
        assert self._process.stdout is not None
        return await pipes.receive(self._process.stdout)

    def _drain(self) -> None:
        """Take what was printed; keep the last of it."""
        if self._output < 0:
            return
        with suppress(BlockingIOError):
            while printed := os.read(self._output, 65536):
                self._tail += printed
                del self._tail[:-TAIL_BYTES]
            asyncio.get_running_loop().remove_reader(self._output)  # its end: all who could print are gone

    def _how(self) -> str:
        code = self._process.returncode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


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


async def _spawn(nice: int, throttle: Throttle, errors: int) -> asyncio.subprocess.Process:
    """Start the program. ``errors``: the descriptor that the job's output goes to."""
    return await asyncio.create_subprocess_exec(
        *throttle.launch([sys.executable, "-P", "-m", "device_agent.worker", str(nice)]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        env=_environment(),
        cwd=tempfile.gettempdir(),
        start_new_session=True,
        limit=2**20,
    )


async def _settled(task: asyncio.Task[Any]) -> bool:
    """Wait for the end of a task, even if cancelled meanwhile; returns whether that was so."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _environment() -> dict[str, str]:
    """The environment of a worker: ours without secrets, with one thread per task."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VENN_") or name == RUN_MARK}
    return {**kept, **ONE_THREAD, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
