"""DeviceService over real gRPC: what a device says, and what becomes of it."""

import asyncio
import secrets
from contextlib import suppress

import grpc
import pytest

from coordinator.engine import effects
from coordinator.engine.model import EngineSettings, LeaseEnd, SessionEnd
from coordinator.service import device_service, sessions
from coordinator.service.bounds import CoordinatorBounds
from testbed.testing.clock import FakeClock
from tests.integration.service.peers import Device, World, check_in_frame, world
from venn.v1 import common_pb2, device_pb2
from venn.v1.common_pb2 import Version
from venn.wire.keys import new_key
from venn.wire.status import metadata_of, reason_of

HEARTBEAT = {"heartbeat": device_pb2.Heartbeat()}


async def refused(device: Device, *, by: grpc.StatusCode, reason: str) -> dict[str, str]:
    code, error = await device.end()
    assert code is by
    assert error is not None
    assert reason_of(error) == reason
    return metadata_of(error)


async def idle_job(made: World) -> None:
    """A job without an attempt: devices wait for it."""
    driver = made.driver("idle")
    await driver.start()


async def test_a_check_in_is_welcomed() -> None:
    async with world() as made:
        await idle_job(made)
        welcome = await made.device().check_in()
        assert welcome.session == 1
        assert welcome.incarnation == made.coordinator.host.incarnation
        assert (welcome.heartbeat.ToSeconds(), welcome.liveness.ToSeconds()) == (3, 10)
        assert welcome.version.protocol == 1


async def test_a_key_that_is_not_known_is_refused() -> None:
    async with world() as made:
        device = made.device(key=new_key())
        await refused(device, by=grpc.StatusCode.UNAUTHENTICATED, reason="UNKNOWN_KEY")
        assert not made.effects


async def test_a_late_check_in_may_dial_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_service, "FIRST_FRAME_S", 0.05)
    async with world() as made:
        late = made.device()
        await refused(late, by=grpc.StatusCode.UNAVAILABLE, reason="NO_CHECK_IN")


async def test_another_version_is_refused_and_both_are_named() -> None:
    async with world() as made:
        device = made.device()
        await device.call.write(check_in_frame("phone-1", version=Version(protocol=99, software="9.9")))
        said = await refused(device, by=grpc.StatusCode.FAILED_PRECONDITION, reason="VERSION")
        assert "99" in said["caller"]
        assert "protocol 1" in said["server"]


@pytest.mark.parametrize(
    "frame",
    [
        device_pb2.ConnectRequest(),
        device_pb2.ConnectRequest(seq=1, heartbeat=device_pb2.Heartbeat()),
        check_in_frame("no spaces, please"),
        check_in_frame("phone-1", instance=b"short"),
        check_in_frame(
            "phone-1",
            capabilities=common_pb2.Capabilities(labels={"site": common_pb2.LabelValues(values=["x" * 4096])}),
        ),
        check_in_frame(
            "phone-1", capabilities=common_pb2.Capabilities(numbers={f"n{n}": float(n) for n in range(5000)})
        ),
    ],
    ids=["empty", "heartbeat first", "device id", "instance", "label", "too large"],
)
async def test_a_bad_check_in_is_refused(frame: device_pb2.ConnectRequest) -> None:
    async with world() as made:
        device = made.device()
        await device.call.write(frame)
        await refused(device, by=grpc.StatusCode.INVALID_ARGUMENT, reason="MALFORMED")
        assert not made.effects


async def test_bytes_that_are_no_frame_end_the_session_and_nothing_else() -> None:
    async with world() as made:
        await idle_job(made)
        good, bad = made.device("good"), made.device("bad")
        await good.check_in()
        raw = bad.channel.stream_stream("/venn.v1.DeviceService/Connect")()
        await raw.write(check_in_frame("bad").SerializeToString())
        await raw.read()
        await raw.write(b"\xff" * 100)
        assert await raw.code() is grpc.StatusCode.INVALID_ARGUMENT
        ended = await made.until(effects.EndSession)
        assert (ended.device, ended.reason) == ("bad", SessionEnd.BAD_FRAME)
        seq = await good.say(**HEARTBEAT)
        assert (await good.next("ack")).ack.through == seq


