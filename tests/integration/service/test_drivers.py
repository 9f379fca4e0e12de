"""JobService over real gRPC: who a job's driver is, where it is, whether it is there, and who takes the job up."""

import asyncio
from typing import Any

import grpc
import pytest

from coordinator.engine import effects
from coordinator.engine.model import AttemptEndReason, EngineSettings
from coordinator.service import follow
from testbed.testing.clock import FakeClock
from tests.integration.service.peers import Device, World, world
from tests.integration.service.test_jobs import ABORTED, CLOSED, one_device, refusal, self_ended
from venn.v1 import common_pb2, device_pb2, job_pb2
from venn.wire.admission import verify
from venn.wire.status import metadata_of, reason_of


@pytest.mark.parametrize(
    ("address", "reason"),
    [("example.org:80", "ADDRESS"), ("10.0.0.1:80", "NOT_LOOPBACK"), ("nonsense", "ADDRESS"), ("", "ADDRESS")],
)
async def test_a_drivers_address_is_literal_and_loopback(address: str, reason: str) -> None:
    async with world() as made:
        driver = made.driver()
        request = driver.submission()
        request.address = address
        assert await refusal(driver.stub.SubmitJob(request)) == (grpc.StatusCode.INVALID_ARGUMENT, reason)


async def test_an_address_is_offered_only_after_its_proof() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.serve()
        await driver.submit()
        right, driver.ticket_key = driver.ticket_key, bytes(32)  # an impostor's
        follower = driver.follow()
        await driver.open()
        device = await one_device(made)
        assert not (await follower.next("alive")).alive.address_verified
        alive = (await follower.next("alive")).alive
        assert "does not hold this job's key" in alive.problem
        assert not made.of(effects.OfferLease)
        driver.ticket_key = right
        assert (await device.accept()).driver_address == driver.address
        assert (await follower.next("alive")).alive.address_verified


async def test_nothing_is_leased_while_the_driver_is_away() -> None:
    time = FakeClock()
    settings = EngineSettings(seed=1, policy="fifo", liveness_s=1000.0, recovery_grace_s=0.0)
    async with world(time=time, engine=settings) as made:
        driver = made.driver()
        follower = await driver.start()
        await driver.open()
        await made.until(effects.AcceptAttempt)
        follower.call.cancel()
        await made.until(effects.PauseJob)
        await one_device(made)
        assert not made.of(effects.OfferLease)
        await time.advance(settings.driver_grace_s + 1)
        ended = await made.until(effects.EndAttempt)
        assert ended.reason is AttemptEndReason.DRIVER_AWAY


async def test_a_restarted_driver_gets_its_attempt_and_devices_its_address() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start(demand=2)
        await driver.open()
        phones = [await one_device(made, f"phone-{n}") for n in (1, 2)]
        offers = [await phone.accept() for phone in phones]
        await driver.record(offers[0].lease)
        await driver.stop()
        await made.until(effects.PauseJob)
        again = made.driver(incarnation=2)
        await again.serve()
        answer = await again.submit(demand=2)
        assert answer.open_attempt.key == driver.attempt()
        assert list(answer.open_attempt.leases) == [offers[1].lease]
        assert list(answer.open_attempt.counted) == [offers[0].lease]
        follower = again.follow()
        redirect = (await phones[1].next("redirect")).redirect
        assert (redirect.lease, redirect.driver_address) == (offers[1].lease, again.address)
        assert (await again.record(offers[1].lease)).status == CLOSED
        await follower.next("attempt_ended")
        old = made.driver(incarnation=1)
        assert await refusal(old.record(1)) == (grpc.StatusCode.ABORTED, "SUPERSEDED")


