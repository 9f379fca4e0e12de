"""JobService over real gRPC: idempotence under natural keys, the follow stream, and how a job ends."""

import grpc
import pytest

from coordinator.engine import effects
from coordinator.engine.model import EngineSettings
from testbed.testing.clock import FakeClock
from tests.integration.service.peers import Device, Driver, World, world
from venn.v1 import admin_pb2, common_pb2, device_pb2, job_pb2
from venn.wire.admission import verify
from venn.wire.status import metadata_of, reason_of

CLOSED, ABORTED = job_pb2.ATTEMPT_STATUS_CLOSED, job_pb2.ATTEMPT_STATUS_ABORTED


async def refusal(call: object) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code(), reason_of(caught.value)


async def one_device(made: World, name: str = "phone-1") -> Device:
    device = made.device(name)
    await device.check_in()
    return device


async def test_the_frame_of_a_closed_attempt_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver knows it from the answer to what it recorded."""
    monkeypatch.setattr("coordinator.service.jobs.GATHER_S", 3600.0)
    async with world() as made:
        driver = made.driver()
        follower = await driver.start(demand=1, min_response="1", rounds=1)
        await driver.open()
        offer = await (await one_device(made, "phone-1")).accept()
        assert (await driver.record(offer.lease)).status == CLOSED
        await driver.stub.FinishJob(job_pb2.FinishJobRequest(job=driver.key, driver_incarnation=1))
        while not (message := await follower.call.read()).seq:
            pass  # a sign of life
        kinds = [frame.WhichOneof("frame") for frame in (message, *message.more)]
        assert kinds == ["filled", "attempt_ended", "job_ended"]


async def test_a_round_from_offer_to_close() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start(demand=2, min_response="1", rounds=1)
        assert (await driver.open(data="digits")).places == 2
        phones = [await one_device(made, f"phone-{n}") for n in (1, 2)]
        offers = [await phone.accept() for phone in phones]
        assert offers[0].driver_address == driver.address
        assert offers[0].task.data == "digits"
        assert 0 < offers[0].remaining.ToSeconds() <= 60
        admitted = verify(offers[0].ticket, driver.ticket_key, offers[0].ticket.key_id, now_ms=0)
        assert (admitted.device, admitted.lease, admitted.attempt) == ("phone-1", offers[0].lease, driver.attempt())
        assert (await driver.record(offers[0].lease)).status == job_pb2.ATTEMPT_STATUS_OPEN
        answer = await driver.record(offers[1].lease, offers[0].lease)
        assert (answer.status, answer.responses) == (CLOSED, 2)
        ended = (await follower.next("attempt_ended")).attempt_ended
        assert (ended.status, ended.reason) == (CLOSED, job_pb2.ATTEMPT_END_REASON_ENOUGH)
        told = [(frame.seq, frame.WhichOneof("frame")) for frame in follower.seen if frame.seq]
        assert told == [(1, "filled"), (2, "attempt_ended")]  # it knows what it decided
        for phone, offer in zip(phones, offers, strict=True):
            await phone.finish(offer)
            await phone.next("ack")
        await driver.open(round_=2)
        assert (await phones[0].accept()).attempt.round == 2


async def test_a_request_of_a_driver_that_names_nothing_ends_its_stream() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start()
        nothing = driver.drive.ask(job_pb2.DriveRequest())
        assert await refusal(nothing) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
        assert (await driver.open()).places > 0


async def test_the_end_of_a_task_is_acknowledged_with_the_next_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one message; and a device that leaves before one comes hears it all the same."""
    monkeypatch.setattr("coordinator.service.device_service.ACKNOWLEDGED_WITHIN_S", 60.0)
    async with world() as made:
        driver = made.driver()
        await driver.start(demand=1, rounds=2)
        await driver.open()
        phone = await one_device(made)
        offer = await phone.accept()
        await driver.record(offer.lease)
        await phone.finish(offer)
        await driver.open(round_=2)
        message = await phone.call.read()
        assert message.ack.through == phone.seq
        assert [frame.offer.attempt.round for frame in message.more] == [2]
        await phone.say(accepted=device_pb2.Accepted(lease=message.more[0].offer.lease))
        await phone.finish(message.more[0].offer)
        finished = phone.seq
        await phone.say(goodbye=device_pb2.Goodbye(reason=device_pb2.GOODBYE_REASON_STOPPED))
        assert (await phone.next("ack")).ack.through >= finished


async def test_the_same_submission_has_the_same_answer() -> None:
    async with world() as made:
        driver = made.driver()
        first, again = await driver.submit(), await driver.submit()
        assert (first.ticket_key, first.key_id) == (again.ticket_key, again.key_id)
        assert await refusal(driver.submit(demand=5)) == (grpc.StatusCode.ALREADY_EXISTS, "KEY_REUSED")


async def test_the_same_attempt_has_the_same_answer() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start()
        first, again = await driver.open(), await driver.open()
        assert first.request == again.request
        assert await refusal(driver.open(data="faces")) == (grpc.StatusCode.ALREADY_EXISTS, "KEY_REUSED")
        device = await one_device(made)
        await driver.record((await device.accept()).lease)
        assert (await driver.open()).status == CLOSED


