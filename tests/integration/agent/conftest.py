"""A device in this process, between a scripted coordinator and a scripted driver; and workers without a device."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_agent.activity import ActivityLog
from device_agent.artifacts import ArtifactStore
from device_agent.assignment import Resources
from device_agent.bounds import AgentBounds
from device_agent.connection import FirstContact
from device_agent.device import Device, Setting
from device_agent.machine import AllowedCode
from device_agent.spec import DeviceSpec, Interval, always
from device_agent.terms import Terms
from device_agent.worker_process import Work
from device_agent.workers import WorkerPool
from job_driver.bundle import pack
from tests.integration.agent import works
from tests.integration.agent.scripted import Conversation, Coordinator, Driver, offer, serving
from tests.integration.gate import KEYS
from venn.v1 import common_pb2 as common
from venn.wire import tensors
from venn.wire.login import Login

MODEL = tensors.encode({"w": np.zeros(200_000)})  # four chunks
LONG = "def work(model, task):\n    import time\n    while True: time.sleep(0.01); task.progress(0.5)"


class Stage:
    """Everything that a test of one device needs."""

    def __init__(self, address: str, coordinator: Coordinator, driver: Driver, folder: Path) -> None:
        self.address, self.coordinator, self.driver, self.folder = address, coordinator, driver, folder
        self.pool = WorkerPool(1, nice=0)
        self.allowed = AllowedCode(everything=True)
        self.modelled = False
        self.bounds = AgentBounds(free_disk=1)
        self.patience_s = 60.0
        self.key = KEYS.device
        self.store = ArtifactStore()
        self.activity = ActivityLog(folder)
        self._playing: list[asyncio.Task[None]] = []

    def play(self, intervals: Callable[[], Iterator[Interval]] = always, **spec: Any) -> asyncio.Task[None]:
        """A device, from now on."""
        setting = Setting(
            login=Login(self.address, self.key, "device"),
            epoch=time.time(),
            resources=Resources(self.pool, self.store, Terms(self.allowed, self.bounds), self.modelled),
            activity=self.activity,
            first_contact=FirstContact(self.patience_s),
        )
        device = Device(DeviceSpec(**{"device": "d-1", **spec}), setting, intervals())
        self._playing.append(asyncio.create_task(device.run()))
        return self._playing[-1]

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]

    async def close(self) -> None:
        for playing in self._playing:
            playing.cancel()
            with suppress(BaseException):
                await playing
        await self.pool.close()
        self.activity.close()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    coordinator, driver = Coordinator(), Driver()
    async with serving(coordinator, driver) as address:
        stage = Stage(address, coordinator, driver, tmp_path / "device")
        yield stage
        await stage.close()


def _code(stage: Stage, body: str) -> bytes:
    stage.folder.mkdir(exist_ok=True)
    file = stage.folder / "task.py"
    text = f"from job_driver import Job, Result\n{body}\njob = Job(initial=lambda rng: {{}}, on_device=work)\n"
    file.write_text(text)
    return pack(file)


def task_of(stage: Stage, body: str = "def work(model, task): return Result(model)") -> common.Task:
    task = common.Task(model=stage.driver.artifact(MODEL), seed=7)
    task.code.CopyFrom(stage.driver.artifact(_code(stage, body)))
    task.code_name = "task.py"
    return task


def synthetic(stage: Stage) -> common.Task:
    task = common.Task(model=stage.driver.artifact(MODEL))
    task.params["kind"].text = "synthetic"
    return task


async def leased(stage: Stage, task: common.Task) -> Conversation:
    """A welcomed device that has accepted this task, as lease 5."""
    stream = await stage.coordinator.stream()
    await stream.welcome()
    await stream.say(offer=offer(5, stage.driver, task))
    assert (await stream.hear("accepted")).lease == 5
    return stream


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(1, nice=0)
    yield pool
    await pool.close()


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Work]:
    def make(
        body: str,
        *,
        tail: str = works.TAIL,
        seconds: float = 30.0,
        heard: Callable[[float], None] = lambda fraction: None,
    ) -> Work:
        file = tmp_path / "task.py"
        file.write_text(works.HEAD + body + tail)
        return works.work(pack(file), seconds=seconds, heard=heard)

    return make
