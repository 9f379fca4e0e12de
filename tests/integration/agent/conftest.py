"""A device in this process, between a scripted coordinator and a scripted driver."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from device_agent.activity import ActivityLog
from device_agent.artifacts import ArtifactStore
from device_agent.assignment import Resources
from device_agent.connection import FirstContact
from device_agent.device import Device, Setting
from device_agent.machine import AllowedCode
from device_agent.spec import DeviceSpec, Interval, always
from device_agent.workers import WorkerPool
from tests.integration.agent.scripted import TOKEN, Coordinator, Driver, serving


class Stage:
    """Everything that a test of one device needs."""

    def __init__(self, address: str, coordinator: Coordinator, driver: Driver, folder: Path) -> None:
        self.address, self.coordinator, self.driver, self.folder = address, coordinator, driver, folder
        self.pool = WorkerPool(1, nice=0)
        self.allowed = AllowedCode(everything=True)
        self.modelled = False
        self.patience_s = 60.0
        self.token = TOKEN
        self.store = ArtifactStore()
        self.activity = ActivityLog(folder)
        self._playing: list[asyncio.Task[None]] = []

    def play(self, intervals: Callable[[], Iterator[Interval]] = always, **spec: Any) -> asyncio.Task[None]:
        """A device, from now on."""
        setting = Setting(
            coordinator=self.address,
            token=self.token,
            epoch=time.time(),
            resources=Resources(self.pool, self.store, self.allowed, self.modelled),
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
