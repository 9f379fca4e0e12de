"""The transfers of one lease, against a scripted driver, with the loop's clock in the test's hand."""

import asyncio
import random
from collections.abc import AsyncIterator

import grpc
import pytest

from device_agent.actions import TaskFailed
from device_agent.artifacts import ArtifactStore, Assembly
from device_agent.transfer import Drivers, Response, Transfer
from tests.integration.agent.scripted import Coordinator, Driver, serving
from venn.v1 import common_pb2 as common
from venn.v1 import task_pb2 as task
from venn.wire.channel import bind, make_server
from venn.wire.chunks import SMALL_BYTES, digest_of

BODY = bytes(range(256)) * 8
RESPONSE = Response(BODY, digest_of(BODY), 1.0, {})


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


def begun(drivers: Drivers, driver: Driver) -> Transfer:
    ends_at = asyncio.get_running_loop().time() + 60.0
    return Transfer(drivers, driver.address, common.Ticket(), lease=5, ends_at=ends_at, rng=random.Random(1))


def pass_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The loop's clock jumps."""
    loop = asyncio.get_running_loop()
    before = loop.time
    monkeypatch.setattr(loop, "time", lambda: before() + seconds)


async def test_what_waits_for_a_driver_that_is_gone_goes_on_where_it_moved_to(
    driver: Driver, drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one's machine has lost its power: its connection looks open, and nothing comes."""
    monkeypatch.setattr("device_agent.transfer.FIRST_CONTACT_S", 3600.0)  # it does not wait for that
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


async def met(drivers: Drivers, driver: Driver) -> Transfer:
    """Begun, and its driver has answered."""
    transfer = begun(drivers, driver)
    await transfer.fetch(driver.artifact(b"model"), ArtifactStore())
    return transfer


async def test_what_is_small_travels_whole(driver: Driver, drivers: Drivers) -> None:
    transfer, moved = begun(drivers, driver), list[int]()
    artifact = driver.artifact(BODY)
    assert await transfer.fetch(artifact, ArtifactStore()) == BODY
    receipt = await transfer.submit(RESPONSE, moved.append)
    assert receipt.outcome == common.OUTCOME_COUNTED
    assert [header.body for header in driver.headers] == [BODY]
    assert (transfer.downloaded, transfer.uploaded, moved) == (len(BODY), len(BODY), [])


async def test_all_that_is_small_goes_on_one_stream_until_it_breaks(driver: Driver, drivers: Drivers) -> None:
    for model in (b"one", b"two", b"three"):
        transfer = begun(drivers, driver)
        assert await transfer.fetch(driver.artifact(model), ArtifactStore()) == model
        driver.received.clear()
        assert (await transfer.submit(RESPONSE, lambda _: None)).outcome == common.OUTCOME_COUNTED
    assert driver.exchanges == 1
    driver.refuse = grpc.StatusCode.UNAVAILABLE, "CUT"
    fetching = asyncio.create_task(begun(drivers, driver).fetch(driver.artifact(b"four"), ArtifactStore()))
    await driver.refused.wait()
    driver.refuse = None
    assert await fetching == b"four"
    assert driver.exchanges > 1


async def test_of_what_is_here_whole_nothing_is_asked_for_where_the_driver_has_moved_to(
    driver: Driver, drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moved while the last bytes were checked; an exchange for none of them would be refused."""
    transfer, close, checked = begun(drivers, driver), Assembly.close, Assembly._close
    tried_again = asyncio.Event()

    async def ask(assembly: Assembly) -> bytes | None:
        if assembly._closing is not None:
            tried_again.set()
        return await close(assembly)

    async def check(assembly: Assembly) -> bytes | None:
        transfer.move(driver.address.replace("127.0.0.1", "localhost"))
        await tried_again.wait()
        return await checked(assembly)

    monkeypatch.setattr(Assembly, "close", ask)
    monkeypatch.setattr(Assembly, "_close", check)
    assert await transfer.fetch(driver.artifact(b"model"), ArtifactStore()) == b"model"
    assert len(driver.fetched) == 1


async def test_an_exchange_that_is_left_in_the_middle_is_not_used_again(driver: Driver, drivers: Drivers) -> None:
    """Its answer may still come, and would be taken for another one's."""
    transfer = await met(drivers, driver)
    driver.held = asyncio.Event()
    submitting = asyncio.create_task(transfer.submit(RESPONSE, lambda _: None))
    await driver.submitted.wait()
    submitting.cancel()
    await asyncio.wait({submitting})
    driver.held.set()
    driver.held = None
    assert await begun(drivers, driver).fetch(driver.artifact(b"next"), ArtifactStore()) == b"next"
    assert driver.exchanges == 2


async def test_what_is_larger_waits_until_the_driver_says_from_where(driver: Driver, drivers: Drivers) -> None:
    body, moved = bytes(SMALL_BYTES + 1), list[int]()
    response = Response(body, digest_of(body), 1.0, {})
    transfer = begun(drivers, driver)
    assert (await transfer.submit(response, moved.append)).outcome == common.OUTCOME_COUNTED
    assert ([header.body for header in driver.headers], moved) == ([b""], [0])


async def test_a_driver_that_is_met_only_now_says_first_that_it_is_there(driver: Driver, drivers: Drivers) -> None:
    """It is given up where it does not answer soon, and what is sent whole may take longer than that on its way."""
    assert (await begun(drivers, driver).submit(RESPONSE, lambda _: None)).outcome == common.OUTCOME_COUNTED
    assert ([header.body for header in driver.headers], bytes(driver.received)) == ([b""], BODY)


async def test_what_failed_whole_goes_by_a_stream_from_where_the_driver_has_it(
    driver: Driver, drivers: Drivers
) -> None:
    """Its receipt may be lost, or the link too slow for one message of it within the driver's patience."""
    driver.fail_whole = 1000
    transfer = await met(drivers, driver)
    assert (await transfer.submit(RESPONSE, lambda _: None)).outcome == common.OUTCOME_COUNTED
    assert [header.body for header in driver.headers] == [BODY, b""]
    assert (bytes(driver.received), transfer.uploaded) == (BODY, 2 * len(BODY) - 1000)


@pytest.mark.parametrize("answer", [b"", b"\xff", task.SubmitResponse(proceed=task.Proceed()).SerializeToString()])
async def test_an_answer_that_is_none_is_asked_for_again(drivers: Drivers, answer: bytes) -> None:
    """And given up after three times; by a driver that says nothing useful no agent is brought down."""
    asked = list[bytes]()

    async def submit(message: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        asked.append(message)
        return answer

    server = make_server()
    handlers = {name: grpc.unary_unary_rpc_method_handler(submit) for name in ("Submit", "Exchange")}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("venn.v1.TaskService", handlers),))
    silent = Driver()
    silent.address = bind(server, "127.0.0.1:0")
    await server.start()
    with pytest.raises(TaskFailed) as caught:
        await begun(drivers, silent).submit(RESPONSE, lambda _: None)
    assert caught.value.reason == common.FAILURE_REASON_TRANSFER_FAILED
    assert len(asked) >= 3
    await server.stop(0)
