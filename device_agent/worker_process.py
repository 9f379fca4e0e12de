"""One worker process, as its agent sees it: started through its keeper, confined, given tasks, and ended."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, assert_never

from device_agent import pipes
from device_agent.actions import LeaseOver, TaskFailed
from device_agent.answers import Answer, Began, Failed, Output, Progress, Stopped, read_answer
from device_agent.confine.inforce import InForce, read_back
from device_agent.confine.orders import Orders
from device_agent.pipes import Header
from device_agent.throttle import NOTHING, Throttle
from venn.v1 import common_pb2
from venn.wire import RUN_MARK
from venn.wire.text import printable

TAIL_BYTES = 8192  # of output that are kept
TAIL_LINES, TAIL_CHARACTERS = 20, 4000  # of them told
READ_BYTES, READ_AGAIN_S = 65536, 0.005  # of output at a time: whoever prints without end does not keep the agent busy
STOP_WITHIN_S = 0.5  # a cancelled task; else its process is killed
END_WITHIN_S = 5.0  # a keeper that was told to; else it is killed
MESSAGES_AT_ONCE, MESSAGES_PER_S = 50, 20.0  # of one task; a worker of ours says progress five times a second
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")  # what may start threads of its own
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in LIBRARIES} | {"VECLIB_MAXIMUM_THREADS": "1"}
# What a worker has of our environment: how to find and run Python, the language, the time zone, and its testbed.
KEPT = {"PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "TZ", RUN_MARK}
CRASHED = (common_pb2.PHASE_ON_DEVICE, common_pb2.FAILURE_REASON_TASK_CRASHED)
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
    reads: tuple[Path, ...] = ()  # all that the job's code may read of data: its shares, of the devices here
    grace_s: float = 0.0  # the lease may end so much later: until then the task is not stopped for it


class NotStarted(OSError):
    """The error of a worker process that ended before it was ready."""


class WorkerProcess:
    """A worker process and its keeper, in a session of their own (Ctrl-C reaches them through the agent).

    Only the keeper is signalled, by a descriptor of its process: a number may be another's once it has ended. It ends
    the worker, and all that the job's code has started.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, output: int, orders: Orders, data: tuple[Path, ...]
    ) -> None:
        self._process, self._orders, self._data = process, orders, data
        self._keeper = _descriptor_of(process.pid)
        self._output = output  # what the job prints: read end, not blocking
        self._tail = bytearray()
        self._code: bytes | None = None  # digest of the code that it holds; None: still fresh
        self._model = b""
        self._task = 0
        self._most_body = orders.memory_bytes or pipes.MOST_BODY  # it had it in memory
        self.pid = 0  # of the worker
        self.in_force = InForce()
        os.set_blocking(output, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(output, self._drain)
        self._gone = asyncio.create_task(self._process.wait())  # done when the worker has ended, and all it started

    @classmethod
    async def start(cls, orders: Orders, throttle: Throttle = NOTHING, data: tuple[Path, ...] = ()) -> "WorkerProcess":
        """Start the process; ``data`` is what its job may read of data. Raises OSError.

        If cancelled, its process has ended when this returns.
        """
        output, theirs = os.pipe()
        spawning = asyncio.create_task(_spawn(orders, throttle, theirs))
        cancelled = await settled(spawning)  # cut short here, nobody would know the process, to end it
        os.close(theirs)
        if spawning.exception() is not None:
            os.close(output)
        worker = cls(spawning.result(), output, orders, data)
        try:
            if cancelled:
                raise asyncio.CancelledError
            await worker._get_ready()
        except GONE as error:
            await asyncio.wait({worker._gone}, timeout=STOP_WITHIN_S)
            await worker.close()
            raise NotStarted(worker.tail() or worker._how(error)) from error
        except BaseException:
            await settled(asyncio.create_task(worker.close()))
            raise
        return worker

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def data(self) -> tuple[Path, ...]:
        """What its job may read of data."""
        return self._data

    @property
    def user(self) -> int | None:
        """The user ID that was given to it."""
        return self._orders.user

    def fits(self, work: Work) -> bool:
        """Whether the worker holds this code, or none yet, and may read just its data: one job's code never runs where
        another's has been.
        """
        return self._code in (None, work.code_digest) and self._data == work.reads

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
            await settled(asyncio.create_task(self._stop()))
            raise
        except GONE as error:
            if not isinstance(error, pipes.BrokenFrame):  # it is ending; its keeper then ends with the same code
                await asyncio.wait({self._gone}, timeout=STOP_WITHIN_S)
            await self.close()
            raise TaskFailed(*CRASHED, self._how(error), self.tail()) from error

    def tail(self) -> str:
        """The last lines of what the task printed."""
        self._drain()
        text = printable(self._tail.decode(errors="replace"), 4 * TAIL_BYTES, keep_newlines=True)
        return "\n".join(text.splitlines()[-TAIL_LINES:])[-TAIL_CHARACTERS:]

    async def close(self) -> None:
        """End the process; it is gone when this returns, with all that it has started."""
        self._signal(signal.SIGTERM, signal.SIGCONT)  # the latter where it was stopped
        if not (await asyncio.wait({self._gone}, timeout=END_WITHIN_S))[0]:
            self._signal(signal.SIGKILL)
            await asyncio.wait({self._gone})
        self._drain()
        if self._output >= 0:
            self._loop.remove_reader(self._output)
            os.close(self._output)
            self._output = -1
        if self._keeper >= 0:
            os.close(self._keeper)
            self._keeper = -1
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._process.communicate()

    def _signal(self, *numbers: int) -> None:
        for number in numbers if self.alive else ():
            with suppress(ProcessLookupError):
                if self._keeper >= 0:
                    signal.pidfd_send_signal(self._keeper, number)
                elif sys.platform != "linux":  # not by asyncio's kill(), which may take the exit code from its watcher
                    os.kill(self._process.pid, number)

    # -- messages

    async def _get_ready(self) -> None:
        """Hear from the keeper and the worker, before there is any job's code. Raises OSError if it is not held."""
        told: Header = {}
        while not {"worker", "held"} <= told.keys():
            told |= (await self._receive())[0]
        self.pid = told["worker"]
        self.in_force = read_back(self.pid, told["held"], self._orders)

    async def _hand_over(self, work: Work, *, counts: bool) -> None:
        if work.code is not None and self._code != work.code_digest:
            await self._send({"do": "load", "digest": work.code_digest.hex()}, work.code)
        self._code = work.code_digest
        said = {name: getattr(work, name) for name in ("params", "data", "device", "round", "attempt", "seed")}
        said |= {"seconds_left": work.ends_at - self._loop.time(), "say_began": counts}
        brings_model = self._model != work.model_digest
        said |= {"do": "run", "id": self._task, "brings_model": brings_model}
        await self._send(said, work.model if brings_model else b"")
        self._model = work.model_digest

    async def _outcome(self, progress: Callable[[float], None], held_back: Callable[[], int] | None) -> Output:
        before, started, messages = 0, self._loop.time(), 0
        while True:
            answer = await self._answer()
            messages += 1
            if messages > MESSAGES_AT_ONCE + MESSAGES_PER_S * (self._loop.time() - started):
                raise pipes.BrokenFrame(f"{messages} messages about one task, too many for its time")
            match answer:
                case Began():
                    before = held_back() if held_back is not None else 0
                case Progress(fraction):
                    progress(fraction)
                case Output():
                    return answer if held_back is None else replace(answer, held_back=held_back() - before)
                case Failed(phase, message):
                    raise TaskFailed(phase, common_pb2.FAILURE_REASON_TASK_CRASHED, message, self.tail())
                case Stopped():
                    raise pipes.BrokenFrame("a task that stopped though nobody had said so")
                case _:
                    assert_never(answer)

    async def _stop(self) -> None:
        """Stop the task under way, or end its process."""
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._send({"do": "cancel", "id": self._task})
                while isinstance(await self._answer(), Began | Progress):
                    pass
        except (TimeoutError, *GONE):
            await self.close()

    async def _send(self, header: Header, body: bytes = b"") -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(pipes.pack(header, body))
        if body:
            stdin.write(body)
        await stdin.drain()

    async def _answer(self) -> Answer:
        return read_answer(*await self._receive(), self._task)

    async def _receive(self) -> tuple[Header, bytes]:
        assert self._process.stdout is not None
        return await pipes.receive(self._process.stdout, self._most_body)

    def _drain(self) -> None:
        """Take some of what was printed, and the rest a little later; keep the last of it."""
        if self._output < 0:
            return
        with suppress(BlockingIOError):
            printed = os.read(self._output, READ_BYTES)
            self._tail += printed
            del self._tail[:-TAIL_BYTES]
            self._loop.remove_reader(self._output)
            if printed:  # else this is the end: all who could print are gone
                self._loop.call_later(READ_AGAIN_S, self._watch_output)

    def _watch_output(self) -> None:
        if self._output >= 0:
            self._loop.add_reader(self._output, self._drain)

    def _how(self, error: BaseException) -> str:
        """Why the worker is no more."""
        if isinstance(error, pipes.BrokenFrame):
            return f"the worker process was killed: it sent {error}"
        code = self._process.returncode
        return f"the worker process died: {f'signal {-code}' if code is not None and code < 0 else f'exit code {code}'}"


async def _spawn(orders: Orders, throttle: Throttle, errors: int) -> asyncio.subprocess.Process:
    """Start the keeper. ``errors``: the descriptor that the job's output goes to."""
    return await asyncio.create_subprocess_exec(
        *throttle.launch([sys.executable, "-P", "-m", "device_agent.confine.keeper", orders.to_argument()]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        env=environment(os.environ),
        cwd="/",
        start_new_session=True,
        limit=2**20,
    )


def _descriptor_of(pid: int) -> int:
    """A descriptor of a process (Linux); -1 if there is none."""
    with suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return -1


async def settled(task: asyncio.Task[Any]) -> bool:
    """Wait for the end of a task, even if cancelled meanwhile; returns whether that was so."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker: of ours only what it needs to run; one thread for each task."""
    kept = {name: value for name, value in ours.items() if name in KEPT or name.startswith("LC_")}
    return {**kept, **ONE_THREAD, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