async def test_attempts_come_in_order() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start()
        await driver.open()
        code, reason = await refusal(driver.open(round_=2))
        assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "OUT_OF_ORDER")


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"demand": 0}, "spec.demand"),
        ({"min_response": "2"}, "spec.min_response"),
        ({"requirement": common_pb2.Requirement(comparison={"name": "cpu"})}, "spec.requirement"),
    ],
)
async def test_a_malformed_submission_says_where(spec: dict[str, object], where: str) -> None:
    async with world() as made:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await made.driver().submit(**({"demand": 1} | spec))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert metadata_of(caught.value)["where"] == where


async def test_another_version_is_refused() -> None:
    async with world() as made:
        driver = made.driver()
        request = driver.submission()
        request.version.protocol = 99
        assert await refusal(driver.stub.SubmitJob(request)) == (grpc.StatusCode.FAILED_PRECONDITION, "VERSION")


async def test_an_unknown_job_is_named() -> None:
    async with world() as made:
        driver = made.driver()
        assert await refusal(driver.open()) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_JOB")
        assert await refusal(driver.record(1)) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_JOB")


async def test_a_follower_reads_again_from_any_frame() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start()
        await driver.open()
        device = await one_device(made)
        await driver.record((await device.accept()).lease)
        await follower.next("attempt_ended")
        numbered = [frame for frame in follower.seen if frame.seq]
        again = driver.follow(after_seq=numbered[0].seq)
        await again.next("attempt_ended")
        assert [frame.seq for frame in again.seen] == [frame.seq for frame in numbered[1:]]
        code, error = await self_ended(follower.call)
        assert (code, error) == (grpc.StatusCode.ABORTED, "SUPERSEDED")
        assert await refusal(driver.follow(after_seq=999).next("granted")) == (
            grpc.StatusCode.OUT_OF_RANGE,
            "HISTORY_GONE",
        )


async def self_ended(call: grpc.aio.UnaryStreamCall[object, object]) -> tuple[grpc.StatusCode, str]:
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code(), reason_of(error)
    return await call.code(), ""


async def test_a_job_is_finished_and_watched_to_its_end() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start(rounds=1, requirement_name="any")
        watching = driver.stub.WatchJob(job_pb2.WatchJobRequest(job=driver.key))
        first = (await watching.read()).job
        assert (first.phase, first.requirement) == (job_pb2.JOB_PHASE_ARRIVING, "any")
        await driver.open()
        device = await one_device(made)
        await driver.record((await device.accept()).lease)
        await driver.stub.ReportRound(
            job_pb2.ReportRoundRequest(job=driver.key, driver_incarnation=1, round=1, metrics={"accuracy": 0.9})
        )
        await driver.stub.FinishJob(job_pb2.FinishJobRequest(job=driver.key, driver_incarnation=1))
        assert (await follower.next("job_ended")).job_ended.phase == job_pb2.JOB_PHASE_FINISHED
        last = first
        while (frame := await watching.read()) is not grpc.aio.EOF:
            last = frame.job
        assert last.phase == job_pb2.JOB_PHASE_FINISHED
        assert (last.round, last.responses, last.responses_needed) == (1, 1, 1)
        assert last.history[0].metrics["accuracy"] == 0.9
        await driver.stub.FinishJob(job_pb2.FinishJobRequest(job=driver.key, driver_incarnation=1))


async def test_a_cancelled_job_revokes_its_leases() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start()
        await driver.open()
        device = await one_device(made)
        offer = await device.accept()
        await made.until(effects.RunLease)
        answer = await driver.stub.CancelJob(job_pb2.CancelJobRequest(job=driver.key, reason="enough"))
        assert answer.phase == job_pb2.JOB_PHASE_CANCELLED
        revoke = (await device.next("revoke")).revoke
        assert (revoke.lease, revoke.reason) == (offer.lease, common_pb2.LEASE_END_REVOKED)
        assert (await follower.next("job_ended")).job_ended.message == "enough"


async def test_a_job_that_has_ended_keeps_no_history() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start(demand=1)
        await driver.open()
        await (await one_device(made)).accept()
        job = next(iter(made.coordinator.jobs))
        await follower.next("filled")
        assert job.history.bytes > 0
        assert job.bodies
        await driver.stub.CancelJob(job_pb2.CancelJobRequest(job=driver.key, reason="enough"))
        assert (await follower.next("job_ended")).job_ended.message == "enough"
        assert await self_ended(follower.call) == (grpc.StatusCode.OK, "")
        assert (job.history.bytes, job.history.last, job.bodies) == (0, follower.seen[-1].seq, {})
        code, reason = await self_ended(driver.follow(after_seq=1).call)
        assert (code, reason) == (grpc.StatusCode.OUT_OF_RANGE, "HISTORY_GONE")


