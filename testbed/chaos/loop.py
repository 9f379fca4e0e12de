"""Virtual time: one scheduler, and an asyncio event loop for each simulated process.

All loops take their callbacks from one queue, in order, so a seed gives one history. A process that is killed is a loop
whose callbacks never run again: no ``finally`` of it runs either. A process that is stopped keeps its callbacks until
it goes on.
"""

import asyncio
import heapq
import math
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")
_Abstract: Any = asyncio.AbstractEventLoop  # whose other methods, about sockets and signals, nobody calls here
Call = Callable[..., object]

MOST_AT_ONCE = 200_000  # callbacks at one instant: more means that something goes round in circles
LEAST_S = 1e-6  # no timer fires earlier than so long after it was set: time goes on


class Stuck(Exception):
    """The error of a world in which time stands still."""


class Scheduler:
    """Time in seconds from 0, and what is to be called when. ``each`` is called after every callback."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0  # callbacks that were run
        self.loop: ProcessLoop | None = None  # of the process that runs now
        self.each: Callable[[], None] = lambda: None
        self._ready: deque[tuple[ProcessLoop, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, ProcessLoop, asyncio.TimerHandle]] = []
        self._order = count()

    def soon(self, loop: "ProcessLoop", handle: asyncio.Handle) -> None:
        """Run this after what is due already."""
        self._ready.append((loop, handle))

    def at(self, when: float, loop: "ProcessLoop", handle: asyncio.TimerHandle) -> None:
        """Run this at a time."""
        heapq.heappush(self._timers, (max(when, self.now + LEAST_S), next(self._order), loop, handle))

    def run(self, until: float, over: Callable[[], bool] = lambda: False) -> None:
        """Run all that is due until a time, or until it is ``over``. Raises Stuck, and what ``each`` raises."""
        ready, timers = self._ready, self._timers
        at_once = 0
        while not over():
            if ready:
                self._run(*ready.popleft())
                at_once += 1
                if at_once > MOST_AT_ONCE:
                    raise Stuck(f"{MOST_AT_ONCE} callbacks ran, and it is still {self.now:.3f} s")
                continue
            if not timers or timers[0][0] > until:
                self.now = max(self.now, until)
                return
            at_once = 0
            self.now = timers[0][0]
            while timers and timers[0][0] <= self.now:
                _, _, loop, handle = heapq.heappop(timers)
                ready.append((loop, handle))

    def _run(self, loop: "ProcessLoop", handle: asyncio.Handle) -> None:
        if loop.dead or handle._cancelled:
            return
        if loop.stopped is not None:
            loop.stopped.append(handle)
            return
        self.calls += 1
        self.loop = loop
        events._set_running_loop(loop)
        try:
            handle._run()
        finally:
            events._set_running_loop(None)
            self.loop = None
        self.each()


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address: else two runs of a seed would differ."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **settings: Any) -> None:
        self._number = number
        super().__init__(coro, **settings)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """A future, numbered for the same reason."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class ProcessLoop(_Abstract):  # type: ignore[misc]  # see there
    """The event loop of one simulated process."""

    def __init__(self, scheduler: Scheduler, owner: Any, failed: Callable[[dict[str, Any]], None]) -> None:
        """``owner``: whose process it is. ``failed`` is told what the loop's exception handler would be."""
        self.scheduler, self.owner = scheduler, owner
        self.dead = False
        self.stopped: list[asyncio.Handle] | None = None  # callbacks that wait until the process goes on
        self._failed = failed
        self._numbers = count(1)
        self._threads = Threads(self, 4)  # the default executor

    # -- life

    def kill(self) -> None:
        """End the process: nothing of it runs any more."""
        self.dead = True

    def stop_process(self) -> None:
        """Stop the process (SIGSTOP)."""
        if self.stopped is None:
            self.stopped = []

    def go_on(self) -> None:
        """Let a stopped process go on (SIGCONT)."""
        waiting, self.stopped = self.stopped or [], None
        for handle in waiting:
            self.scheduler.soon(self, handle)

    # -- what asyncio asks of a loop

    def time(self) -> float:
        return self.scheduler.now

    def call_soon(self, callback: Call, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self.scheduler.soon(self, handle)
        return handle

    def call_soon_threadsafe(self, callback: Call, *args: Any, context: Context | None = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Call, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.scheduler.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Call, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.dead and when < math.inf:
            self.scheduler.at(when, self, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **settings: Any) -> asyncio.Task[T]:
        return _Task(next(self._numbers), coro, loop=self, **settings)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        threads: Threads = self._threads if executor is None else executor
        return asyncio.wrap_future(threads.submit(func, *args), loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            self._failed(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


class Threads:
    """Stands for a ThreadPoolExecutor: what is submitted runs later, in order, at most ``size`` at a time."""

    def __init__(self, loop: ProcessLoop, size: int) -> None:
        self._loop = loop
        self._free_at = [0.0] * size
        self._over = False

    def submit(self, func: Callable[..., T], /, *args: Any, **named: Any) -> "Future[T]":
        """Run ``func`` when a thread is free; its process is not held up meanwhile."""
        if self._over:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()
        start = max(heapq.heappop(self._free_at), self._loop.time())
        took = self._loop.owner.thread_s()
        heapq.heappush(self._free_at, start + took)
        self._loop.call_at(start + took, self._work, future, func, args, named)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take nothing more."""
        self._over = self._over or cancel_futures

    def _work(self, future: "Future[T]", func: Callable[..., T], args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._over or not future.set_running_or_notify_cancel():
            return
        try:
            result = func(*args, **named)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
