"""The running sum: sliced, in order, dropped when it is not wanted; and what a response may look like."""

import asyncio
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from job_driver.aggregation import TOGETHER, Aggregation, Counted
from job_driver.bundle import JobError, JobFile
from job_driver.counting import AttemptNo
from job_driver.job import Arrays, Job, Result, Sum, WeightedMean
from job_driver.spool import ResponseHeader
from venn.wire import tensors
from venn.wire.chunks import SMALL_BYTES


class Keeps:
    """Which responses came, in which order."""

    seen: list[float] = []  # noqa: RUF012 - looked at by the tests

    def __init__(self, model: Arrays) -> None:
        Keeps.seen = []

    def add(self, result: Result) -> None:
        if result.weight == 13:
            raise ValueError("unlucky")
        Keeps.seen.append(result.weight)

    def close(self) -> Arrays:
        return {"w": np.zeros(2)}


def job_file(aggregate: type = Keeps) -> JobFile:
    return JobFile(Job(initial=dict, on_device=dict, aggregate=aggregate), Path("job.py"), b"")  # type: ignore[arg-type]


async def closed(aggregation: Aggregation, thread: ThreadPoolExecutor) -> Arrays:
    return await asyncio.get_running_loop().run_in_executor(thread, aggregation.close)


def part(folder: Path, lease: int, arrays: Arrays, weight: float = 0.0, round_: int = 0, **more: float) -> Counted:
    """A response that counts; it weighs as much as its lease's number, unless told otherwise."""
    path = folder / f"{lease}.tensors"
    body = tensors.encode(arrays)
    path.write_bytes(body)
    return Counted(ResponseHeader(AttemptNo(round_, 1), lease, "d", len(body), b"", weight or float(lease), more), path)


@pytest.fixture
def thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


@pytest.mark.parametrize(("in_lease_order", "order"), [(False, [3.0, 1.0, 2.0]), (True, [1.0, 2.0, 3.0])])
async def test_the_order_of_arrival_or_of_leases(
    tmp_path: Path, thread: ThreadPoolExecutor, in_lease_order: bool, order: list[float]
) -> None:
    model = {"w": np.zeros(2)}
    aggregation = Aggregation(job_file(), model, thread, in_lease_order=in_lease_order)
    for lease in (3, 1, 2):
        aggregation.add(*part(tmp_path, lease, model, loss=lease))
    await closed(aggregation, thread)
    assert Keeps.seen == order
    assert aggregation.metrics() == {"loss": (1 + 4 + 9) / 6}