async def test_the_proof_of_an_older_driver_says_nothing_of_a_newer_ones_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as made:
        older = made.driver()
        follower = await older.start()
        await older.open()
        phone = await one_device(made)
        offer = await phone.accept()
        follower.call.cancel()
        await made.until(effects.PauseJob)
        proven, submitted, identify = asyncio.Event(), asyncio.Event(), follow.identify

        async def slow(*asked: Any) -> str | None:
            problem = await identify(*asked)
            proven.set()
            await submitted.wait()
            return problem

        monkeypatch.setattr(follow, "identify", slow)
        beginning = older.follow()
        await proven.wait()
        newer = made.driver(incarnation=2)
        await newer.serve()
        await newer.submit()
        submitted.set()
        await newer.submit()  # a moment later
        assert [job.verified for job in made.coordinator.jobs] == [older.address]
        again = newer.follow()
        redirect = (await phone.next("redirect")).redirect
        assert (redirect.lease, redirect.driver_address) == (offer.lease, newer.address)
        for stream in (beginning, again):
            stream.call.cancel()


async def resumed(made: World, instance: bytes, offer: device_pb2.Offer) -> Device:
    """The same device in a new session, with its lease."""
    device = made.device()
    lease = device_pb2.HeldLease(
        lease=offer.lease, incarnation=made.coordinator.host.incarnation, working=device_pb2.Working()
    )
    await device.check_in(instance=instance, held=[lease])
    return device


async def test_a_device_that_reconnected_is_redirected_in_the_session_that_holds_the_lease() -> None:
    async with world() as made:
        driver, device = made.driver(), made.device()
        await driver.start()
        await driver.open()
        await device.check_in(instance=b"i" * 16)
        offer = await device.accept()
        await made.until(effects.RunLease)
        again = await resumed(made, b"i" * 16, offer)
        await made.until(effects.ResumeLease)
        moved = made.driver(incarnation=2)
        await moved.start()
        redirect = (await again.next("redirect")).redirect
        assert (redirect.lease, redirect.driver_address) == (offer.lease, moved.address)


async def test_a_device_that_was_away_when_its_driver_moved_is_told_as_it_resumes() -> None:
    async with world() as made:
        driver, device = made.driver(), made.device()
        await driver.start()
        await driver.open()
        await device.check_in(instance=b"i" * 16)
        offer = await device.accept()
        await made.until(effects.RunLease)
        await device.vanish()
        await made.until(effects.MissLease)
        moved = made.driver(incarnation=2)
        await moved.start()
        again = await resumed(made, b"i" * 16, offer)
        redirect = (await again.next("redirect")).redirect
        assert (redirect.lease, redirect.driver_address) == (offer.lease, moved.address)


async def test_the_grace_of_absent_drivers_is_in_offers_tickets_and_the_drivers_answer() -> None:
    async with world(engine=EngineSettings(seed=1, policy="fifo", driver_grace_s=300.0)) as made:
        driver = made.driver()
        spec = {"asynchronous": job_pb2.Asynchronous(buffer=1)}
        follower = await driver.start(**spec)
        assert (await driver.submit(**spec)).driver_grace.ToSeconds() == 300
        await driver.open()
        offer = await (await one_device(made)).accept()
        granted = (await follower.next("granted")).granted
        ticket = verify(offer.ticket, driver.ticket_key, offer.ticket.key_id, now_ms=0)
        assert offer.grace.ToSeconds() == 300
        assert ticket.not_after_ms == granted.ends_ms + 300_000 + 60_000


async def test_no_call_of_a_superseded_driver_is_heard() -> None:
    async with world() as made:
        old, new = made.driver(), made.driver(incarnation=2)
        await old.start()
        await old.open()
        await new.start()
        key = {"job": old.key, "driver_incarnation": 1}
        stub = old.stub
        for call in (
            stub.SubmitJob(old.submission()),
            old.open(),
            old.follow().next("alive"),
            old.record(1),
            stub.ReportActivity(job_pb2.ReportActivityRequest(**key)),
            stub.ReportRound(job_pb2.ReportRoundRequest(round=1, **key)),
            stub.FinishJob(job_pb2.FinishJobRequest(**key)),
            stub.CancelJob(job_pb2.CancelJobRequest(reason="my disk is full", failed=True, **key)),
            stub.CancelJob(job_pb2.CancelJobRequest(reason="whoever I am", failed=True, job=old.key)),
        ):
            assert await refusal(call) == (grpc.StatusCode.ABORTED, "SUPERSEDED")
        assert not made.of(effects.EndJob)
        assert (await new.open()).status == job_pb2.ATTEMPT_STATUS_OPEN


