"""The transfers of one lease, against a scripted driver, with the loop's clock in the test's hand."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator

import pytest

from device_agent.transfer import Drivers, Response, Transfer
from tests.integration.agent.scripted import Coordinator, Driver, serving
from venn.v1 import common_pb2 as common

BODY = bytes(range(256)) * 8
RESPONSE = Response(BODY, hashlib.sha256(BODY).digest(), 1.0, {})


@pytest.fixture
async def driver() -> AsyncIterator[Driver]:
    driver = Driver()
    async with serving(Coordinator(), driver):
        yield driver


@pytest.fixture
async def drivers() -> AsyncIterator[Drivers]:
    reach = asyncio.Event()
    reach.set()
    drivers = Drivers(reach)
    yield drivers
    await drivers.close()


def pass_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The loop's clock jumps."""
    loop = asyncio.get_running_loop()
    before = loop.time
    monkeypatch.setattr(loop, "time", lambda: before() + seconds)


async def test_what_waits_for_a_driver_that_is_gone_goes_on_where_it_moved_to(driver: Driver, drivers: Drivers) -> None:
    """The old one's machine has lost its power: its connection looks open, and nothing comes."""
    asked = asyncio.Event()

    async def take_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await gone.wait()
        writer.close()

    gone = asyncio.Event()
    async with await asyncio.start_server(take_up, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        ends_at = asyncio.get_running_loop().time() + 60.0
        transfer = Transfer(drivers, f"{host}:{port}", common.Ticket(), lease=5, ends_at=ends_at, rng=random.Random(1))
        submitting = asyncio.create_task(transfer.submit(RESPONSE, lambda _: None))
        await asked.wait()
        transfer.move(driver.address)
        async with asyncio.timeout(5.0):  # less than the first contact that it waits for
            assert (await submitting).outcome == common.OUTCOME_COUNTED
        gone.set()


async def test_a_driver_may_move_while_the_connection_to_it_is_dropped(
    driver: Driver, drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop, dropped = drivers.drop, []

    async def move(address: str) -> None:
        if not dropped:
            transfer.move(driver.address)
        dropped.append(address)
        await drop(address)

    monkeypatch.setattr(drivers, "drop", move)
    ends_at = asyncio.get_running_loop().time() + 60.0
    transfer = Transfer(drivers, "127.0.0.1:1", common.Ticket(), lease=5, ends_at=ends_at, rng=random.Random(1))
    assert (await transfer.submit(RESPONSE, lambda _: None)).outcome == common.OUTCOME_COUNTED
    assert dropped == ["127.0.0.1:1"]


async def test_a_driver_may_move_twice_in_a_moment(driver: Driver, drivers: Drivers) -> None:
    async def take_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await gone.wait()
        writer.close()

    asked, gone, moved = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def move_on() -> None:
        transfer.move(driver.address)
        moved.set()

    async with await asyncio.start_server(take_up, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        ends_at = asyncio.get_running_loop().time() + 60.0
        transfer = Transfer(drivers, f"{host}:{port}", common.Ticket(), lease=5, ends_at=ends_at, rng=random.Random(1))
        submitting = asyncio.create_task(transfer.submit(RESPONSE, lambda _: None))
        await asked.wait()
        transfer.move("127.0.0.1:1")
        asyncio.get_running_loop().call_soon(move_on)  # before the transfer has heard of the first
        assert (await submitting).outcome == common.OUTCOME_COUNTED
        assert moved.is_set()
        gone.set()


async def test_the_driver_is_waited_for_from_the_first_transfer_not_from_the_lease(
    driver: Driver, drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that has model and code already meets the driver only as it submits, at the end of a long task."""
    ends_at = asyncio.get_running_loop().time() + 60.0
    transfer = Transfer(drivers, driver.address, common.Ticket(), lease=5, ends_at=ends_at, rng=random.Random(1))
    pass_time(monkeypatch, 50.0)
    receipt = await transfer.submit(RESPONSE, lambda _: None)
    assert receipt.outcome == common.OUTCOME_COUNTED
