"""The live view against an AdminService on loopback."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from rich.console import Console

from testbed.report.view import ask, snapshot_once, watch
from tests.integration.gate import guarded_server, login
from tests.unit.report.snapshots import snapshot
from venn.v1 import admin_pb2
from venn.v1.admin_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from venn.wire.channel import bind
from venn.wire.errors import PeerError
from venn.wire.keys import new_key
from venn.wire.login import Login

Context = grpc.aio.ServicerContext[Any, Any]


class Admin(AdminServiceServicer):
    """Sends two snapshots, then waits or goes away."""

    def __init__(self) -> None:
        self.goes_away = False

    async def GetSnapshot(
        self, request: admin_pb2.GetSnapshotRequest, context: Context
    ) -> admin_pb2.GetSnapshotResponse:
        return admin_pb2.GetSnapshotResponse(snapshot=snapshot())

    async def Watch(self, request: admin_pb2.WatchRequest, context: Context) -> AsyncIterator[admin_pb2.WatchResponse]:
        for _ in range(2):
            yield admin_pb2.WatchResponse(snapshot=snapshot())
        if self.goes_away:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        await asyncio.Event().wait()

    async def Explain(self, request: admin_pb2.ExplainRequest, context: Context) -> admin_pb2.ExplainResponse:
        return admin_pb2.ExplainResponse(subject=request.subject, state="filling", reasons=["no device"])


class Screen(io.StringIO):
    """A terminal that says when a text has been written to it."""

    def __init__(self) -> None:
        super().__init__()
        self._written = asyncio.Event()

    def write(self, text: str) -> int:
        self._written.set()
        return super().write(text)

    async def wrote(self, text: str) -> None:
        while text not in self.getvalue():
            self._written.clear()
            await self._written.wait()


@pytest.fixture
async def served() -> AsyncIterator[tuple[Admin, str]]:
    admin = Admin()  # type: ignore[abstract]
    server = guarded_server()
    add_AdminServiceServicer_to_server(admin, server)
    address = bind(server, "127.0.0.1:0")
    await server.start()
    yield admin, address
    await server.stop(None)


async def test_it_draws_until_it_is_told_to_stop(served: tuple[Admin, str]) -> None:
    file = Screen()
    console = Console(file=file, force_terminal=True, width=100, height=30, _environ={"TERM": "xterm"})
    until = asyncio.Event()
    watching = asyncio.create_task(watch(login(served[1], "admin"), until=until, console=console, backend="process"))
    async with asyncio.timeout(60):
        await file.wrote("label-count")
        until.set()
        last = await watching
    assert last is not None
    assert last.name == "three-jobs"
    assert file.getvalue().startswith("\x1b[?1049h")  # the other screen of the terminal ...
    assert "\x1b[?1049l" in file.getvalue()  # ... and back


async def test_where_there_is_no_terminal_it_prints_a_line_per_job(
    served: tuple[Admin, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.report.view.PLAIN_S", 0.01)
    file = Screen()
    until = asyncio.Event()
    console = Console(file=file, width=40)
    watching = asyncio.create_task(
        watch(login(served[1], "admin"), until=until, console=console, warnings=lambda: ["the host is busy"])
    )
    async with asyncio.timeout(60):
        await file.wrote("label-count")
        until.set()
        await watching
    lines = file.getvalue().splitlines()
    assert "00:47 handwriting collecting round 10/18 leased 20/20 responses 13 of 16 aborts 0 accuracy 0.889" in lines
    assert lines.count("the host is busy") == 1
    assert "\x1b" not in file.getvalue()


async def test_a_coordinator_that_goes_away_is_said(served: tuple[Admin, str]) -> None:
    served[0].goes_away = True
    with pytest.raises(PeerError, match=r"coordinator 127\.0\.0\.1"):
        await watch(login(served[1], "admin"), until=asyncio.Event(), console=Console(file=io.StringIO()))


async def test_status_and_explain_ask_once(served: tuple[Admin, str]) -> None:
    assert (await snapshot_once(login(served[1], "admin"))).name == "three-jobs"
    found = await ask(login(served[1], "admin"), "one")
    assert (found.subject, found.state, found.reasons) == ("one", "filling", ("no device",))


async def test_a_key_that_is_not_known_is_a_clear_error(served: tuple[Admin, str]) -> None:
    with pytest.raises(PeerError) as caught:
        await snapshot_once(Login(served[1], new_key(), "admin"))
    assert caught.value.reason == "UNKNOWN_KEY"
