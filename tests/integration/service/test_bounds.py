"""What a member can make a coordinator hold and write down, over real gRPC: sessions, check-ins, frames, jobs."""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from coordinator.engine import effects
from coordinator.engine.model import SessionEnd
from coordinator.service.bounds import CoordinatorBounds
from job_driver.client import PASSING
from tests.integration.service.peers import Device, World, check_in_frame, world
from venn.v1 import common_pb2, device_pb2
from venn.wire.calls import device_stub
from venn.wire.status import reason_of

LARGE = common_pb2.Capabilities(
    labels={f"label-{number}": common_pb2.LabelValues(values=["x" * 100, "y" * 100]) for number in range(60)}
)


async def idle_job(made: World) -> None:
    await made.driver("idle").start()


async def refusal(device: Device) -> tuple[grpc.StatusCode, str]:
    code, error = await device.end()
    assert error is not None
    return code, reason_of(error)


async def first_word(call: Any, name: str, **fields: Any) -> str:
    """The reason for which a check-in is refused; empty if it is welcomed."""
    try:
        with suppress(asyncio.InvalidStateError):  # refused before it was said
            await call.write(check_in_frame(name, **fields))
        assert (await call.read()).WhichOneof("frame") == "welcome"
    except grpc.aio.AioRpcError as error:
        return reason_of(error)
    return ""


def written(folder: Path) -> int:
    """Bytes of the journal, without the room that is reserved after them."""
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in folder.glob("events*"))


def counts(made: World) -> dict[str, int]:
    return {refused.bound: refused.times for refused in made.coordinator.view.snapshot().refused}


async def test_the_sessions_of_one_connection_have_a_bound() -> None:
    async with world() as made:
        await idle_job(made)
        first = made.device("phone-0")
        await first.check_in()
        calls, reasons = [], []
        for number in range(1, 20):
            calls.append(device_stub(first.channel).Connect())
            reasons.append(await first_word(calls[-1], f"phone-{number}"))
        assert reasons == [""] * 3 + ["TOO_MANY_SESSIONS"] * 16
        assert len(made.coordinator.engine.sessions) == 4
        assert counts(made) == {"sessions_per_connection": 16}
        calls[0].cancel()
        await made.until(effects.EndSession)
        assert await first_word(device_stub(first.channel).Connect(), "phone-20") == ""


async def test_who_checks_in_again_and_again_on_one_connection_is_refused_and_the_journal_stays_small(
    tmp_path: Path,
) -> None:
    async with world(folder=tmp_path) as made:
        await idle_job(made)
        flood = made.device("flood")
        reasons: Counter[str] = Counter()
        for number in range(200):
            call = device_stub(flood.channel).Connect()
            reasons[await first_word(call, f"name-{number}", capabilities=LARGE)] += 1
            call.cancel()
            while made.coordinator.engine.sessions:
                await made.next_effect()
        assert reasons["TOO_FAST"] > 150
        assert reasons["TOO_FAST"] + reasons[""] == 200
        assert counts(made)["recorded"] == reasons["TOO_FAST"]
        bounds = CoordinatorBounds()
        assert 0 < written(tmp_path) < 2 * bounds.recorded_at_once + 60 * bounds.recorded
        other = made.device("other")
        await other.check_in(capabilities=LARGE)  # nobody else is


async def test_who_makes_us_record_too_much_within_a_session_is_cut_off() -> None:
    async with world(bounds=CoordinatorBounds(recorded_at_once=4096, recorded=1)) as made:
        await idle_job(made)
        device = made.device()
        await device.check_in()
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for lease in range(50):
                await device.say(released=device_pb2.Released(lease=lease + 1))
        assert (await made.until(effects.EndSession)).reason is SessionEnd.BAD_FRAME
        assert counts(made) == {"recorded": 1}


async def test_a_device_that_works_may_say_what_its_leases_need() -> None:
    async with world(bounds=CoordinatorBounds(recorded_at_once=1024, recorded=1)) as made:
        driver = made.driver()
        await driver.start(rounds=30)
        device = made.device()
        await device.check_in()
        for round_ in range(1, 31):
            await driver.open(round_)
            offer = await device.accept()
            await device.finish(offer)
            await driver.record(offer.lease, round_=round_)
        assert not made.of(effects.EndSession)


async def test_large_capabilities_are_refused() -> None:
    async with world(bounds=CoordinatorBounds(capabilities=1000)) as made:
        device = made.device()
        await device.call.write(check_in_frame("phone-1", capabilities=LARGE))
        assert await refusal(device) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
        assert counts(made) == {"capabilities": 1}


async def test_the_unfinished_jobs_of_an_owner_have_a_bound() -> None:
    async with world(bounds=CoordinatorBounds(jobs_per_owner=2)) as made:
        first, second, third = (made.driver(f"job-{number}") for number in range(3))
        await first.submit()
        await second.submit()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await third.submit()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert reason_of(caught.value) == "TOO_MANY_JOBS"
        await first.submit()  # its driver was restarted
        assert counts(made) == {"jobs_per_owner": 1}


async def test_a_driver_that_makes_us_record_too_much_is_refused_and_may_try_again() -> None:
    async with world(bounds=CoordinatorBounds(owner_at_once=5_000, owner=1)) as made:
        driver = made.driver()
        await driver.start(rounds=100)
        for attempt in (1, 2, 3):
            await driver.open(1, attempt, code_name="x" * 1_000)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await driver.open(1, 4, code_name="x" * 1_000)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert reason_of(caught.value) == "TOO_FAST"
        assert caught.value.code() in PASSING
        assert counts(made) == {"owner": 1}
        assert len(made.of(effects.AcceptAttempt)) == 3


async def test_a_coordinator_with_no_file_to_open_still_shows_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as made:
        made.coordinator.machine._sample()
        before = made.coordinator.view.snapshot().host.memory_total_bytes

        def no_file() -> None:
            raise OSError(24, "Too many open files")

        monkeypatch.setattr("coordinator.service.view.psutil.virtual_memory", no_file)
        made.coordinator.machine._sample()
        assert made.coordinator.view.snapshot().host.memory_total_bytes == before > 0