async def test_frames_are_numbered_upwards() -> None:
    async with world() as made:
        await idle_job(made)
        device = made.device()
        await device.check_in()
        device.seq = 0
        await device.say(**HEARTBEAT)
        await refused(device, by=grpc.StatusCode.INVALID_ARGUMENT, reason="MALFORMED")


async def test_a_flood_is_cut_off() -> None:
    async with world() as made:
        await idle_job(made)
        device = made.device()
        await device.check_in()
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for _ in range(CoordinatorBounds().frames_at_once * 20):
                await device.say(**HEARTBEAT)
        assert (await made.until(effects.EndSession)).reason is SessionEnd.BAD_FRAME
        [refused] = made.coordinator.view.snapshot().refused
        assert (refused.bound, refused.times) == ("frames", 1)


async def test_goodbye_tells_leaving_from_dying() -> None:
    async with world() as made:
        await idle_job(made)
        polite, dead = made.device("polite"), made.device("dead")
        await polite.check_in()
        await dead.check_in()
        await polite.say(goodbye=device_pb2.Goodbye(reason=device_pb2.GOODBYE_REASON_SESSION_OVER))
        assert (await polite.end())[0] is grpc.StatusCode.OK
        await dead.vanish()
        left = await made.until(effects.EndSession, lambda effect: effect.device == "polite")
        lost = await made.until(effects.EndSession, lambda effect: effect.device == "dead")
        assert left.reason is SessionEnd.GOODBYE_SESSION_OVER
        assert lost.reason is SessionEnd.CONNECTION_ENDED


async def test_half_a_close_is_a_loss_too() -> None:
    async with world() as made:
        await idle_job(made)
        device = made.device()
        await device.check_in()
        await device.call.done_writing()
        assert (await made.until(effects.EndSession)).reason is SessionEnd.CONNECTION_ENDED


async def test_the_newest_stream_of_an_instance_wins() -> None:
    async with world() as made:
        await idle_job(made)
        instance = secrets.token_bytes(16)
        older, newer = made.device(), made.device()
        await older.check_in(instance=instance)
        await newer.check_in(instance=instance)
        await refused(older, by=grpc.StatusCode.ABORTED, reason="SUPERSEDED")
        seq = await newer.say(**HEARTBEAT)
        assert (await newer.next("ack")).ack.through == seq


async def test_a_second_device_with_the_same_id_is_refused_and_shown() -> None:
    async with world() as made:
        await idle_job(made)
        first, second = made.device(), made.device()
        await first.check_in()
        await second.call.write(check_in_frame("phone-1"))
        said = await refused(second, by=grpc.StatusCode.ALREADY_EXISTS, reason="DUPLICATE_DEVICE")
        assert float(said["retry_after_s"]) > 0
        assert any(entry.kind == "DUPLICATE" for entry in made.coordinator.log.latest())


async def test_silence_is_a_loss() -> None:
    time = FakeClock()
    async with world(time=time, engine=EngineSettings(seed=1, policy="fifo", recovery_grace_s=0.0)) as made:
        await idle_job(made)
        device = made.device()
        await device.check_in()
        await time.advance(9.0)
        await device.say(**HEARTBEAT)
        await device.next("ack")
        await time.advance(9.0)
        assert not made.of(effects.EndSession)
        await time.advance(2.0)
        await refused(device, by=grpc.StatusCode.UNAVAILABLE, reason="SILENT")


