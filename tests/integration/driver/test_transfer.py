"""Transfers that go wrong, one way each: what the device hears, and that the round is none the worse."""

import asyncio
from typing import Any

import grpc
import numpy as np
import pytest

from tests.integration.driver.scripted import Coordinator, Device, piece, refusal
from tests.integration.driver.test_rounds import response
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.v1 import task_pb2 as task
from venn.wire import admission, tensors
from venn.wire.admission import this_version
from venn.wire.chunks import digest_of
from venn.wire.status import reason_of

NO = (1, 1)
LARGE = 200_000  # floats: about thirteen pieces


@pytest.fixture
async def driver(side: Coordinator, run: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A driver with an open attempt at round 1, which needs two responses. Its credit is less than a response."""
    monkeypatch.setattr("job_driver.upload.MOST_CREDIT", 150_000)
    monkeypatch.setattr("job_driver.upload.LEAST_CREDIT", 150_000)
    async with run(size=LARGE) as job:
        yield job


def body(value: float) -> bytes:
    return tensors.encode(response(value, size=LARGE))


async def send(call: Any, whole: bytes, end: int) -> None:
    """The bytes up to ``end``, 50 kB at a time, each as soon as there is credit for it."""
    sent, granted = 0, 150_000
    while sent < end:
        if min(end, sent + 50_000) > granted:
            proceed = (await call.read()).proceed
            granted = proceed.offset + proceed.credit_bytes
        await call.write(piece(whole, sent, min(end, sent + 50_000)))
        sent = min(end, sent + 50_000)


async def close(side: Coordinator, job: Any, *leases: int) -> float:
    """Well-behaved devices close the round; the mean of what counted."""
    for lease in leases:
        async with Device(side, NO, lease) as device:
            assert (await device.submit(body(1.0))).outcome == common.OUTCOME_COUNTED
    result = await job
    return float(result.model["w"][0])


async def test_a_forged_ticket_admits_to_nothing(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        device.ticket = side.ticket(NO, 1, key=bytes(32))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await device.model()
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert reason_of(caught.value) == "TICKET_FORGED"
        call = device.begin()
        await call.write(device.header(body(1.0)))
        assert await refusal(call) == (grpc.StatusCode.PERMISSION_DENIED, "TICKET_FORGED")
    assert await close(side, driver, 2, 3) == 1.0


async def test_an_expired_ticket_is_held_against_the_coordinators_time(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        device.ticket = side.ticket(NO, 1, seconds=-5)
        call = device.begin()
        await call.write(device.header(body(1.0)))
        assert await refusal(call) == (grpc.StatusCode.PERMISSION_DENIED, "TICKET_EXPIRED")


async def test_another_version_is_refused_by_name(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        call = device.begin()
        header = device.header(body(1.0))
        header.header.version.protocol = 99
        await call.write(header)
        assert await refusal(call) == (grpc.StatusCode.FAILED_PRECONDITION, "VERSION")


@pytest.mark.parametrize("change", ["other lease", "no weight", "short digest", "no header"])
async def test_a_malformed_header_is_refused(side: Coordinator, driver: Any, change: str) -> None:
    async with Device(side, NO, 1) as device:
        frame = device.header(body(1.0))
        if change == "other lease":
            frame.header.covers[0].lease = 7
        elif change == "no weight":
            frame.header.covers[0].weight = 0
        elif change == "short digest":
            frame.header.digest = b"short"
        elif change == "no header":
            frame = piece(body(1.0), 0, 100)
        call = device.begin()
        await call.write(frame)
        assert await refusal(call) == (grpc.StatusCode.INVALID_ARGUMENT, "HEADER")


@pytest.mark.parametrize("factor", [0.5, 2.0, 1e6])
async def test_a_size_that_no_response_can_have_is_rejected_before_it_is_sent(
    side: Coordinator, driver: Any, factor: float
) -> None:
    async with Device(side, NO, 1) as device:
        call = device.begin()
        await call.write(device.header(body(1.0), total=int(len(body(1.0)) * factor)))
        receipt = (await call.read()).receipt
        assert receipt.outcome == common.OUTCOME_REJECTED
        assert receipt.reason.startswith("SIZE: ")
    await side.wait_for(lambda s: s.recorded.get(NO) == {1: common.OUTCOME_REJECTED})
    assert await close(side, driver, 2, 3) == 1.0


async def test_more_bytes_than_announced_are_refused(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        whole = body(1.0)
        call = device.begin()
        await call.write(device.header(whole))
        await call.read()
        end = len(whole) - 100
        await send(call, whole, end)
        await call.write(task.SubmitRequest(chunk=piece(bytes(len(whole) + 50), end, end + 150).chunk))
        assert await refusal(call) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_LONG")


async def test_a_chunk_that_does_not_follow_is_refused_and_the_upload_goes_on(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        whole = body(1.0)
        call = device.begin()
        await call.write(device.header(whole))
        await call.read()
        await call.write(piece(whole, 0, 1000))
        await call.write(piece(whole, 2000, 3000))
        assert await refusal(call) == (grpc.StatusCode.FAILED_PRECONDITION, "OFFSET")
        call = device.begin()
        await call.write(device.header(whole))
        assert (await call.read()).proceed.offset == 1000
        call.cancel()
        assert (await device.submit(whole)).outcome == common.OUTCOME_COUNTED


async def test_a_truncated_upload_resumes_at_the_byte_that_the_driver_holds(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        whole = body(3.0)
        call = device.begin()
        await call.write(device.header(whole))
        assert (await call.read()).proceed.offset == 0
        await call.write(piece(whole, 0, 100_000))
        await call.done_writing()
        assert await refusal(call) == (grpc.StatusCode.FAILED_PRECONDITION, "TRUNCATED")
        call = device.begin()
        await call.write(device.header(whole))
        assert (await call.read()).proceed.offset == 100_000
        call.cancel()
        assert (await device.submit(whole)).outcome == common.OUTCOME_COUNTED
    assert await close(side, driver, 2) == 2.0


async def test_a_broken_connection_resumes_too(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device, Device(side, NO, 1) as again:
        whole = body(3.0)
        call = device.begin()
        await call.write(device.header(whole))
        credit = (await call.read()).proceed.credit_bytes
        assert credit < len(whole)
        await call.write(piece(whole, 0, credit))
        await call.read()  # more credit: the first part is held
        await device._channel.close()
        call = again.begin()
        await call.write(again.header(whole))
        assert (await call.read()).proceed.offset == credit
        call.cancel()
        assert (await again.submit(whole)).outcome == common.OUTCOME_COUNTED


async def test_another_response_on_a_begun_lease_is_refused(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        call = device.begin()
        await call.write(device.header(body(1.0)))
        await call.read()
        other = device.begin()
        await other.write(device.header(body(2.0)))
        assert await refusal(other) == (grpc.StatusCode.ALREADY_EXISTS, "OTHER_RESPONSE")


async def test_the_newest_writer_wins(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device, Device(side, NO, 1) as newer:
        whole = body(3.0)
        call = device.begin()
        await call.write(device.header(whole))
        await call.read()
        assert (await newer.submit(whole)).outcome == common.OUTCOME_COUNTED
        assert await refusal(call) == (grpc.StatusCode.ABORTED, "SUPERSEDED")
    assert await close(side, driver, 2) == 2.0


async def test_a_retry_hears_the_first_receipt_and_counts_once(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        first = await device.submit(body(3.0))
        again = await device.submit(body(3.0))
        assert (first.outcome, again.outcome) == (common.OUTCOME_COUNTED, common.OUTCOME_DUPLICATE)
        assert again.first_outcome == common.OUTCOME_COUNTED
        assert again.digest == first.digest == digest_of(body(3.0))
    assert await close(side, driver, 2) == 2.0


async def test_every_receipt_proves_to_the_coordinator_what_the_driver_decided(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device, Device(side, NO, 3) as other:
        counted, again = await device.submit(body(3.0)), await device.submit(body(3.0))
        rejected = await other.submit(body(np.nan))
    await close(side, driver, 2)
    expected = (common.OUTCOME_COUNTED, common.OUTCOME_DUPLICATE, common.OUTCOME_REJECTED)
    assert (counted.outcome, again.outcome, rejected.outcome) == expected
    for receipt in (counted, again, rejected):
        assert admission.is_genuine(receipt, side.key)
        receipt.lease += 1
        assert not admission.is_genuine(receipt, side.key)


async def test_two_streams_that_finish_at_once_count_once(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device, Device(side, NO, 1) as twin:
        results = await asyncio.gather(device.submit(body(3.0)), twin.submit(body(3.0)), return_exceptions=True)
    receipts = [each for each in results if isinstance(each, common.Receipt)]
    assert common.OUTCOME_COUNTED in [receipt.outcome for receipt in receipts]
    await side.wait_for(lambda s: s.recorded.get(NO) == {1: common.OUTCOME_COUNTED})
    assert await close(side, driver, 2) == 2.0


async def test_what_comes_after_the_kth_is_a_straggler_and_need_not_be_sent(side: Coordinator, driver: Any) -> None:
    side.closes = False
    async with Device(side, NO, 9) as slow, Device(side, NO, 8) as late:
        uploading = slow.begin()
        await uploading.write(slow.header(body(9.0)))
        await uploading.read()
        await uploading.write(piece(body(9.0), 0, 5000))
        for lease in (1, 2):
            async with Device(side, NO, lease) as device:
                await device.submit(body(1.0))
        call = late.begin()
        await call.write(late.header(body(9.0)))
        assert (await call.read()).receipt.outcome == common.OUTCOME_STRAGGLER
        await side.end_attempt(NO, pb.ATTEMPT_STATUS_CLOSED, pb.ATTEMPT_END_REASON_ENOUGH)
        while (answer := await uploading.read()).WhichOneof("frame") != "receipt":
            pass
        assert answer.receipt.outcome == common.OUTCOME_STRAGGLER
    result = await driver
    assert result.rounds[0].responses == 2
    assert result.model["w"][0] == 1.0
    assert side.recorded[NO] == {1: 1, 2: 1, 8: 2, 9: 2}


async def test_a_lease_that_ended_is_refused_and_its_upload_dies(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        call = device.begin()
        await call.write(device.header(body(1.0)))
        await call.read()
        await side.end_lease(NO, 1, common.LEASE_END_EXPIRED)
        while (answer := await call.read()).WhichOneof("frame") != "receipt":
            pass
        assert answer.receipt.outcome == common.OUTCOME_REJECTED
        assert answer.receipt.reason == "LEASE_ENDED: expired"
    assert await close(side, driver, 2, 3) == 1.0


async def test_a_response_with_a_wrong_digest_nan_or_other_shapes_is_rejected(side: Coordinator, driver: Any) -> None:
    poison = response(1.0, size=LARGE)
    poison["w"][77] = np.nan
    misshapen = {"w": np.zeros((2, LARGE // 2), dtype=np.float32), "n": np.array(0)}
    for lease, content, reason in ((1, poison, "TENSOR_NOT_FINITE"), (2, misshapen, "TENSOR_MISMATCH")):
        async with Device(side, NO, lease) as device:
            receipt = await device.submit(content)
            assert receipt.outcome == common.OUTCOME_REJECTED
            assert receipt.reason.startswith(reason)
    async with Device(side, NO, 3) as device:
        call = device.begin()
        whole = body(1.0)
        header = device.header(whole)
        header.header.digest = bytes(32)
        await call.write(header)
        await call.read()
        await send(call, whole, len(whole))
        while (answer := await call.read()).WhichOneof("frame") != "receipt":
            pass
        assert answer.receipt.reason.startswith("DIGEST")
    assert await close(side, driver, 4, 5) == 1.0


async def test_fetch_resumes_anywhere_and_serves_only_what_the_offer_names(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        model, code = side.opened[NO].task.model, side.opened[NO].task.code
        whole = await device.fetch(model)
        assert digest_of(whole) == model.digest
        assert await device.fetch(model, offset=600_001) == whole[600_001:]
        assert await device.fetch(model, offset=5, length=700_000) == whole[5:700_005]
        assert await device.fetch(model, offset=len(whole)) == b""
        assert (await device.fetch(code))[:2] == b"PK"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await device.fetch(common.Artifact(digest=bytes(32), size=1))
        assert reason_of(caught.value) == "ARTIFACT"
    await side.wait_for(lambda s: 1 in s.activity)


async def test_identify_proves_the_key_of_this_job_only(side: Coordinator, driver: Any) -> None:
    async with Device(side, NO, 1) as device:
        challenge = bytes(range(32))
        answer = await device.stub.Identify(task.IdentifyRequest(job=side.submitted[0].key, challenge=challenge))
        assert answer.mac == admission.identify_mac(side.key, challenge)
        for job, asked in ((common.JobKey(owner="x"), challenge), (side.submitted[0].key, b"short")):
            with pytest.raises(grpc.aio.AioRpcError):
                await device.stub.Identify(task.IdentifyRequest(job=job, challenge=asked))
    assert this_version().protocol == 1