async def test_an_aggregator_that_fails_is_told_with_its_job(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    model = {"w": np.zeros(2)}
    aggregation = Aggregation(job_file(), model, thread, in_lease_order=False)
    aggregation.add(*part(tmp_path, 13, model))
    with pytest.raises(JobError, match="aggregate failed: ValueError: unlucky"):
        await closed(aggregation, thread)


async def test_a_dropped_sum_takes_no_more(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    model = {"w": np.zeros(SMALL_BYTES)}
    aggregation = Aggregation(job_file(), model, thread, in_lease_order=False)
    aggregation.add(*part(tmp_path, 1, model))
    await asyncio.get_running_loop().run_in_executor(thread, lambda: None)
    await aggregation.drop()
    aggregation.add(*part(tmp_path, 2, model))
    await asyncio.get_running_loop().run_in_executor(thread, lambda: None)
    assert Keeps.seen == [1.0]


async def test_dropping_a_sum_waits_for_the_response_that_is_being_added(
    tmp_path: Path, thread: ThreadPoolExecutor
) -> None:
    """Its file is given to another response right afterwards, and the job's code must not see that."""
    model = {"w": np.ones(SMALL_BYTES)}
    begun, go_on, seen = threading.Event(), threading.Event(), []

    class Slow(Keeps):
        def add(self, result: Result) -> None:
            begun.set()
            go_on.wait()
            seen.append(float(result.arrays["w"].sum()))

    aggregation = Aggregation(job_file(Slow), model, thread, in_lease_order=False)
    aggregation.add(*part(tmp_path, 1, model))
    aggregation.add(*part(tmp_path, 2, model))
    await asyncio.to_thread(begun.wait)
    dropping = asyncio.ensure_future(aggregation.drop())
    await asyncio.sleep(0)
    waits = not dropping.done()
    go_on.set()
    await dropping
    assert waits
    assert seen == [float(SMALL_BYTES)]


async def test_small_responses_wake_the_thread_together_and_in_order(tmp_path: Path) -> None:
    class Counted(ThreadPoolExecutor):
        woken = 0

        def submit(self, *arguments: Any, **more: Any) -> Any:
            self.woken += 1
            return super().submit(*arguments, **more)

    model, thread = {"w": np.zeros(2)}, Counted(1)
    aggregation = Aggregation(job_file(), model, thread, in_lease_order=False)
    for lease in range(1, 2 * TOGETHER):
        aggregation.add(*part(tmp_path, lease if lease < 13 else lease + 1, model))
    woken = thread.woken
    await closed(aggregation, thread)
    assert woken == 1
    assert Keeps.seen == [float(lease if lease < 13 else lease + 1) for lease in range(1, 2 * TOGETHER)]


async def test_memory_does_not_grow_with_the_cohort(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    model = {"w": np.ones(1_000_000, np.float32)}
    parts = [part(tmp_path, lease, model) for lease in range(1, 9)]
    tracemalloc.start()
    aggregation = Aggregation(job_file(WeightedMean), model, thread, in_lease_order=False)
    for each in parts:
        aggregation.add(*each)
    after = await closed(aggregation, thread)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.all(after["w"] == 1)
    assert peak < 2.6 * model["w"].nbytes  # the sum in float64 is two models, and the result lies in it


def full(value: float) -> Arrays:
    return {"w": np.full(3, value, np.float32), "n": np.array(5)}


async def test_a_stale_response_is_moved_by_what_the_model_has_changed(
    tmp_path: Path, thread: ThreadPoolExecutor
) -> None:
    model, former = full(10.0), {1: full(2.0), 3: full(8.0)}
    aggregation = Aggregation(job_file(WeightedMean), model, thread, in_lease_order=False, round_=4, former=former)
    aggregation.add(*part(tmp_path, 1, full(6.0), 2.0, 1))  # an update of 4, three rounds stale
    aggregation.add(*part(tmp_path, 2, full(11.0), 1.0, 4))  # an update of 1, fresh
    moved = await closed(aggregation, thread)
    assert moved["w"].dtype == np.float32
    assert moved["w"] == pytest.approx(10.0 + (2.0 / 2.0 * 4.0 + 1.0) / 2.0)
    assert moved["n"] == 5


async def test_what_is_no_model_is_not_moved(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    aggregation = Aggregation(job_file(Sum), full(10.0), thread, in_lease_order=False, round_=2, former={1: full(2.0)})
    for lease, round_ in ((1, 1), (2, 2)):
        aggregation.add(*part(tmp_path, lease, full(3.0), 1.0, round_))
    assert (await closed(aggregation, thread))["w"] == pytest.approx(6.0)


async def test_a_stale_response_weighs_less(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    model = {"w": np.zeros(2)}
    aggregation = Aggregation(job_file(), model, thread, in_lease_order=False, round_=9, former={1: model})
    aggregation.add(*part(tmp_path, 1, model, 6.0, 1))
    await closed(aggregation, thread)
    assert Keeps.seen == [2.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
async def test_a_stale_response_is_moved_no_farther_than_its_numbers_go(
    tmp_path: Path, thread: ThreadPoolExecutor, dtype: type
) -> None:
    largest = WeightedMean.most_value(np.dtype(dtype), 1, 1.0)
    model, former = {"w": np.full(3, largest, dtype)}, {"w": np.full(3, -largest, dtype)}
    aggregation = Aggregation(
        job_file(WeightedMean), model, thread, in_lease_order=False, round_=2, former={1: former}, limits={"w": largest}
    )
    aggregation.add(*part(tmp_path, 1, model, 1.0, 1))
    assert (await closed(aggregation, thread))["w"].tolist() == [dtype(largest)] * 3


async def test_a_model_that_is_not_finite_is_refused(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    class Diverges(Keeps):
        def close(self) -> Arrays:
            return {"w": np.array([1.0, np.inf])}

    model = {"w": np.zeros(2)}
    aggregation = Aggregation(job_file(Diverges), model, thread, in_lease_order=False)
    aggregation.add(*part(tmp_path, 1, model))
    with pytest.raises(JobError, match="the next model is refused: w holds NaN or infinity"):
        await closed(aggregation, thread)
