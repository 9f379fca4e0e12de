"""events.jsonl: what was recorded live gives the same effects again, and a full disk stops the coordinator cleanly."""

import asyncio
import errno
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from coordinator.engine import effects
from coordinator.engine.engine import Engine
from coordinator.engine.model import AttemptStatus, EngineSettings
from coordinator.engine.record import Digest, event_from_json, settings_from_json, texts_of
from coordinator.policies.registry import load_policy
from coordinator.service.journal import FORMAT
from testbed.testing.clock import FakeClock
from tests.integration.service.peers import World, world
from venn.v1 import common_pb2, device_pb2, job_pb2
from venn.wire.status import reason_of


async def play(made: World) -> None:
    """Two devices, two rounds, a crash, a loss, a flood of nonsense, a change of policy."""
    driver = made.driver()
    await driver.start(demand=2, min_response="0.5", rounds=2)
    await driver.open()
    phone, tablet, bad = made.device("phone"), made.device("tablet"), made.device("bad")
    capabilities = common_pb2.Capabilities(
        numbers={"cpu": 0.1 + 0.2}, labels={"site": common_pb2.LabelValues(values=["lab", "attic"])}
    )
    await phone.check_in(capabilities=capabilities, tasks_per_session=3)
    await tablet.check_in()
    first, second = await phone.accept(), await tablet.accept()
    await bad.call.write(device_pb2.ConnectRequest(seq=1))
    await driver.record(first.lease)
    await phone.finish(first)
    failed = device_pb2.Failed(
        lease=second.lease,
        phase=common_pb2.PHASE_ON_DEVICE,
        reason=common_pb2.FAILURE_REASON_TASK_CRASHED,
        message='ValueError: "quoted", and \u00fcml\u00e4uts',
    )
    await tablet.say(failed=failed)
    await driver.open(round_=2)
    third = await phone.accept()
    await made.until(effects.RunLease, lambda effect: effect.lease == third.lease)
    await phone.vanish()
    await made.until(effects.MissLease)
    made.coordinator.engine.set_policy(load_policy("fifo"))
    await driver.record(third.lease, round_=2)


async def test_the_recorded_events_give_the_same_effects_again(tmp_path: Path) -> None:
    async with world(policy="venn", folder=tmp_path, name="replayed") as made:
        await play(made)
        await made.until(effects.EndAttempt, lambda effect: effect.round == 2)
        seen = json.loads(texts_of(made.effects))
    start, *lines, end = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert (start["kind"], start["format"], start["name"], end["kind"]) == ("start", FORMAT, "replayed", "end")
    settings = settings_from_json(start["settings"])
    engine, digest = Engine(settings, load_policy(settings.policy)), Digest()
    again = []
    for number, line in enumerate((line for line in lines if "event" in line), 1):
        assert line["n"] == number
        made_again = engine.handle(event_from_json(line["event"]), line["t"])
        digest.update(line["t"], made_again)
        encoded = json.loads(texts_of(made_again))
        assert encoded == line["effects"]
        again.extend(encoded)
    assert digest.hex() == end["digest"]
    assert json.loads(json.dumps(seen)) == again[: len(seen)]


async def test_signs_of_life_that_change_nothing_are_not_recorded(tmp_path: Path) -> None:
    """Of an idle device, of one that works on what it holds, and of a driver."""
    time = FakeClock()
    settings = EngineSettings(seed=1, policy="fifo", supply_window_s=1e9)  # the supply is not published meanwhile
    async with world(time=time, engine=settings, folder=tmp_path) as made:
        driver = made.driver()
        await driver.start(demand=1)
        await driver.open()
        worker, idle = made.device("worker"), made.device("idle")
        await worker.check_in()
        offer = await worker.accept()
        await made.until(effects.RunLease)
        await idle.check_in()
        recorded = (tmp_path / "events.jsonl").read_text()
        for _ in range(12):
            await time.advance(3.0)
            await idle.say(heartbeat=device_pb2.Heartbeat())
            await idle.next("ack")
            await worker.say(progress=device_pb2.Progress(lease=offer.lease, fraction=0.5))
            await worker.next("ack")
            await driver.stub.ReportActivity(job_pb2.ReportActivityRequest(job=driver.key, driver_incarnation=1))
        assert (tmp_path / "events.jsonl").read_text() == recorded
        assert len(made.coordinator.engine.sessions) == 2


class NoSpace:
    """A journal's file on a full disk."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


async def test_a_full_disk_stops_what_is_new_and_nothing_else_and_heals(tmp_path: Path) -> None:
    time = FakeClock()
    settings = EngineSettings(seed=1, policy="fifo", supply_window_s=1e9)
    async with world(folder=tmp_path, time=time, engine=settings) as made:
        driver = made.driver()
        await driver.start(demand=1, rounds=2)
        await driver.open()
        worker, late = made.device("worker"), made.device("late")
        await worker.check_in()
        offer = await worker.accept()
        await made.until(effects.RunLease)
        journal, host, full = made.coordinator.journal, made.coordinator.host, asyncio.Event()
        host.watch_space(lambda is_full: full.set() if is_full else None)
        assert journal is not None
        file = journal._file
        journal._file = NoSpace(file)  # type: ignore[assignment]
        await worker.say(progress=device_pb2.Progress(lease=99, fraction=0.5))  # news: it is to be recorded
        await full.wait()
        for refused in (driver.submit(demand=1, rounds=2), driver.record(offer.lease), late.check_in()):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await refused
            assert reason_of(caught.value) == "OUT_OF_SPACE"
        (job,) = made.coordinator.view.snapshot().jobs
        assert "disk is full" in job.waits
        explained = made.coordinator.view.explain("digits")
        assert explained is not None
        assert "disk is full" in explained.reasons[0]
        assert made.coordinator.view.snapshot().log[0].kind == "DISK FULL"
        await time.advance(30.0)  # in which nobody is read
        assert len(made.coordinator.engine.sessions) == 1
        journal._file = file
        await time.advance(1.0)
        await made.until(effects.RevokeLease)
        assert not host.full
        await driver.record(offer.lease)
        ended = await made.until(effects.EndAttempt)
        assert ended.status is AttemptStatus.CLOSED
        assert "SPACE" in [entry.kind for entry in made.coordinator.view.snapshot().log]
