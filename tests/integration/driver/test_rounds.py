"""A job's rounds, from the first attempt to the checkpoint."""

import asyncio
import errno
import gc
import json
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest

from job_driver.aggregation import Aggregation, Counted
from job_driver.artifacts import Artifact
from job_driver.counting import AttemptNo
from job_driver.spool import Spool
from tests.integration.driver.scripted import Coordinator, Device, piece, refusal
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.v1 import task_pb2 as task
from venn.wire import tensors
from venn.wire.admission import this_version
from venn.wire.chunks import SMALL_BYTES, digest_of
from venn.wire.errors import UsageError
from venn.wire.status import reason_of


def response(value: float, n: int = 3, size: int = 1000) -> dict[str, np.ndarray]:
    return {"w": np.full(size, value, dtype=np.float32), "n": np.array(n)}


async def test_a_driver_with_nothing_to_say_says_that_it_lives(side: Coordinator, run: Any) -> None:
    side.heartbeat_ms = 10
    async with run():
        await side.wait_for(lambda s: s.activity_calls > 2)
    assert side.activity == []


async def test_what_was_the_model_before_is_let_go_of_on_a_thread(
    side: Coordinator, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file has no name any more: it is deleted then and there, and a large one takes its time."""
    gc.collect()  # what earlier tests left in cycles would be counted with it
    gone = dict[str, list[str]]()  # what of which model, and on which threads
    loop, enough = asyncio.get_running_loop(), asyncio.Event()
    open_file, close = tensors.open_file, Artifact.__del__

    def noted(kind: str) -> None:
        gone.setdefault(kind, []).append(threading.current_thread().name.partition("_")[0])
        if sum(map(len, gone.values())) == 5:  # the first artifact is held all the time
            loop.call_soon_threadsafe(enough.set)

    def opened(path: Path) -> Any:
        arrays = open_file(path)
        weakref.finalize(arrays["w"], noted, "arrays")
        return arrays

    def closed(artifact: Artifact) -> None:
        noted("artifact")
        close(artifact)

    monkeypatch.setattr(tensors, "open_file", opened)
    monkeypatch.setattr(Artifact, "__del__", closed)
    async with run(rounds=5):
        for round_ in range(1, 5):
            await side.wait_for(lambda s, r=round_: (r, 1) in s.opened)
            for lease in (10 * round_, 10 * round_ + 1):
                async with Device(side, (round_, 1), lease) as device:
                    await device.submit(response(float(round_)))
        await side.wait_for(lambda s: (5, 1) in s.opened)
        await enough.wait()
        assert gone == {"artifact": ["job"] * 2, "arrays": ["job"] * 3}


async def test_small_responses_come_whole_in_their_headers(side: Coordinator, run: Any, tmp_path: Path) -> None:
    small, other = tensors.encode(response(1.0)), tensors.encode(response(5.0))
    async with run(folder=tmp_path / "job") as job:
        async with Device(side, (1, 1), 1) as one, Device(side, (1, 1), 2) as two:
            answers = await asyncio.gather(*(one.submit_whole(small, one.header(small)) for _ in range(3)))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await two.submit_whole(small[:-1], two.header(small))
            assert reason_of(caught.value) == "HEADER"
            begun = two.begin()
            await begun.write(two.header(other))
            assert (await begun.read()).proceed.offset == 0
            await begun.write(piece(other, 0, 1000))  # a device that comes back may send the rest with its header
            await begun.done_writing()
            assert await refusal(begun) == (grpc.StatusCode.FAILED_PRECONDITION, "TRUNCATED")
            assert (await two.submit_whole(other, two.header(other))).receipt.outcome == common.OUTCOME_COUNTED
        result = await job
    told = {answer.receipt.outcome for answer in answers}
    assert common.OUTCOME_COUNTED in told <= {common.OUTCOME_COUNTED, common.OUTCOME_DUPLICATE}
    assert {answer.receipt.digest for answer in answers} == {digest_of(small)}
    assert side.recorded[1, 1] == {1: common.OUTCOME_COUNTED, 2: common.OUTCOME_COUNTED}
    assert result.model["w"][0] == 3.0


async def test_small_things_pass_in_turn_on_one_stream(side: Coordinator, run: Any) -> None:
    async with run(rounds=2) as job, Device(side, (1, 1), 1) as device, Device(side, (2, 1), 2) as later:
        exchange = device.exchange()
        for no, of in (((1, 1), device), ((2, 1), later)):
            await side.wait_for(lambda s, no=no: no in s.opened)
            model = side.opened[no].task.model
            fetch = task.FetchRequest(ticket=of.ticket, version=this_version(), digest=model.digest, offset=10)
            await exchange.write(task.ExchangeRequest(fetch=fetch))
            fetched = (await exchange.read()).fetched
            assert (fetched.total_bytes, fetched.chunk.offset) == (model.size, 10)
            assert await of.fetch(model, offset=10) == fetched.chunk.data
            body = tensors.encode(response(float(no[0])))
            submit = of.header(body).header
            submit.body = body
            for outcome in (common.OUTCOME_COUNTED, common.OUTCOME_DUPLICATE):
                await exchange.write(task.ExchangeRequest(submit=submit))
                assert (await exchange.read()).receipt.outcome == outcome
            async with Device(side, no, 10 + no[0]) as other:
                await other.submit(body)
        await job
        assert side.recorded == {(n, 1): {n: common.OUTCOME_COUNTED, 10 + n: common.OUTCOME_COUNTED} for n in (1, 2)}


async def test_what_makes_no_sense_in_an_exchange_ends_it(side: Coordinator, run: Any) -> None:
    body = tensors.encode(response(1.0))
    async with run(), Device(side, (1, 1), 1) as device:
        await side.wait_for(lambda s: (1, 1) in s.opened)
        wanted = side.opened[1, 1].task.model
        fetch = task.FetchRequest(ticket=device.ticket, version=this_version(), digest=wanted.digest)
        nothing, forged, other, bare = (task.ExchangeRequest(fetch=fetch) for _ in range(4))
        nothing.fetch.offset = wanted.size
        forged.fetch.ticket.mac = bytes(32)
        other.fetch.digest = bytes(32)
        bare.submit.CopyFrom(device.header(body).header)  # its bytes would come in chunks
        for request, refused in (
            (nothing, (grpc.StatusCode.OUT_OF_RANGE, "SIZE")),
            (forged, (grpc.StatusCode.PERMISSION_DENIED, "TICKET_FORGED")),
            (other, (grpc.StatusCode.NOT_FOUND, "ARTIFACT")),
            (bare, (grpc.StatusCode.INVALID_ARGUMENT, "HEADER")),
            (task.ExchangeRequest(), (grpc.StatusCode.INVALID_ARGUMENT, "HEADER")),
        ):
            exchange = device.exchange()
            await exchange.write(request)
            assert await refusal(exchange) == refused


async def test_an_exchange_that_waits_for_its_device_does_not_hold_up_the_driver(side: Coordinator, run: Any) -> None:
    async with run() as job, Device(side, (1, 1), 1) as one, Device(side, (1, 1), 2) as two:
        await side.wait_for(lambda s: (1, 1) in s.opened)
        model = side.opened[1, 1].task.model
        waiting = one.exchange()
        fetch = task.FetchRequest(ticket=one.ticket, version=this_version(), digest=model.digest)
        await waiting.write(task.ExchangeRequest(fetch=fetch))
        assert (await waiting.read()).HasField("fetched")
        await one.submit(response(1.0))
        await two.submit(response(1.0))
        await job  # does not wait for it
        assert await waiting.read() is grpc.aio.EOF
        assert await waiting.code() is grpc.StatusCode.OK


async def test_a_small_response_with_another_digest_or_nan_is_rejected(side: Coordinator, run: Any) -> None:
    good, poison = tensors.encode(response(1.0)), tensors.encode(response(float("nan")))
    async with run():
        for lease, body, digest, reason in ((1, good, bytes(32), "DIGEST"), (2, poison, None, "TENSOR_NOT_FINITE")):
            async with Device(side, (1, 1), lease) as device:
                frame = device.header(body)
                frame.header.digest = digest or frame.header.digest
                receipt = (await device.submit_whole(body, frame)).receipt
                assert receipt.outcome == common.OUTCOME_REJECTED
                assert receipt.reason.startswith(reason)


async def test_a_round_closes_at_the_kth_response_and_its_mean_is_the_next_model(
    side: Coordinator, run: Any, tmp_path: Path
) -> None:
    async with run(folder=tmp_path / "job", rounds=2) as job:
        for round_, value in ((1, 1.0), (2, 5.0)):
            await side.wait_for(lambda s, r=round_: (r, 1) in s.opened)
            async with Device(side, (round_, 1), 10 * round_) as one, Device(side, (round_, 1), 10 * round_ + 1) as two:
                assert (await one.model())["w"][0] == (0.0 if round_ == 1 else 1.75)
                first = await one.submit(response(value), weight=3, loss=1.0)
                assert first.outcome == common.OUTCOME_COUNTED
                assert (await two.submit(response(value + 3), weight=1, loss=3.0)).outcome == common.OUTCOME_COUNTED
        result = await job
    assert result.finished
    assert [r.number for r in result.rounds] == [1, 2]
    assert result.rounds[0].metrics == {"loss": 1.5}
    assert result.model["w"][0] == np.float32(5.75)
    assert result.model["n"] == 3
    assert side.ended == "finished"
    assert side.metrics[1] == {"loss": 1.5}
    lines = [json.loads(line) for line in (tmp_path / "job" / "rounds.jsonl").read_text().splitlines()]
    assert [(line["round"], line["status"], line["responses"]) for line in lines] == [
        (1, "closed", 2),
        (2, "closed", 2),
    ]
    manifest = [json.loads(line) for line in (tmp_path / "job" / "manifest.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in manifest] == ["response", "response", "attempt"] * 2
    assert manifest[2]["leases"] == [10, 11]
    assert not list((tmp_path / "job" / "spool").iterdir())


class SlowDisk(NamedTuple):
    """The end of an attempt is being written; it is not over before `written` is set."""

    writing: threading.Event
    written: threading.Event


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    disk, end = SlowDisk(threading.Event(), threading.Event()), Spool.end

    def slow(self: Spool, *line: Any) -> None:
        disk.writing.set()
        assert disk.written.wait(10)
        end(self, *line)

    monkeypatch.setattr(Spool, "end", slow)
    return disk


async def test_a_disk_that_is_slow_to_take_the_end_of_an_attempt_holds_up_nobody(
    side: Coordinator, run: Any, slow_disk: SlowDisk
) -> None:
    """It is not written on the event loop, and the next model is not published before it is."""
    async with run(rounds=2) as job:
        await side.wait_for(lambda s: (1, 1) in s.opened)
        async with Device(side, (1, 1), 10) as one, Device(side, (1, 1), 11) as two:
            await one.submit(response(1.0))
            await two.submit(response(2.0))
            await asyncio.to_thread(slow_disk.writing.wait, 10)
            await one.model()  # it is served all the same
            assert (2, 1) not in side.opened
            slow_disk.written.set()
        await side.wait_for(lambda s: (2, 1) in s.opened)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job


async def test_a_driver_that_is_stopped_while_the_end_of_an_attempt_is_written_ends_quietly(
    side: Coordinator, run: Any, slow_disk: SlowDisk, caplog: pytest.LogCaptureFixture
) -> None:
    async with run(rounds=2) as job:
        await side.wait_for(lambda s: (1, 1) in s.opened)
        async with Device(side, (1, 1), 10) as one, Device(side, (1, 1), 11) as two:
            await one.submit(response(1.0))
            await two.submit(response(2.0))
            await asyncio.to_thread(slow_disk.writing.wait, 10)
            job.cancel()
            await asyncio.sleep(0)
            slow_disk.written.set()
            with pytest.raises(asyncio.CancelledError):
                await job
    gc.collect()  # what a task raised is told when it goes
    assert "never retrieved" not in caplog.text


async def test_a_disk_that_refuses_the_end_of_an_attempt_stops_the_driver_and_leaves_the_job(
    side: Coordinator, run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(self: Spool, *line: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Spool, "end", broken)
    async with run(folder=tmp_path / "job") as job:
        async with Device(side, (1, 1), 10) as one, Device(side, (1, 1), 11) as two:
            await one.submit(response(1.0))
            await two.submit(response(2.0))
        async with asyncio.timeout(60):
            with pytest.raises(UsageError, match="cannot be used: Input/output error"):
                await job
    assert side.ended == ""


async def test_an_aborted_attempt_leaves_nothing_in_the_model(side: Coordinator, run: Any, tmp_path: Path) -> None:
    async with run(folder=tmp_path / "job") as job:
        async with Device(side, (1, 1), 1) as lost:
            assert (await lost.submit(response(100.0))).outcome == common.OUTCOME_COUNTED
        await side.end_attempt((1, 1), pb.ATTEMPT_STATUS_ABORTED, pb.ATTEMPT_END_REASON_DEADLINE)
        await side.wait_for(lambda s: (1, 2) in s.opened)
        async with Device(side, (1, 2), 2) as one, Device(side, (1, 2), 3) as two:
            await one.submit(response(1.0))
            await two.submit(response(2.0))
        result = await job
    assert result.model["w"][0] == np.float32(1.5)
    lines = [json.loads(line) for line in (tmp_path / "job" / "rounds.jsonl").read_text().splitlines()]
    assert [(line["attempt"], line["status"], line["reason"]) for line in lines] == [
        (1, "aborted", "deadline"),
        (2, "closed", "enough"),
    ]


async def test_no_file_of_an_aborted_attempt_goes_while_one_is_still_read(
    side: Coordinator, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    reading, read, ended = threading.Event(), threading.Event(), threading.Event()
    end, discard = Spool.end, Spool.discard

    def slow(self: Aggregation, updates: Sequence[Counted]) -> None:
        reading.set()
        assert read.wait(10)
        order.append("read")

    def tell_end(self: Spool, *line: Any) -> None:
        end(self, *line)
        ended.set()

    def tell_discard(self: Spool, no: AttemptNo) -> None:
        order.append("discarded")
        discard(self, no)

    monkeypatch.setattr("job_driver.aggregation.SMALL_BYTES", 0)  # a small response waits for others before it is read
    monkeypatch.setattr(Aggregation, "_add", slow)
    monkeypatch.setattr(Spool, "end", tell_end)
    monkeypatch.setattr(Spool, "discard", tell_discard)
    async with run(size=SMALL_BYTES):  # numbers of 4 bytes: it is read as soon as it is there
        async with Device(side, (1, 1), 10) as one:
            await one.submit(response(1.0, size=SMALL_BYTES))
            await asyncio.to_thread(reading.wait, 10)
            await side.end_attempt((1, 1), pb.ATTEMPT_STATUS_ABORTED, pb.ATTEMPT_END_REASON_DEADLINE)
            await asyncio.to_thread(ended.wait, 10)
            await one.model()  # a moment later
            read.set()
        await side.wait_for(lambda s: (1, 2) in s.opened)
    assert order == ["read", "discarded"]


async def test_an_attempt_has_ended_though_a_slow_disk_still_writes_so(
    side: Coordinator, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, written = threading.Event(), threading.Event()
    end = Spool.end

    def slow(self: Spool, *line: Any) -> None:
        writing.set()
        assert written.wait(10)
        end(self, *line)

    monkeypatch.setattr(Spool, "end", slow)
    async with run():
        await side.wait_for(lambda s: (1, 1) in s.opened)
        await side.end_attempt((1, 1), pb.ATTEMPT_STATUS_ABORTED, pb.ATTEMPT_END_REASON_DEADLINE)
        await asyncio.to_thread(writing.wait, 10)
        async with Device(side, (1, 1), 1) as late:
            outcome = (await late.submit(response(1.0))).outcome
        opened = list(side.opened)
        written.set()
        await side.wait_for(lambda s: (1, 2) in s.opened)
    assert (outcome, opened) == (common.OUTCOME_STRAGGLER, [(1, 1)])


async def test_the_end_of_an_attempt_that_was_not_kept_for_a_slow_driver_is_asked_for(
    side: Coordinator, run: Any
) -> None:
    async with run():
        await side.wait_for(lambda s: s.follow_calls)
        ended = pb.AttemptEnded(attempt=side.attempt((1, 1)), status=pb.ATTEMPT_STATUS_ABORTED)
        side.status[1, 1] = pb.ATTEMPT_STATUS_ABORTED
        await side.forget(attempt_ended=ended)
        await side.wait_for(lambda s: (1, 2) in s.opened)


async def test_a_device_counts_once_in_a_round(side: Coordinator, run: Any, tmp_path: Path) -> None:
    """Its first response was still on its way when it came back as another instance, and was leased again."""
    async with run(folder=tmp_path / "job") as job:
        async with Device(side, (1, 1), 1, name="phone") as before, Device(side, (1, 1), 2, name="phone") as again:
            assert (await before.submit(response(1.0))).outcome == common.OUTCOME_COUNTED
            receipt = await again.submit(response(100.0))
        assert (receipt.outcome, receipt.reason) == (common.OUTCOME_STRAGGLER, "REPEATED")
        async with Device(side, (1, 1), 3) as other:
            assert (await other.submit(response(3.0))).outcome == common.OUTCOME_COUNTED
        result = await job
    assert result.model["w"][0] == np.float32(2.0)
    assert side.recorded[1, 1] == {
        1: common.OUTCOME_COUNTED,
        2: common.OUTCOME_STRAGGLER,
        3: common.OUTCOME_COUNTED,
    }


async def test_a_job_may_let_a_device_count_again(side: Coordinator, run: Any) -> None:
    async with run(repeat="allow") as job:
        for lease in (1, 2):
            async with Device(side, (1, 1), lease, name="phone") as device:
                assert (await device.submit(response(1.0))).outcome == common.OUTCOME_COUNTED
        assert (await job).finished
    assert side.submitted[-1].spec.repeat == pb.REPEAT_ALLOW
