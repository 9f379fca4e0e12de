"""An asynchronous job's driver: updates against the model that each device was given, staleness, and a restart."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.integration.driver.scripted import Coordinator, Device
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire import tensors

FLYING: dict[str, Any] = {"demand": 4, "buffer": 2, "lease_s": 60.0}


def response(value: float, n: int = 3) -> dict[str, np.ndarray]:
    return {"w": np.full(1000, value, dtype=np.float32), "n": np.array(n)}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def grant(side: Coordinator, round_: int, lease: int) -> Device:
    granted = pb.LeaseGranted(lease=lease, attempt=side.attempt((round_, 1)), device=f"device-{lease}")
    await side.tell(granted=granted)
    return Device(side, (round_, 1), lease)


async def test_an_update_counts_in_the_round_that_is_open(side: Coordinator, run: Any, tmp_path: Path) -> None:
    """The third device was given the model before round 1, which is 0, and answers in round 2, when the model is 2."""
    async with run(folder=tmp_path / "job", rounds=2, **FLYING) as job:
        devices = [await grant(side, 1, lease) for lease in (1, 2, 3)]
        assert side.submitted[0].spec.asynchronous.buffer == 2
        for device, value in zip(devices[:2], (1.0, 3.0), strict=True):
            assert (await device.submit(response(value))).outcome == common.OUTCOME_COUNTED
        await side.wait_for(lambda s: (2, 1) in s.opened)
        assert (await devices[2].model())["w"][0] == 0.0  # still there
        told = await devices[2].submit(response(6.0), weight=2**0.5)  # an update of 6, one round stale: it weighs 1
        assert (told.outcome, told.attempt.round) == (common.OUTCOME_COUNTED, 1)
        async with await grant(side, 2, 4) as fourth:
            assert (await fourth.model())["w"][0] == 2.0
            await fourth.submit(response(4.0))  # an update of 2
        result = await job
        for device in devices:
            await device.__aexit__()
    assert result.model["w"][0] == pytest.approx(2.0 + (6.0 + 2.0) / 2)
    assert result.model["n"] == 3  # a count is no update
    told_in = [(line["lease"], line["round"], line.get("of_round")) for line in lines(tmp_path / "job/manifest.jsonl")
               if line["kind"] == "response"]  # fmt: skip
    assert told_in == [(1, 1, None), (2, 1, None), (3, 2, 1), (4, 2, None)]
    assert [line["staleness"] for line in lines(tmp_path / "job" / "rounds.jsonl")] == [
        {"mean": 0.0, "max": 0},
        {"mean": 0.5, "max": 1},
    ]
    assert side.recorded[2, 1] == {3: common.OUTCOME_COUNTED, 4: common.OUTCOME_COUNTED}


async def test_between_two_rounds_a_response_waits_for_the_next(side: Coordinator, run: Any, tmp_path: Path) -> None:
    side.closes = False
    async with run(folder=tmp_path / "job", rounds=2, **FLYING):
        devices = [await grant(side, 1, lease) for lease in (1, 2, 3)]
        for device in devices[:2]:
            await device.submit(response(1.0))
        await side.wait_for(lambda s: len(s.recorded.get((1, 1), {})) == 2)
        third = asyncio.create_task(devices[2].submit(response(2.0)))
        done, _ = await asyncio.wait([third], timeout=0.3)
        assert not done
        await side.end_attempt((1, 1), pb.ATTEMPT_STATUS_CLOSED, pb.ATTEMPT_END_REASON_ENOUGH)
        assert (await third).outcome == common.OUTCOME_COUNTED
        await side.wait_for(lambda s: s.recorded.get((2, 1)) == {3: common.OUTCOME_COUNTED})
        for device in devices:
            await device.__aexit__()


async def test_what_is_too_stale_is_a_straggler(side: Coordinator, run: Any, tmp_path: Path) -> None:
    flying = FLYING | {"buffer": 1, "max_staleness": 1}
    async with run(folder=tmp_path / "job", rounds=4, **flying) as job:
        old = await grant(side, 1, 9)
        for round_ in (1, 2):
            async with await grant(side, round_, round_) as device:
                await device.submit(response(1.0))
            await side.wait_for(lambda s, r=round_: (r + 1, 1) in s.opened)
        assert (await old.submit(response(1.0))).outcome == common.OUTCOME_STRAGGLER
        assert (await old.submit(response(1.0))).outcome == common.OUTCOME_DUPLICATE
        await old.__aexit__()
        assert not job.done()


async def test_after_an_abort_earlier_leases_count_no_more(side: Coordinator, run: Any, tmp_path: Path) -> None:
    async with run(folder=tmp_path / "job", rounds=2, **FLYING), await grant(side, 1, 1) as lost:
        await side.end_attempt((1, 1), pb.ATTEMPT_STATUS_ABORTED, pb.ATTEMPT_END_REASON_DRIVER_AWAY)
        await side.wait_for(lambda s: (1, 2) in s.opened)
        assert (await lost.submit(response(9.0))).outcome == common.OUTCOME_STRAGGLER


async def test_a_driver_that_starts_again_knows_former_models(side: Coordinator, run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    async with run(folder=folder, rounds=2, **FLYING):
        for lease, value in ((1, 1.0), (2, 3.0)):
            async with await grant(side, 1, lease) as device:
                await device.submit(response(value))
        await side.wait_for(lambda s: (2, 1) in s.opened)
        async with await grant(side, 1, 3) as slow:
            await slow.submit(response(5.0))  # acknowledged; an update of 5, one round stale
        await side.wait_for(lambda s: (2, 1) in s.recorded)
    assert (folder / "checkpoint.round-1.tensors").exists()
    async with run(folder=folder, rounds=2, resume=True, **FLYING) as job:
        await side.wait_for(lambda s: len(s.submitted) == 2)
        async with Device(side, (1, 1), 3) as again:
            assert (await again.submit(response(5.0))).outcome == common.OUTCOME_DUPLICATE
        async with Device(side, (1, 1), 4) as late:
            assert (await late.model())["w"][0] == 0.0
            assert (await late.submit(response(7.0))).outcome == common.OUTCOME_COUNTED
        result = await job
    assert result.model["w"][0] == pytest.approx(2.0 + (5.0 + 7.0) / 2)
    assert tensors.open_file(folder / "checkpoint.tensors")["w"][0] == result.model["w"][0]
