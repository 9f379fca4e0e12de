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
from coordinator.engine.model import EngineSettings
from coordinator.engine.record import Digest, event_from_json, settings_from_json, texts_of
from coordinator.policies.registry import load_policy
from coordinator.service import cli
from coordinator.service.journal import FORMAT
from coordinator.service.server import Coordinator, CoordinatorSettings
from testbed.testing.clock import FakeClock
from tests.integration.gate import KEYS
from tests.integration.service.peers import World, world
from venn.v1 import common_pb2, device_pb2, job_pb2
from venn.wire.errors import ExitCode, PeerError


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
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fileno(self) -> int:
        return int(self._file.fileno())


async def test_a_full_disk_is_one_error_and_a_clean_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready: asyncio.Future[Coordinator] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(cli, "announce", lambda coordinator, as_json: ready.set_result(coordinator))
    settings = CoordinatorSettings(engine=EngineSettings(seed=1, policy="fifo"), keys=KEYS, folder=tmp_path)
    serving = asyncio.create_task(cli.serve(settings, load_policy("fifo"), drain_s=1.0, as_json=True))
    started = await ready
    made = World(started)
    assert started.journal is not None
    file = started.journal._file
    started.journal._file = NoSpace(file)  # type: ignore[assignment]
    device = made.device()
    with pytest.raises((EOFError, grpc.aio.AioRpcError)):
        await device.check_in()
    with pytest.raises(PeerError) as caught:
        await serving
    assert (caught.value.reason, caught.value.exit_code) == ("OUT_OF_SPACE", ExitCode.PEER)
    assert str(tmp_path / "events.jsonl") in str(caught.value)
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 1
    await made.close()
    file.close()
