"""One device: it comes and goes as its availability says, keeps a session while it is there, and does its tasks."""

import asyncio
import hashlib
import logging
import math
import os
import random
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from device_agent.actions import (
    Action,
    CloseReason,
    CloseStream,
    LeaseKey,
    LeaseOver,
    MoveDriver,
    Send,
    StartTask,
    StopTask,
    TaskFailed,
)
from device_agent.activity import ActivityLog
from device_agent.artifacts import Fetched
from device_agent.assignment import Assignment, Finished, Resources
from device_agent.connection import ANOTHER_VERSION, FirstContact, Lost, NameTaken, Refused, Stream
from device_agent.session import Session
from device_agent.spec import DeviceSpec, Ending, Interval
from device_agent.transfer import Drivers
from device_agent.turns import Turns
from venn.v1 import common_pb2, device_pb2
from venn.wire.calls import Backoff, enum_name
from venn.wire.login import Login
from venn.wire.logs import log
from venn.wire.notation import format_bytes
from venn.wire.text import printable

NAME_TAKEN_S = 5.0  # wait, where another process has this device's name and the coordinator does not say how long
UPGRADE_S = 30.0  # wait about so long, where a coordinator that was met has another version now

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings that all devices of a process share."""

    login: Login
    epoch: float  # Unix time at which availability begins
    resources: Resources
    activity: ActivityLog
    first_contact: FirstContact
    insecure: bool = False  # drivers of other machines need not encrypt
    turns: Turns = field(default_factory=Turns)  # in which they connect
    level: int = logging.DEBUG  # of what goes as it should: that a device joined, worked and left
    crash_kills: bool = False  # a crash is a SIGKILL of this process
    proxies: Mapping[str, str] = field(default_factory=dict)  # device -> host:port that all its channels go through


class Device:
    """One device of a process, from its first interval to its last."""

    def __init__(self, spec: DeviceSpec, setting: Setting, intervals: Iterator[Interval]) -> None:
        self.spec = spec
        self._setting, self._intervals = setting, intervals
        digest = hashlib.sha256(f"{spec.seed}/{spec.device}/retry".encode()).digest()
        self._rng = random.Random(int.from_bytes(digest[:8], "little"))
        self._backoff = Backoff(self._rng)
        self._proxy = setting.proxies.get(spec.device)
        self._loop = asyncio.get_running_loop()
        self._stream: Stream | None = None
        self._asked_to_close: asyncio.Future[CloseStream] = self._loop.create_future()
        self._end_turn: Callable[[], None] = lambda: None  # of connecting
        self._closing: set[asyncio.Task[None]] = set()  # streams that are being closed
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf  # the timer, on the loop's clock: uvloop's own does not say for what is due at once
        self._group: asyncio.TaskGroup
        self._reach = asyncio.Event()  # not set: nobody can be reached, by a connection that is open neither
        self._reset()

    def _reset(self) -> None:
        """Begin as a fresh process on the device: it knows nothing of what was before."""
        check_in = device_pb2.CheckIn(
            device=self.spec.device,
            instance=secrets.token_bytes(16),
            capabilities=self.spec.capabilities(),
            tasks_per_session=self.spec.tasks_per_session,
            tasks_per_day=self.spec.tasks_per_day,
        )
        terms, spec = self._setting.resources.terms, self.spec
        self._session = Session(check_in, lambda offer: terms.refusal(offer, spec), self._rng.random)
        self._drivers = Drivers(
            self._reach, self._proxy, insecure=self._setting.insecure, sign=self._setting.login.sign_ticket
        )
        self._fetched = Fetched()
        self._tasks: dict[LeaseKey, asyncio.Task[None]] = {}
        self._assignments: dict[LeaseKey, Assignment] = {}

    async def run(self) -> None:
        """Live until its intervals end. Raises Refused, or Lost if the coordinator was never there."""
        async with asyncio.TaskGroup() as self._group:
            try:
                for interval in self._intervals:
                    if interval.start_s > 0:  # else it has begun before the epoch
                        await asyncio.sleep(self._setting.epoch + interval.start_s - time.time())
                    await self._live_through(interval)
                if not self._reach.is_set():
                    await self._loop.create_future()  # silent for good: its connection stays open
            finally:
                await self._stop_work()

    async def _live_through(self, interval: Interval) -> None:
        """Live through one interval, from its start to its end."""
        if not self._reach.is_set():
            await self._close_stream()  # a connection from before it fell silent
            self._reach.set()
        self._setting.activity.started(self.spec.device, interval)
        left_s = self._setting.epoch + interval.end_s - time.time()
        try:
            async with asyncio.timeout(left_s if math.isfinite(left_s) else None) as whole:
                await self._stay_connected(interval)
        except TimeoutError:
            if not whole.expired():
                raise
        except asyncio.CancelledError:
            await self._leave(interval, device_pb2.GOODBYE_REASON_STOPPED, "stopped")
            raise
        match interval.ends:
            case Ending.CRASH:
                await self._crash(interval)
            case Ending.CUT:
                self._go_silent(interval)
                await self._close_stream()
            case Ending.SILENT:
                self._go_silent(interval)
            case Ending.GOODBYE:
                await self._leave(interval, device_pb2.GOODBYE_REASON_SESSION_OVER, "goodbye")
            case _:
                assert_never(interval.ends)

    # -- the session

    async def _stay_connected(self, interval: Interval) -> None:
        """Keep a stream open, one after the other, until the interval ends (then this is cancelled)."""
        while True:
            try:
                close = await self._run_stream(interval)
            except NameTaken as error:
                log(logger, logging.WARNING, str(error), device=self.spec.device)
                await asyncio.sleep(error.retry_after_s or NAME_TAKEN_S)
                continue
            except Refused as error:  # of another version: while one after the other is upgraded that passes
                if error.reason != ANOTHER_VERSION or not self._setting.first_contact.met:
                    raise
                log(logger, logging.WARNING, f"{error}; connecting again", device=self.spec.device)
                await asyncio.sleep(UPGRADE_S * self._rng.uniform(0.5, 1.5))
                continue
            except Lost as error:
                await self._close_stream()
                if self._setting.first_contact.failed(self._loop.time()):
                    raise
                level = {0: logging.INFO, 1: logging.WARNING}.get(self._backoff.failures, logging.DEBUG)
                log(logger, level, f"{error}; connecting again", device=self.spec.device)
                await asyncio.sleep(self._backoff.next_s(self._session.reconnect_s))
                continue
            await self._close_stream(politely=True)
            log(logger, logging.DEBUG, close.why.value, device=self.spec.device)
            match close.why:
                case CloseReason.LIMIT:
                    await self._loop.create_future()  # served: until the interval ends
                case CloseReason.COME_BACK:
                    await asyncio.sleep(close.after_s)
                case CloseReason.DRAINED | CloseReason.SILENT:
                    await asyncio.sleep(self._backoff.next_s(self._session.reconnect_s))
                case _:
                    assert_never(close.why)

    async def _run_stream(self, interval: Interval) -> CloseStream:
        """Run one stream until it is to be closed. If cancelled, it is left open for the goodbye."""
        self._asked_to_close = self._loop.create_future()
        setting = self._setting
        self._end_turn = await setting.turns.take()
        stream = self._stream = Stream(setting.login, self._hear, self._reach, proxy=self._proxy)
        self._do(self._session.dial(interval.number, self._loop.time()))
        ends: set[asyncio.Future[None] | asyncio.Future[CloseStream]] = {stream.ended, self._asked_to_close}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._end_turn()
        if self._asked_to_close.done():
            close = self._asked_to_close.result()
            if close.why is CloseReason.SILENT:
                raise Lost("SILENT", close.why.value, where=f"coordinator at {setting.login.address}")
            return close
        await self._close_stream()
        await stream.ended
        raise AssertionError("a stream ends with an error")

    def _hear(self, frame: device_pb2.ConnectResponse) -> None:
        if frame.WhichOneof("frame") == "welcome":
            self._end_turn()
            self._setting.first_contact.met = True
            self._backoff.reset()
            self._say(f"joined the coordinator at {self._setting.login.address}", **self._described())
        self._do(self._session.receive(frame, self._loop.time()))

    def _say(self, message: str, **fields: object) -> None:
        """Log what goes as it should."""
        log(logger, self._setting.level, message, device=self.spec.device, **fields)

    def _described(self) -> dict[str, object]:
        """The capabilities for the log, without the packages, which are many."""
        labels = {name: " ".join(sorted(values)) for name, values in self.spec.labels.items() if name != "package"}
        numbers = {name: format_bytes(n) if name == "memory" else f"{n:g}" for name, n in self.spec.numbers.items()}
        return {**numbers, **labels}

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(frame):
                    if self._stream is not None:
                        self._stream.say(frame)
                case StartTask():
                    self._start_task(action)
                case StopTask(key, why):
                    if task := self._tasks.get(key):
                        log(logger, logging.INFO, f"task stopped: {why}", device=self.spec.device, lease=key.lease)
                        task.cancel()
                    else:
                        self._loop.call_soon(self._stopped, key)
                case MoveDriver(key, address, certificate):
                    if assignment := self._assignments.get(key):
                        assignment.move(address, certificate)
                case CloseStream():
                    if not self._asked_to_close.done():
                        self._asked_to_close.set_result(action)
                case _:
                    assert_never(action)
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer for the session's next deadline. One that is too early is left alone: it fires and is set
        again.
        """
        at = self._session.next_deadline()
        if self._timer is not None and self._timer_at > at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and math.isfinite(at):
            self._timer, self._timer_at = self._loop.call_at(at, self._on_timer), at

    def _on_timer(self) -> None:
        self._timer = None
        self._do(self._session.tick(self._loop.time()))

    async def _close_stream(self, *, politely: bool = False) -> None:
        stream, self._stream = self._stream, None
        self._session.cut()
        if stream is not None:
            self._closing.add(asyncio.create_task(stream.leave() if politely else stream.cut()))
        if self._closing:  # a wait that is cancelled leaves them running; then somebody waits for them again
            await asyncio.wait(self._closing)
            self._closing.clear()

    # -- the ways to go

    async def _leave(self, interval: Interval, reason: device_pb2.GoodbyeReason.ValueType, how: str) -> None:
        self._setting.activity.ended(self.spec.device, interval, how, in_task=self._session.in_task)
        self._say("leaves", why=how)
        self._do(self._session.leave(reason, self._loop.time()))
        await self._close_stream(politely=True)
        await self._stop_work()

    async def _crash(self, interval: Interval) -> None:
        """Crash: the connection drops, and the device forgets everything."""
        self._setting.activity.ended(self.spec.device, interval, "crash", in_task=self._session.in_task)
        if self._setting.crash_kills:
            os.kill(os.getpid(), signal.SIGKILL)
        await self._close_stream()
        await self._stop_work()
        self._reset()

    def _go_silent(self, interval: Interval) -> None:
        """Let nothing come through until the next interval, while the device works on."""
        self._setting.activity.ended(self.spec.device, interval, interval.ends.value, in_task=self._session.in_task)
        self._reach.clear()

    async def _stop_work(self) -> None:
        """Stop all work: no task runs and no connection is open when this returns."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        await self._close_stream()
        await self._drivers.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- tasks

    def _start_task(self, start: StartTask) -> None:
        key, attempt = start.key, start.offer.attempt
        job = printable(attempt.job.name, 64)
        self._say("is working on a task", job=job, round=attempt.round, attempt=attempt.attempt, lease=key.lease)
        assignment = Assignment(
            start, self.spec, self._setting.resources, self._drivers, self._fetched, self._session, self._rng
        )
        self._assignments[key] = assignment
        self._tasks[key] = self._group.create_task(self._perform(key, assignment))
        self._tasks[key].add_done_callback(lambda task: self._performed(key, task))

    async def _perform(self, key: LeaseKey, assignment: Assignment) -> None:
        session, clock = self._session, self._loop.time
        try:
            finished = await assignment.run()
        except TaskFailed as failure:
            fields = {"device": self.spec.device, "lease": key.lease, "output": failure.output_tail}
            log(logger, logging.WARNING, f"task failed: {failure.message}", **fields)
            self._do(session.failed(key, failure.phase, failure.reason, failure.message, failure.output_tail, clock()))
        except LeaseOver as over:
            log(logger, logging.WARNING, f"the lease ended {over}", device=self.spec.device, lease=key.lease)
            self._do(session.stopped(key, clock()))
        else:
            self._tell(key, finished)

    def _tell(self, key: LeaseKey, finished: Finished) -> None:
        receipt, measure = finished
        self._setting.activity.receipt(self.spec.device, key, receipt, measure)
        self._setting.activity.task_done(late=measure.HasField("late"))
        if receipt.outcome == common_pb2.OUTCOME_REJECTED:
            reason = printable(receipt.reason, 300)
            log(logger, logging.WARNING, f"response rejected: {reason}", device=self.spec.device, lease=key.lease)
        else:
            outcome = enum_name(common_pb2.Outcome, receipt.outcome)
            self._say("task done", outcome=outcome, lease=key.lease)
        self._do(self._session.finished(key, receipt, measure, self._loop.time()))

    def _performed(self, key: LeaseKey, task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        self._assignments.pop(key, None)
        if task.cancelled():
            self._stopped(key)

    def _stopped(self, key: LeaseKey) -> None:
        self._do(self._session.stopped(key, self._loop.time()))
