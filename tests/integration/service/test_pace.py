"""The pace of devices over real gRPC: told, told again as the fleet changes, and what silence means under it."""

import grpc
from google.protobuf.duration_pb2 import Duration

from coordinator.engine import effects
from coordinator.engine.model import EngineSettings, SessionEnd
from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.pace import AHEAD, SOONER
from testbed.testing.clock import FakeClock
from tests.integration.service.peers import World, check_in_frame, world
from venn.v1 import device_pb2

HEARTBEAT = {"heartbeat": device_pb2.Heartbeat()}
SLOW = CoordinatorBounds(heartbeats=0.1, reconnects=0.1)  # as many devices as there are in a test are a large fleet
NO_GRACE = EngineSettings(seed=1, policy="fifo", recovery_grace_s=0.0)


def seconds(length: Duration) -> float:
    return round(length.ToNanoseconds() / 1e9, 6)


def interval_s(devices: int) -> float:
    return AHEAD * devices / 0.1 / SOONER


async def idle_job(made: World) -> None:
    await made.driver("idle").start()


async def test_a_device_is_told_its_pace_and_another_one_when_it_speaks_after_the_fleet_has_grown() -> None:
    async with world(bounds=SLOW) as made:
        await idle_job(made)
        first = made.device("first")
        told = (await first.check_in()).pace
        assert seconds(told.heartbeat) == round(interval_s(1), 6)
        assert seconds(told.liveness) == round(3 * interval_s(1), 6)
        assert seconds(told.reconnect) == 10.0
        for number in range(3):
            await made.device(f"next-{number}").check_in()
        seq = await first.say(**HEARTBEAT)
        again = (await first.next("pace")).pace
        assert seconds(again.heartbeat) == round(interval_s(4), 6)
        assert (await first.next("ack")).ack.through == seq
        await first.say(**HEARTBEAT)
        await first.next("ack")
        assert not first.heard  # it is told once


async def test_a_device_without_a_task_is_silent_by_its_pace_and_one_at_a_task_by_the_heartbeat() -> None:
    time = FakeClock()
    async with world(time=time, engine=NO_GRACE, bounds=SLOW) as made:
        driver = made.driver()
        await driver.start()
        worker, idle = made.device("worker"), made.device("idle")
        await worker.check_in()
        await driver.open()
        await worker.accept()
        await made.until(effects.RunLease)
        await idle.check_in()
        for _ in range(5):  # a driver that calls nothing is away, and its job's leases are another matter
            await time.advance(2.4)
            await driver.record()
        assert [effect.device for effect in made.of(effects.EndSession)] == ["worker"]
        await time.advance(3 * interval_s(2) - 15.0)
        assert [effect.device for effect in made.of(effects.EndSession)] == ["worker"]
        await time.advance(5.0)
        await made.until(effects.EndSession, lambda effect: effect.device == "idle")


async def test_a_device_that_comes_back_after_a_power_cut_waits_for_no_slow_pace() -> None:
    time = FakeClock()
    async with world(time=time, engine=NO_GRACE, bounds=SLOW) as made:
        await idle_job(made)
        before = made.device("pi")
        await before.check_in()
        await time.advance(2.0)
        for _ in range(2):  # asked again, it is given no more time
            newcomer = made.device("pi")
            await newcomer.call.write(check_in_frame("pi"))
            assert (await newcomer.end())[0] is grpc.StatusCode.ALREADY_EXISTS
            await time.advance(5.0)
        assert seconds((await before.next("pace")).pace.heartbeat) == 3.0
        assert (await made.until(effects.EndSession)).reason is SessionEnd.SILENT
        await made.device("pi").check_in()


async def test_a_device_that_answers_keeps_its_name_and_gets_its_pace_back() -> None:
    time = FakeClock()
    async with world(time=time, engine=NO_GRACE, bounds=SLOW) as made:
        await idle_job(made)
        first, second = made.device("pi"), made.device("pi")
        await first.check_in()
        await time.advance(2.0)
        await second.call.write(check_in_frame("pi"))
        assert (await second.end())[0] is grpc.StatusCode.ALREADY_EXISTS
        await first.next("pace")
        await first.say(**HEARTBEAT)
        assert seconds((await first.next("pace")).pace.heartbeat) == round(interval_s(1), 6)
        await time.advance(30.0)
        assert not made.of(effects.EndSession)


async def test_after_a_stall_longer_than_the_liveness_interval_what_devices_said_is_read_first() -> None:
    time = FakeClock()
    async with world(time=time, engine=NO_GRACE) as made:
        await idle_job(made)
        devices = [made.device(f"phone-{number}") for number in range(5)]
        for device in devices:
            await device.check_in()
        await time.advance(2.0)
        time.now = 62.0  # this process stood still for a minute
        said = [await device.say(**HEARTBEAT) for device in devices]  # unread: nothing ran in between
        await time.advance(0.0)
        assert not made.of(effects.EndSession)
        for device, seq in zip(devices, said, strict=True):
            assert (await device.next("ack")).ack.through == seq
        await time.advance(9.0)
        assert not made.of(effects.EndSession)
        await time.advance(2.0)
        assert len(made.of(effects.EndSession)) == 5
