"""What a device gets wrong is the fault of its response, which is refused with a reason, and never that of the job."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.integration.driver.scripted import Coordinator, Device
from tests.integration.driver.test_rounds import response
from venn.v1 import common_pb2 as common
from venn.wire import tensors

NO = (1, 1)
SUM = """
import numpy as np
from job_driver import Job, Result, Sum

job = Job(initial=lambda rng: {"n": np.zeros(4, np.int32)}, on_device=lambda m, t: Result(m), aggregate=Sum)
"""
EVALUATE = """
import numpy as np
from job_driver import Job, Result

def evaluate(model, held_out):
    return {f"e{n}": 1.0 for n in range(10)} | {"\\u200b": 2.0, "": 3.0}

job = Job(initial=lambda rng: {"w": np.zeros(4)}, on_device=lambda m, t: Result(m), evaluate=evaluate)
"""


async def refused(side: Coordinator, arrays: Any, *, weight: float = 1.0, metrics: Any = ()) -> str:
    """The reason why a response is rejected."""
    async with Device(side, NO, 9) as device:
        body = tensors.encode(arrays)
        frame = device.header(body, weight=weight, **dict(metrics))
        receipt: common.Receipt = (await device.submit_whole(body, frame)).receipt
    assert receipt.outcome == common.OUTCOME_REJECTED
    return receipt.reason


async def counted(side: Coordinator, lease: int, arrays: Any, **metrics: float) -> None:
    async with Device(side, NO, lease) as device:
        assert (await device.submit(arrays, **metrics)).outcome == common.OUTCOME_COUNTED


@pytest.mark.parametrize("weight", [1e300, 1.7e308, 10_001.0, 5e-324])
async def test_a_weight_beyond_what_the_job_allows_is_refused(
    side: Coordinator, run: Any, tmp_path: Path, weight: float
) -> None:
    """1e300 made the model the device's own, 1.7e308 made it infinite."""
    async with run(folder=tmp_path / "job") as job:
        assert (await refused(side, response(-777.0), weight=weight)).startswith("WEIGHT: ")
        await counted(side, 1, response(1.0))
        await counted(side, 2, response(2.0))
        assert (await job).model["w"][0] == 1.5
    lines = map(json.loads, (tmp_path / "job" / "manifest.jsonl").read_text().splitlines())
    assert [line.get("outcome") for line in lines] == ["rejected", "counted", "counted", None]


async def test_a_job_may_allow_larger_weights(side: Coordinator, run: Any) -> None:
    async with run(more=", most_weight=1e6") as job:
        async with Device(side, NO, 1) as device:
            assert (await device.submit(response(4.0), weight=300_000)).outcome == common.OUTCOME_COUNTED
        async with Device(side, NO, 2) as device:
            assert (await device.submit(response(0.0), weight=100_000)).outcome == common.OUTCOME_COUNTED
        assert (await job).model["w"][0] == 3.0


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31)])
async def test_an_integer_that_the_sum_could_not_hold_is_refused(side: Coordinator, run: Any, value: int) -> None:
    """The largest integer made the job fail."""
    async with run(source=SUM) as job:
        said = await refused(side, {"n": np.array([1, 2, 3, value], np.int32)})
        assert said.startswith("VALUE: n holds a number beyond 1.07374e+09")
        for lease in (1, 2):
            await counted(side, lease, {"n": np.full(4, (2**31 - 1) // 2, np.int32)})
        assert (await job).model["n"].tolist() == [2**31 - 2] * 4


@pytest.mark.parametrize("name", ["", "\u200b", "\u20ac" * 64, "m" * 65])
async def test_a_metric_with_an_odd_name_is_refused(side: Coordinator, run: Any, tmp_path: Path, name: str) -> None:
    """It was counted, and ended the job when the coordinator was told the round's metrics."""
    async with run(folder=tmp_path / "job") as job:
        assert (await refused(side, response(1.0), metrics={name: 1.0})).startswith("METRICS: ")
        await counted(side, 1, response(1.0), loss=1.0)
        await counted(side, 2, response(2.0), loss=3.0)
        assert (await job).finished
    assert side.metrics[1] == {"loss": 2.0}
    first = json.loads((tmp_path / "job" / "manifest.jsonl").read_text().splitlines()[0])
    assert "metrics" not in first


@pytest.mark.parametrize("value", [1.7e308, float("nan"), float("-inf")])
async def test_a_metric_that_no_mean_can_hold_is_refused(side: Coordinator, run: Any, value: float) -> None:
    async with run():
        assert (await refused(side, response(1.0), metrics={"loss": value})).startswith(f"METRICS: loss is {value}")


async def test_more_metrics_than_a_round_can_have_end_no_job(side: Coordinator, run: Any, tmp_path: Path) -> None:
    """One device has 64 of its own, honest ones have another, and the job's ``evaluate`` has odd ones."""
    held_out = tmp_path / "held_out"
    held_out.touch()
    async with run(source=EVALUATE, demand=3, held_out=held_out) as job:
        ones = {"w": np.ones(4)}
        await counted(side, 1, ones, **{f"m{n}": 1.0 for n in range(64)})
        for lease in (2, 3):
            await counted(side, lease, ones, loss=float(lease))
        assert (await job).finished
    told = side.metrics[1]
    assert len(told) == 64
    assert {"e9", "loss", "m0"} < told.keys()
    assert told["loss"] == 2.5