async def test_transfers_are_a_sign_of_life() -> None:
    time = FakeClock()
    async with world(time=time, engine=EngineSettings(seed=1, policy="fifo", recovery_grace_s=0.0)) as made:
        driver = made.driver()
        await driver.start()
        await driver.open()
        device = await one_device(made)
        offer = await device.accept()
        await made.until(effects.RunLease)
        for _ in range(3):
            await time.advance(6.0)
            await driver.stub.ReportActivity(
                job_pb2.ReportActivityRequest(job=driver.key, driver_incarnation=1, leases=[offer.lease, 999])
            )
        assert not made.of(effects.EndSession)


async def test_crashes_are_told_and_pause_the_job() -> None:
    async with world(engine=EngineSettings(seed=1, policy="fifo", crashes_to_pause=2)) as made:
        driver = made.driver()
        follower = await driver.start(demand=1)
        await driver.open()
        for name in ("phone-1", "phone-2"):
            device = await one_device(made, name)
            offer = await device.accept()
            crash = device_pb2.Failed(
                lease=offer.lease,
                phase=common_pb2.PHASE_ON_DEVICE,
                reason=common_pb2.FAILURE_REASON_TASK_CRASHED,
                message="ValueError: x has 0 rows",
                output_tail="epoch 1\n\x1b[31mepoch 2",
            )
            await device.say(failed=crash)
            ended = (await follower.next("ended")).ended
            assert ended.phase == common_pb2.PHASE_ON_DEVICE
            assert ended.message == "ValueError: x has 0 rows\nepoch 1\n[31mepoch 2"
        paused = (await follower.next("alive")).alive.paused
        assert paused.reason == "JOB_CRASHES"
        assert "x has 0 rows" in paused.message
        texts = [entry.text for entry in made.coordinator.log.latest() if entry.kind == "FAILED"]
        assert any("phone-1 in digits round 1, on_device" in text and "x has 0 rows" in text for text in texts)
        assert not any("epoch" in text for text in texts)  # a line for people is one line


async def test_a_pause_that_was_lifted_while_the_driver_was_away_is_not_told() -> None:
    async with world(engine=EngineSettings(seed=1, policy="fifo", crashes_to_pause=1)) as made:
        driver = made.driver()
        follower = await driver.start(demand=2, min_response="0.5")
        await driver.open()
        phones = [await one_device(made, f"phone-{n}") for n in (1, 2)]
        offers = [await phone.accept() for phone in phones]
        follower.call.cancel()
        await made.until(effects.PauseJob, lambda pause: pause.reason == "DRIVER_AWAY")
        crash = device_pb2.Failed(
            lease=offers[0].lease,
            phase=common_pb2.PHASE_ON_DEVICE,
            reason=common_pb2.FAILURE_REASON_TASK_CRASHED,
        )
        await phones[0].say(failed=crash)
        await made.until(effects.PauseJob, lambda pause: pause.reason == "JOB_CRASHES")
        assert (await driver.record(offers[1].lease)).status == CLOSED
        await driver.open(round_=2)  # what crashed is forgotten
        again = driver.follow()
        assert not (await again.next("alive")).alive.HasField("paused")


async def test_device_keys_open_no_job_calls() -> None:
    async with world() as made:
        device = made.device()
        call = device.channel.unary_unary("/venn.v1.JobService/SubmitJob")
        assert await refusal(call(b"")) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE")


async def test_a_deadline_aborts_and_the_log_says_so() -> None:
    time = FakeClock()
    async with world(time=time, engine=EngineSettings(seed=1, policy="fifo", recovery_grace_s=0.0)) as made:
        driver: Driver = made.driver()
        follower = await driver.start(demand=3, deadline={"seconds": 5})
        await driver.open()
        await time.advance(6.0)
        assert (await follower.next("attempt_ended")).attempt_ended.status == ABORTED
        await driver.open(attempt=2)
        (entry,) = [entry for entry in made.coordinator.log.latest() if entry.kind == "ABORT"]
        assert entry.text == "digits round 1: 0 of 3 responses at its deadline of 5 s; opened again"


async def test_a_device_that_counts_is_not_leased_to_the_same_round_again() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start(demand=2, min_response="1")
        await driver.open()
        phone = await one_device(made)
        offer = await phone.accept()
        await driver.record(offer.lease)
        await phone.finish(offer)
        await phone.next("ack")
        await phone.vanish()
        again = made.device("phone-1")
        await again.check_in(interval=2)
        answer = await made.admin.Explain(admin_pb2.ExplainRequest(subject="phone-1"))
        assert (answer.state, answer.reasons[0]) == ("waiting", "ONCE: it counts already in round 1 of ann/digits/1")
        told = [(entry.kind, entry.text) for entry in answer.history]
        assert told[0] == ("CHECKED IN", "session 1, interval 1")
        assert ("ENDED", f"lease {offer.lease} counted") in told
        other = await one_device(made, "phone-2")
        await driver.record((await other.accept()).lease)
        await driver.open(round_=2)
        assert (await again.accept()).attempt.round == 2
