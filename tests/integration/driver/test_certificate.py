"""A driver that encrypts: devices trust its own certificate and no other, and its tickets are for it alone."""

import asyncio
import random
import ssl
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest

from device_agent.actions import TaskFailed
from device_agent.artifacts import ArtifactStore
from device_agent.transfer import Drivers, Transfer
from testbed.runfolder.machine import free_port
from tests.integration.driver.scripted import Coordinator
from tests.integration.gate import KEYS, login
from tests.integration.service.peers import world
from venn.v1 import common_pb2 as common
from venn.wire.authority import self_signed
from venn.wire.channel import bind, make_server
from venn.wire.keys import new_key
from venn.wire.trust import driver_name

JOB = "me/test/1"


def transfer(drivers: Drivers, address: str, ticket: common.Ticket) -> Transfer:
    ends_at = asyncio.get_running_loop().time() + 3.0
    return Transfer(drivers, address, ticket, lease=1, ends_at=ends_at, rng=random.Random(1))


def reachable() -> Drivers:
    reach = asyncio.Event()
    reach.set()
    return Drivers(reach)


async def test_a_device_takes_the_model_from_the_driver_with_the_offered_certificate(
    side: Coordinator, run: Callable[..., Any], tmp_path: Path
) -> None:
    port = free_port()
    listen = {"bind": f"0.0.0.0:{port}", "advertise": f"127.0.0.1:{port}", "folder": tmp_path / "job"}
    async with run(**listen):
        no = next(iter(side.opened))
        submitted = side.submitted[-1]
        certificate, address = submitted.certificate, submitted.address
        assert certificate
        model = side.opened[no].task.model
        ticket = side.ticket(no, 1, certificate=certificate)
        good, others, clear = reachable(), reachable(), reachable()
        good.expect(address, certificate, JOB)
        assert await transfer(good, address, ticket).fetch(model, ArtifactStore())
        others.expect(address, certificate, "me/other/1")  # as if it were the driver of another job
        with pytest.raises(TaskFailed):
            await transfer(others, address, ticket).fetch(model, ArtifactStore())
        with pytest.raises(TaskFailed):  # in clear
            await transfer(clear, address, ticket).fetch(model, ArtifactStore())
        foreign = side.ticket(no, 1, certificate=b"another")
        with pytest.raises(TaskFailed, match="another certificate"):
            await transfer(good, address, foreign).fetch(model, ArtifactStore())
        elsewhere = side.ticket(no, 1, certificate=certificate, shown_to=b"another")
        stolen = side.ticket(no, 1, certificate=certificate)
        stolen.public_key = new_key().public
        unsigned = side.ticket(no, 1, certificate=certificate)
        unsigned.signature = b""
        forged = side.ticket(no, 1, certificate=certificate)
        forged.signature = login(address, "job").sign_ticket(forged, certificate).signature
        for bad, why in (
            (elsewhere, "not signed by the key of its device"),
            (stolen, "key of another device"),
            (unsigned, "not signed by the key of its device"),
            (forged, "not signed by the key of its device"),
        ):
            with pytest.raises(TaskFailed, match=why):
                await transfer(good, address, bad).fetch(model, ArtifactStore())
        for each in (good, others, clear):
            await each.close()
    mode = (tmp_path / "job" / "driver.key").stat().st_mode & 0o777
    assert mode == 0o600


async def test_an_impostor_with_the_drivers_name_gets_no_ticket() -> None:
    asked: list[bytes] = []

    async def take(request: bytes, context: Any) -> None:
        asked.append(request)

    true, false = new_key(), new_key()
    server = make_server()
    handlers = {
        "Fetch": grpc.unary_stream_rpc_method_handler(take),
        "Exchange": grpc.stream_stream_rpc_method_handler(take),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("venn.v1.TaskService", handlers),))
    chain = self_signed(driver_name(JOB), false)
    address = bind(server, "127.0.0.1:0", credentials=grpc.ssl_server_credentials([(false.pem(), chain)]))
    await server.start()
    drivers = reachable()
    drivers.expect(address, ssl.PEM_cert_to_DER_cert(self_signed(driver_name(JOB), true).decode()), JOB)
    with pytest.raises(TaskFailed):
        await transfer(drivers, address, common.Ticket()).fetch(
            common.Artifact(digest=bytes(32), size=10), ArtifactStore()
        )
    assert not asked
    await drivers.close()
    await server.stop(0)


async def test_nothing_goes_to_a_driver_of_another_machine_in_clear() -> None:
    drivers = reachable()
    with pytest.raises(TaskFailed, match="does not encrypt"):
        await transfer(drivers, "192.0.2.1:9", common.Ticket()).fetch(
            common.Artifact(digest=bytes(32), size=10), ArtifactStore()
        )


async def test_a_coordinator_offers_the_certificate_that_it_verified() -> None:
    async with world() as made:
        driver, phone = made.driver(), made.device()
        key = new_key()
        chain = self_signed(driver_name("ann/digits/1"), key)
        driver.certificate = ssl.PEM_cert_to_DER_cert(chain.decode())
        await driver.start(credentials=grpc.ssl_server_credentials([(key.pem(), chain)]))
        await driver.open()
        await phone.check_in()
        offer = await phone.accept()
        assert offer.driver_certificate == driver.certificate
        payload = common.TicketPayload.FromString(offer.ticket.payload)
        assert payload.driver_certificate == sha256(driver.certificate).digest()
        assert payload.device_key == KEYS.device.id


async def test_a_server_with_another_certificate_is_not_verified() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.serve()  # in clear
        key = new_key()
        driver.certificate = ssl.PEM_cert_to_DER_cert(self_signed(driver_name("ann/digits/1"), key).decode())
        await driver.submit()
        follower = driver.follow()
        while not (alive := (await follower.next("alive")).alive).problem:
            pass
        assert not alive.address_verified
        follower.call.cancel()
