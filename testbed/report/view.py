"""The client of a coordinator's AdminService: the live view, a snapshot, and why a job or a device waits."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import grpc
from google.protobuf.duration_pb2 import Duration
from rich.console import Console
from rich.live import Live
from rich.text import Text

from testbed.report.explain import Explanation, Line
from testbed.report.screen import Frame, Panel, movement, plain_lines, render
from testbed.report.terminal import pressed
from venn.v1 import admin_pb2
from venn.v1.admin_pb2 import DeviceStatus, Snapshot
from venn.v1.admin_pb2_grpc import AdminServiceStub
from venn.wire.errors import UsageError
from venn.wire.login import Login
from venn.wire.status import peer_error

if TYPE_CHECKING:
    from venn.v1.admin_pb2_grpc import AdminServiceAsyncStub

REDRAW_S = 0.5
PLAIN_S = 5.0
MOST_DEVICES = 200  # that the devices panel asks for


class Warnings(Protocol):
    """Further warnings on a screen, asked for at each redraw."""

    def __call__(self) -> Sequence[str]: ...


@dataclass
class _Screen:
    """The state of the screen between redraws."""

    frame: Frame
    snapshot: Snapshot | None = None
    received_at: float = 0.0  # monotonic
    moved_at: float = field(default_factory=time.monotonic)
    seen: tuple[int, ...] = ()

    def take(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        moved = movement(snapshot)
        if moved != self.seen:
            self.seen, self.moved_at = moved, now
        self.snapshot, self.received_at = snapshot, now

    def draw(self, console: Console, warnings: Sequence[str]) -> object:
        if self.snapshot is None:
            return Text(" waiting for the coordinator")
        now = time.monotonic()
        elapsed = self.snapshot.elapsed.ToTimedelta().total_seconds() + (now - self.received_at)
        frame = replace(self.frame, still_s=now - self.moved_at, warnings=tuple(warnings))
        return render(self.snapshot, console.width, console.height, elapsed, frame)


async def watch(
    login: Login,
    *,
    until: asyncio.Event,
    console: Console,
    backend: str = "",
    limit_s: float | None = None,
    stop: str = "stop",
    warnings: Warnings = tuple,
) -> Snapshot | None:
    """Show the coordinator until ``until`` is set, or the user presses q (which sets it).

    Returns the last snapshot. Raises PeerError when the coordinator refuses or goes away before ``until`` is set.
    """
    screen = _Screen(Frame(backend=backend, limit_s=limit_s, stop=stop))
    async with login.channel() as channel:
        admin = admin_of(channel)
        drawn = _draw if console.is_terminal and not console.is_dumb_terminal else _print
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(_follow(admin, screen, login.address)),
            asyncio.create_task(drawn(admin, screen, console, until, warnings)),
        ]
        ending: asyncio.Task[object] = asyncio.create_task(until.wait())
        try:
            await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
            if not until.is_set():
                for task in tasks:
                    if task.done():
                        task.result()
        finally:
            for task in (*tasks, ending):
                task.cancel()
            await asyncio.gather(*tasks, ending, return_exceptions=True)
    return screen.snapshot


async def snapshot_once(login: Login) -> Snapshot:
    """Ask a coordinator for its state. Raises PeerError if it is not there or refuses."""
    async with login.channel() as channel:
        try:
            answer = await admin_of(channel).GetSnapshot(admin_pb2.GetSnapshotRequest(), timeout=10)
        except grpc.RpcError as error:
            raise peer_error(error, where=f"coordinator {login.address}") from None
        return answer.snapshot


def admin_of(channel: grpc.aio.Channel) -> "AdminServiceAsyncStub":
    """A client of the AdminService, as mypy knows it."""
    stub: AdminServiceAsyncStub = AdminServiceStub(channel)  # type: ignore[assignment]
    return stub


async def _follow(admin: "AdminServiceAsyncStub", screen: _Screen, address: str) -> None:
    request = admin_pb2.WatchRequest(interval=Duration(nanos=int(REDRAW_S * 1e9)))
    try:
        async for answer in admin.Watch(request):
            screen.take(answer.snapshot)
    except grpc.RpcError as error:
        raise peer_error(error, where=f"coordinator {address}") from None


async def _draw(
    admin: "AdminServiceAsyncStub", screen: _Screen, console: Console, until: asyncio.Event, warnings: Warnings
) -> None:
    changed = asyncio.Event()

    def heard(key: str) -> None:
        if key == "q":
            until.set()
        elif key in {panel.value for panel in Panel}:
            screen.frame = replace(screen.frame, panel=Panel(key))
            changed.set()

    with pressed(heard), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if screen.frame.panel is Panel.DEVICES:
                screen.frame = replace(screen.frame, devices=await _devices(admin, screen.frame.devices))
            live.update(screen.draw(console, warnings()), refresh=True)  # type: ignore[arg-type]
            with suppress(TimeoutError):
                async with asyncio.timeout(REDRAW_S):
                    await changed.wait()
            changed.clear()


async def _print(
    admin: "AdminServiceAsyncStub", screen: _Screen, console: Console, until: asyncio.Event, warnings: Warnings
) -> None:
    """Print a line per job every 5 s, and each warning once."""
    warned: set[str] = set()
    while True:
        await asyncio.sleep(PLAIN_S if screen.snapshot is not None else REDRAW_S)
        for line in warnings():
            if line not in warned:
                warned.add(line)
                console.print(Text(line), soft_wrap=True)
        for line in plain_lines(screen.snapshot) if screen.snapshot is not None else ():
            console.print(Text(line), soft_wrap=True)


async def _devices(admin: "AdminServiceAsyncStub", before: Sequence[DeviceStatus]) -> Sequence[DeviceStatus]:
    """The devices now; those of before if the coordinator does not answer in time."""
    try:
        answer = await admin.ListDevices(admin_pb2.ListDevicesRequest(page_size=MOST_DEVICES), timeout=REDRAW_S)
    except grpc.RpcError:
        return before
    return answer.devices


TIMEOUT_S = 10


async def ask(login: Login, subject: str) -> Explanation:
    """Ask a coordinator why a job or a device waits. Raises UsageError if it knows no such, else PeerError."""
    async with login.channel() as channel:
        try:
            answer = await admin_of(channel).Explain(admin_pb2.ExplainRequest(subject=subject), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            failure = peer_error(error, where=f"coordinator {login.address}")
            if failure.reason == "UNKNOWN_SUBJECT":  # the caller's mistake, not the coordinator's
                raise UsageError(failure.reason, failure.message, where=failure.where, fix=failure.fix) from None
            raise failure from None
    history = tuple(Line(entry.at.ToTimedelta().total_seconds(), entry.kind, entry.text) for entry in answer.history)
    return Explanation(answer.subject, answer.state, tuple(answer.reasons), history)