async def test_who_calls_about_a_job_that_has_ended_is_told_how_it_did() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start()
        await driver.stub.CancelJob(job_pb2.CancelJobRequest(job=driver.key, reason="not today"))
        finish = job_pb2.FinishJobRequest(job=driver.key, driver_incarnation=1)
        for call in (driver.stub.FinishJob(finish), driver.submit()):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert reason_of(caught.value) == "JOB_ENDED"
            assert metadata_of(caught.value) == {"phase": "cancelled", "why": "not today"}
        again = await driver.stub.CancelJob(job_pb2.CancelJobRequest(job=driver.key, reason="never"))
        assert again.phase == job_pb2.JOB_PHASE_CANCELLED


async def test_a_driver_that_calls_nothing_is_away_though_its_stream_looks_open() -> None:
    time = FakeClock()
    settings = EngineSettings(seed=1, policy="fifo", recovery_grace_s=0.0)
    async with world(time=time, engine=settings) as made:
        driver = made.driver()
        follower = await driver.start()
        assert (await driver.submit()).heartbeat.ToSeconds() == settings.heartbeat_s
        await driver.open()
        for _ in range(5):
            await time.advance(settings.liveness_s - 1)
            await driver.stub.ReportActivity(job_pb2.ReportActivityRequest(job=driver.key, driver_incarnation=1))
        assert not made.of(effects.PauseJob)
        await time.advance(settings.liveness_s)
        assert (await made.until(effects.PauseJob)).reason == "DRIVER_AWAY"
        assert await self_ended(follower.call) == (grpc.StatusCode.UNAVAILABLE, "SILENT")
        again = driver.follow()  # it goes on
        await made.until(effects.ResumeJob)
        assert (await again.next("alive")).alive.address_verified


async def test_a_driver_that_takes_a_job_up_hears_of_no_pause_that_is_over() -> None:
    async with world(engine=EngineSettings(seed=1, policy="fifo", crashes_to_pause=1)) as made:
        driver = made.driver()
        await driver.start()
        await driver.open()
        device = await one_device(made)
        offer = await device.accept()
        await made.until(effects.RunLease)
        crash = device_pb2.Failed(
            lease=offer.lease,
            phase=common_pb2.PHASE_ON_DEVICE,
            reason=common_pb2.FAILURE_REASON_TASK_CRASHED,
            message="ValueError: x has 0 rows",
        )
        await device.say(failed=crash)
        await made.until(effects.PauseJob, lambda pause: pause.reason == "JOB_CRASHES")
        again = driver.follow()  # the same driver: the pause is in force
        assert (await again.next("alive")).alive.paused.reason == "JOB_CRASHES"
        new = made.driver(incarnation=2)
        follower = await new.start()
        assert [frame.alive.paused.reason for frame in follower.seen if frame.HasField("alive")] == ["", ""]
        assert [frame.ended.failure for frame in follower.seen if frame.HasField("ended")] == [crash.reason]


async def test_a_driver_may_give_up_its_attempt_for_the_next_and_the_log_says_so() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start(demand=3)
        await driver.open()
        assert (await driver.open(attempt=2, data="faces")).status == job_pb2.ATTEMPT_STATUS_OPEN
        ended = (await follower.next("attempt_ended")).attempt_ended
        assert (ended.status, ended.reason) == (ABORTED, job_pb2.ATTEMPT_END_REASON_GIVEN_UP)
        (entry,) = [entry for entry in made.coordinator.log.latest() if entry.kind == "ABORT"]
        assert entry.text == "digits round 1: 0 of 3 responses when its driver gave it up; opened again"