async def test_a_lease_of_another_coordinator_is_revoked() -> None:
    async with world() as made:
        await idle_job(made)
        device = made.device()
        held = device_pb2.HeldLease(lease=77, incarnation=5, working=device_pb2.Working())
        await device.check_in(held=[held])
        revoke = (await device.next("revoke")).revoke
        assert (revoke.lease, revoke.reason) == (77, common_pb2.LEASE_END_UNKNOWN)


async def test_no_peer_changes_the_incarnation_of_a_living_coordinator() -> None:
    """Neither by a lease of another one, nor by a field of its own making: drivers would take it for a restart."""

    def named(field: int, value: int) -> bytes:
        return bytes([field << 3]) + common_pb2.Artifact(size=value).SerializeToString()[1:]

    async with world() as made:
        await idle_job(made)
        before = made.coordinator.host.incarnation
        later = before + 3_600_000
        device = made.device()
        frame = check_in_frame(
            "phone-1", held=[device_pb2.HeldLease(lease=7, incarnation=later, working=device_pb2.Working())]
        )
        frame.check_in.MergeFromString(named(9, later))
        await device.call.write(frame)
        assert (await device.next("welcome")).welcome.incarnation == before
        driver = made.driver("faces")
        request = driver.submission()
        request.MergeFromString(named(6, later))
        assert (await driver.stub.SubmitJob(request)).incarnation == before


async def test_a_late_word_about_an_ended_lease_is_answered_by_a_revoke() -> None:
    async with world() as made:
        await idle_job(made)
        device = made.device()
        await device.check_in()
        await device.say(accepted=device_pb2.Accepted(lease=4))
        assert (await device.next("revoke")).revoke.lease == 4


async def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_OUTBOX_BYTES", 2_000)
    async with world() as made:
        driver = made.driver()
        follower = await driver.start()
        device = made.device()
        await device.check_in()
        await driver.open(code_name="x" * 3_000)
        ended = await made.until(effects.EndSession)
        assert ended.reason is SessionEnd.SLOW_READER
        lost = (await follower.next("ended")).ended
        assert lost.reason == common_pb2.LEASE_END_LOST
        await refused(device, by=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="SLOW_READER")


async def test_a_device_at_its_limit_is_sent_away_until_its_next_interval() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start()
        await driver.open()
        device = made.device()
        await device.check_in(tasks_per_session=1)
        await device.finish(await device.accept())
        away = (await device.next("come_back")).come_back
        assert away.reason == device_pb2.COME_BACK_REASON_LIMIT
        assert not away.HasField("after")


async def test_a_lost_device_gives_its_place_to_another() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start()
        await driver.open()
        phone, tablet = made.device("phone"), made.device("tablet")
        await phone.check_in()
        await phone.accept()
        await made.until(effects.RunLease)
        await tablet.check_in()
        await phone.vanish()
        offer = await tablet.accept()
        assert offer.attempt == driver.attempt()
        await driver.record(offer.lease)
        assert (await follower.next("attempt_ended")).attempt_ended.status == 2
        (lost,) = [entry for entry in made.coordinator.log.latest() if entry.kind == "LOST"]
        assert lost.text == "phone in digits round 1, connection ended without goodbye; its place went to tablet"
        assert made.of(effects.EndLease)[0].reason in (LeaseEnd.COUNTED, LeaseEnd.REVOKED)


async def test_a_device_that_comes_back_goes_on() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start()
        await driver.open()
        instance = secrets.token_bytes(16)
        device = made.device()
        welcome = await device.check_in(instance=instance)
        offer = await device.accept()
        await made.until(effects.RunLease)
        await device.vanish()
        await made.until(effects.MissLease)
        again = made.device()
        held = device_pb2.HeldLease(lease=offer.lease, incarnation=welcome.incarnation, working=device_pb2.Working())
        await again.check_in(instance=instance, held=[held])
        assert (await made.until(effects.ResumeLease)).lease == offer.lease
        await again.finish(offer)
        assert (await driver.record(offer.lease)).responses == 1
