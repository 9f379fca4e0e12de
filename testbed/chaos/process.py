"""One simulated machine with the program that runs on it: started, killed, stopped, and what its disk and clock do."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from testbed.chaos.disk import Disk
from testbed.chaos.loop import ProcessLoop, Scheduler
from testbed.chaos.network import Network

EPOCH_S = 1_700_000_000.0  # Unix time at which a world begins
Main = Callable[["Process"], Coroutine[Any, Any, None]]
Ended = Callable[["Process", BaseException | None], None]
Violated = Callable[[str, str], None]


class Process:
    """A machine's one program. ``main`` is run anew at each start; ``ended`` hears of its end, unless it was killed."""

    def __init__(
        self,
        name: str,
        network: Network,
        *,
        seed: int,
        main: Main,
        ended: Ended,
        violated: Violated,
        disk: Disk | None = None,
    ) -> None:
        self.name, self.network, self.disk = name, network, disk
        self.machine = network.add(name)
        self.starts = 0  # so often it was started
        self.ahead_s = 0.0  # of its wall clock, before the true time
        self.rng = Random(f"{seed}/{name}")
        self.loop: ProcessLoop
        self.over = False  # it is not to be started again
        self.files: set[int] = set()  # descriptors that its program has open
        self._seed, self._main, self._ended, self._violated = seed, main, ended, violated
        self._buried: list[object] = []  # what killed processes have left, which must not be collected before the end

    @property
    def running(self) -> bool:
        """Whether its program runs, or is stopped."""
        return self.machine.loop is not None

    @property
    def scheduler(self) -> Scheduler:
        return self.network.scheduler

    # -- life

    def start(self) -> None:
        """Start the program."""
        assert not self.running, f"{self.name} runs already"
        if self.disk is not None:
            self.disk.process_ended()
        self.starts += 1
        self.rng = Random(f"{self._seed}/{self.name}/{self.starts}")
        self.loop = self.machine.loop = ProcessLoop(self.scheduler, self, self._unhandled)
        self.loop.call_soon(self._begin, self.loop)

    def _begin(self, loop: ProcessLoop) -> None:
        task = loop.create_task(self._main(self))
        self._buried.append(task)
        task.add_done_callback(lambda task: self._finished(loop, task))

    def _finished(self, loop: ProcessLoop, task: "asyncio.Task[None]") -> None:
        if loop.dead:
            return
        error = None if task.cancelled() else task.exception()
        self.kill()
        self._ended(self, error)

    def kill(self, *, powered: bool = True) -> None:
        """Kill the program (SIGKILL), or cut the machine's power."""
        if not self.running:
            return
        self._buried.append(asyncio.all_tasks(self.loop))
        self.loop.kill()
        self.network.gone(self.machine, powered=powered)
        self._close_files()
        if self.disk is not None and not powered:
            self.disk.cut_power()

    def _close_files(self) -> None:
        """Close its files as the system does. Their numbers stay taken: objects of the process still have them."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in self.files:
            with suppress(OSError):
                os.dup2(nothing, number)
        os.close(nothing)
        self.files.clear()

    # -- what its program meets

    def wall_s(self) -> float:
        """Unix seconds, as this machine's clock says."""
        return EPOCH_S + self.scheduler.now + self.ahead_s

    def thread_s(self) -> float:
        """How long work on a thread takes, in seconds."""
        return self.rng.uniform(0.0005, 0.02)

    def disk_write(self, data: Any, write: Callable[[Any], int | None]) -> int:
        """Write to a file on this machine's disk. Raises OSError."""
        view = memoryview(data).cast("B")
        disk = self.disk
        if disk is None or disk.died:
            return write(view) or 0
        through = disk.before_write(len(view))
        written = write(view[:through]) or 0 if through else 0
        if disk.died:
            self._die_here()
            return len(view)
        return written

    def disk_sync(self, descriptor: int) -> None:
        """Make a file or a folder last."""
        disk = self.disk
        if disk is None or disk.died:
            return
        disk.sync(descriptor)
        if disk.died:
            self._die_here()

    def _die_here(self) -> None:
        """Die in the middle of a callback: what it does from here on did not happen."""
        assert self.disk is not None
        self.disk.freeze()
        self.kill()
        self._ended(self, None)

    def handler_failed(self, error: BaseException, method: str) -> None:
        """Note that a handler of its server raised something that is no refusal."""
        self._violated("UNHANDLED", f"{self.name}: {method} raised {type(error).__name__}: {error}{place(error)}")

    def _unhandled(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, asyncio.CancelledError):
            return
        where = place(error) if isinstance(error, BaseException) else ""
        self._violated("UNHANDLED", f"{self.name}: {context.get('message')}: {error!r}{where}")


def place(error: BaseException) -> str:
    """The place where an error came from: the last lines of ours in its traceback."""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append(f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return f" at {' < '.join(reversed(lines[-4:]))}" if lines else ""
