"""What those without a ticket can make a driver hold."""

from typing import Any

import grpc
import pytest

from job_driver.bounds import DriverBounds
from tests.integration.driver.scripted import Coordinator, Device, refusal
from tests.integration.wire.http2 import RawConnection
from venn.v1 import task_pb2 as task

NO = (1, 1)
METHODS = [f"/venn.v1.TaskService/{name}" for name in ("Identify", "Fetch", "Submit", "Exchange")]


@pytest.mark.parametrize("kind", ["Submit", "Exchange"])
async def test_a_stream_that_shows_no_ticket_in_time_is_ended(side: Coordinator, run: Any, kind: str) -> None:
    async with run(bounds=DriverBounds(open_call=0.05)), Device(side, NO, 1) as device:
        call = device.begin() if kind == "Submit" else device.exchange()
        assert await refusal(call) == (grpc.StatusCode.DEADLINE_EXCEEDED, "HEADER")


@pytest.mark.parametrize("method", METHODS)
async def test_calls_without_a_ticket_have_a_bound_and_devices_get_through(
    side: Coordinator, run: Any, method: str
) -> None:
    async with run(bounds=DriverBounds(open_calls=4)), Device(side, NO, 1) as device:
        stranger = await RawConnection.open(int(side.address.rpartition(":")[2]))
        for _ in range(12):
            await stranger.call(method, bytes(1000), whole=False)
        await stranger.ping()
        assert len(await device.fetch(side.opened[NO].task.model)) > 0
        stranger.close()


async def test_a_large_request_without_a_ticket_is_refused(side: Coordinator, run: Any) -> None:
    async with run(bounds=DriverBounds(open_bytes=1000)), Device(side, NO, 1) as device:
        call = device.begin()
        await call.write(task.SubmitRequest(chunk=task.Chunk(data=bytes(2000))))
        assert await refusal(call) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE")
