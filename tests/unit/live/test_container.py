"""What is done to one container, on an engine that only takes down what it is told."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("docker")

from docker.errors import APIError
from docker.models.containers import Container as Made

from testbed.live.containers import backend, container
from testbed.live.containers.backend import Containers
from testbed.live.containers.container import LINK_AGAIN, ComposeProject, Container
from testbed.live.containers.engine import obeyed
from venn.wire.errors import CannotEnforceError

HELD = {"limits": [{"key": "delay", "read_back": 0.3, "means": "relay"}], "degraded": []}
SLOW = {"VENN_DELAY": "300ms"}
DEVICE, OTHER = "172.18.0.4", "172.18.0.5"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue"
OPEN, HUNG_UP = "01", "08"  # as the kernel calls them


def row(peer: str, state: str) -> str:
    return f"   0: 00000000:25E4 {peer}:C350 {state} 00000000:00000000"


class Engine:
    """One container, and its network. ``answer`` is what a command in it says."""

    def __init__(self, answer: Callable[[list[str]], tuple[int, str]] = lambda _: (0, json.dumps(HELD))) -> None:
        self.did: list[str] = []
        self.status = "running"
        self.attrs = {
            "HostConfig": {"CapAdd": ["NET_ADMIN"]},
            "NetworkSettings": {"Networks": {"net": {"IPAddress": DEVICE}}},
        }
        self.network = SimpleNamespace(
            name="net",
            connect=lambda _: self.did.append("connect"),
            disconnect=lambda _, force: self.did.append("disconnect"),
        )
        self._answer = answer

    async def order(self, what: str, do: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with obeyed(what):
            return do(*args, **kwargs)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: self.did.append(name)

    def exec_run(self, command: list[str], user: str) -> SimpleNamespace:
        self.did.append("set link" if command == LINK_AGAIN else command[0])
        code, said = self._answer(command)
        return SimpleNamespace(exit_code=code, output=said.encode())

    def reload(self) -> None:
        """Its status is as it is."""


async def running(engine: Engine, folder: Path, name: str = "phone-01") -> Container:
    container = Container(name, cast(ComposeProject, engine), lambda: cast(Made, engine), log=folder / "log")
    await container.start()
    engine.did.clear()
    return container


async def test_a_link_that_changes_is_written_down_and_set(tmp_path: Path) -> None:
    engine = Engine()
    container = await running(engine, tmp_path)
    await container.limit(SLOW)
    assert engine.did == ["put_archive", "set link"]


async def test_one_that_stands_still_is_told_when_it_goes_on(tmp_path: Path) -> None:
    engine = Engine()
    container = await running(engine, tmp_path)
    await container.pause()
    await container.limit(SLOW)
    await container.unpause()
    assert engine.did == ["pause", "put_archive", "unpause", "set link"]


async def test_one_without_a_network_is_told_when_it_has_one(tmp_path: Path) -> None:
    engine = Engine()
    container = await running(engine, tmp_path)
    await container.cut_off()
    await container.limit(SLOW)
    await container.connect()
    assert engine.did == ["disconnect", "put_archive", "connect", "set link"]


async def test_one_that_has_ended_knows_at_its_next_start(tmp_path: Path) -> None:
    engine = Engine()
    container = await running(engine, tmp_path)
    container.ended(137)
    await container.limit(SLOW)
    assert engine.did == ["put_archive"]


async def test_one_that_ends_while_it_is_told_knows_at_its_next_start(tmp_path: Path) -> None:
    def dies(_: list[str]) -> tuple[int, str]:
        engine.status = "exited"
        raise APIError("409 Client Error", explanation="it is not running")

    engine = Engine(dies)
    container = await running(engine, tmp_path)
    await container.limit(SLOW)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((3, "relay: the relay of this container is not there"), "its link is not limited: relay: the relay"),
        ((0, json.dumps({"limits": [{"key": "delay", "read_back": None, "means": "relay"}]})), "older than this"),
        ((0, "limits: none"), "its image is older than this testbed"),
    ],
)
async def test_what_is_not_in_force_is_an_error(tmp_path: Path, answer: tuple[int, str], said: str) -> None:
    container = await running(Engine(lambda _: answer), tmp_path)
    with pytest.raises(CannotEnforceError, match=said):
        await container.limit(SLOW)


# -- who hangs up goes off the network when that was heard


@pytest.mark.parametrize(
    ("listed", "is_open"),
    [
        (row("040012AC", OPEN), True),
        (row("0000000000000000FFFF0000040012AC", OPEN), True),
        (row("040012AC", HUNG_UP), False),
        (row("050012AC", OPEN), False),
        ("cat: /proc/net/tcp6: No such file or directory", False),
    ],
)
def test_connections_are_read_as_the_kernel_writes_them(listed: str, is_open: bool) -> None:
    assert container.connected(f"{HEAD}\n{listed}\n", DEVICE) is is_open


async def cut(tmp_path: Path, coordinator: Engine, *, reset: bool) -> Engine:
    """A device, whose coordinator is in the other container."""
    engine = Engine()
    made = Containers.__new__(Containers)
    made._parts = {
        "phone-01": await running(engine, tmp_path),
        "coordinator": await running(coordinator, tmp_path, "coordinator"),
    }
    await made.cut("phone-01", reset=reset)
    return engine


async def test_a_network_goes_when_the_coordinator_has_heard_the_device_hang_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "LOOK_S", 0.0)
    states = [OPEN, OPEN, HUNG_UP]
    coordinator = Engine(lambda _: (0, row("040012AC", states.pop(0))))
    assert (await cut(tmp_path, coordinator, reset=True)).did == ["disconnect"]
    assert states == []


async def test_one_that_does_not_hang_up_is_cut_off_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "HANGS_UP_WITHIN_S", 0.0)
    coordinator = Engine(lambda _: (0, row("040012AC", OPEN)))
    assert (await cut(tmp_path, coordinator, reset=True)).did == ["disconnect"]


async def test_a_partition_waits_for_nobody(tmp_path: Path) -> None:
    coordinator = Engine()
    assert (await cut(tmp_path, coordinator, reset=False)).did == ["disconnect"]
    assert coordinator.did == []


async def test_a_coordinator_that_stands_still_hears_nothing_yet_and_one_that_is_gone_nothing_more(
    tmp_path: Path,
) -> None:
    coordinator = await running(Engine(), tmp_path)
    await coordinator.pause()
    assert await coordinator.hears(OTHER)
    coordinator.ended(137)
    assert not await coordinator.hears(OTHER)


async def test_a_start_that_is_cancelled_goes_to_its_end(tmp_path: Path) -> None:
    """Else the container would start after it was told to stop, and nobody would hear of its end."""
    reached, may_go_on, done = asyncio.Event(), asyncio.Event(), list[str]()

    class Slow:
        async def order(self, what: str, do: Callable[..., object], *args: object) -> None:
            reached.set()
            await may_go_on.wait()
            do(*args)

    made = SimpleNamespace(put_archive=lambda *_: done.append("settings"), start=lambda: done.append("start"))
    container = Container("phone-01", cast(ComposeProject, Slow()), lambda: cast(Made, made), log=tmp_path / "log")
    starting = asyncio.create_task(container.start())
    await reached.wait()
    starting.cancel()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert done == ["settings", "start"]
