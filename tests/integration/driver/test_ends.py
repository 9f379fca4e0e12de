"""Restarts, resumption and the ways in which a job ends early."""

import asyncio
import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from job_driver.spool import Spool
from tests.integration.driver.scripted import Coordinator, Device, piece, refusal
from tests.integration.driver.test_rounds import response
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire import tensors
from venn.wire.errors import ExitCode, PeerError, UsageError, VennError

CHANGES = """
import numpy as np
from job_driver import Job, Result

class Grows:
    def __init__(self, model): self.model = model
    def add(self, result): pass
    def close(self): return {"w": np.zeros(7)}

job = Job(initial=lambda rng: {"w": np.zeros(5)}, on_device=lambda m, t: Result(m), aggregate=Grows)
"""


async def submit(side: Coordinator, no: tuple[int, int], lease: int, value: float, **more: Any) -> common.Receipt:
    async with Device(side, no, lease) as device:
        return await device.submit(response(value), **more)


async def submit_all(side: Coordinator, no: tuple[int, int], leases: list[int]) -> None:
    for lease in leases:
        async with Device(side, no, lease) as device:
            assert (await device.submit({"w": np.ones(5)})).outcome == common.OUTCOME_COUNTED


async def test_a_restarted_coordinator_gets_the_job_again_and_the_next_attempt(side: Coordinator, run: Any) -> None:
    async with run() as job:
        assert (await submit(side, (1, 1), 1, 50.0)).outcome == common.OUTCOME_COUNTED
        old = side.ticket((1, 1), 2)
        side.restart()
        await side.tell()
        await side.wait_for(lambda s: (1, 2) in s.opened)
        async with Device(side, (1, 1), 2) as late:
            late.ticket = old
            assert (await late.submit(response(50.0))).outcome == common.OUTCOME_STRAGGLER
        await submit(side, (1, 2), 1, 1.0)
        await submit(side, (1, 2), 2, 2.0)
        result = await job
    assert result.finished
    assert result.model["w"][0] == 1.5
    assert (1, 1) not in side.recorded


@pytest.mark.parametrize("deterministic", [False, True])
async def test_a_killed_driver_resumes_to_the_same_model_bit_by_bit(
    side: Coordinator, run: Any, tmp_path: Path, deterministic: bool
) -> None:
    values = {4: 0.1, 2: 1e7, 3: 0.3, 1: -1e7}  # floats whose sum depends on its order
    first, settings = tmp_path / "job", {"demand": 4, "deterministic": deterministic}
    async with run(folder=first, **settings) as job:
        for lease, value in list(values.items())[:2]:
            await submit(side, (1, 1), lease, value, weight=1.1)
        await side.wait_for(lambda s: len(s.recorded.get((1, 1), ())) == 2)
        shutil.copytree(first, tmp_path / "as-killed")
        for lease, value in list(values.items())[2:]:
            await submit(side, (1, 1), lease, value, weight=1.1)
        whole = await job
    side.status[1, 1] = pb.ATTEMPT_STATUS_OPEN
    side.recorded, side.opened, side._frames = {}, {}, []
    async with run(folder=tmp_path / "as-killed", resume=True, **settings) as job:
        await side.wait_for(lambda s: len(s.recorded.get((1, 1), ())) == 2)  # told again, from the spool
        again = await submit(side, (1, 1), 2, 1e7)
        assert (again.outcome, again.first_outcome) == (common.OUTCOME_DUPLICATE, common.OUTCOME_COUNTED)
        for lease, value in list(values.items())[2:]:
            await submit(side, (1, 1), lease, value, weight=1.1)
        resumed = await job
    assert side.submitted[-1].driver_incarnation > side.submitted[0].driver_incarnation
    assert resumed.model["w"].tobytes() == whole.model["w"].tobytes()


async def test_resuming_after_the_close_but_before_the_model(side: Coordinator, run: Any, tmp_path: Path) -> None:
    async with run(folder=tmp_path / "job", demand=1) as job:
        side.closes = False
        await submit(side, (1, 1), 1, 4.0)
        await side.wait_for(lambda s: s.recorded.get((1, 1)))
        shutil.copytree(tmp_path / "job", tmp_path / "as-killed")
        await side.end_attempt((1, 1), pb.ATTEMPT_STATUS_CLOSED, pb.ATTEMPT_END_REASON_ENOUGH)
        await job
    async with run(folder=tmp_path / "as-killed", demand=1, resume=True) as job:
        result = await job
    assert result.model["w"][0] == 4.0
    lines = (tmp_path / "as-killed" / "manifest.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["response", "attempt"]


async def test_resuming_under_another_coordinator_opens_the_next_attempt(
    side: Coordinator, run: Any, tmp_path: Path
) -> None:
    async with run(folder=tmp_path / "job") as job:
        await submit(side, (1, 1), 1, 50.0)
        job.cancel()
        with suppress(asyncio.CancelledError):
            await job
    assert side.ended == ""  # another driver may go on with it
    side.restart()
    async with run(folder=tmp_path / "job", resume=True) as job:
        await side.wait_for(lambda s: (1, 2) in s.opened)
        await submit(side, (1, 2), 1, 1.0)
        await submit(side, (1, 2), 2, 2.0)
        assert (await job).model["w"][0] == 1.5


async def test_a_stopped_driver_without_a_folder_cancels_its_job(side: Coordinator, run: Any) -> None:
    async with run() as job:
        job.cancel()
        with suppress(asyncio.CancelledError):
            await job
    assert side.ended == "cancelled"


async def test_a_cancelled_job_ends_unfinished(side: Coordinator, run: Any) -> None:
    async with run() as job:
        await side.tell(job_ended=pb.JobEnded(phase=pb.JOB_PHASE_CANCELLED, message="not today"))
        result = await job
    assert (result.finished, result.phase, result.message) == (False, "cancelled", "not today")


async def test_a_job_has_finished_though_the_answer_that_says_so_is_lost(side: Coordinator, run: Any) -> None:
    side.answers_finish = False
    async with run(demand=1) as job:
        await submit(side, (1, 1), 1, 4.0)
        await side.wait_for(lambda s: s.ended)
        side.over = "finished"
        await side.tell(job_ended=pb.JobEnded(phase=pb.JOB_PHASE_FINISHED))
        result = await job
    assert (result.finished, result.phase, result.model["w"][0]) == (True, "finished", 4.0)


@pytest.mark.parametrize("phase", ["finished", "cancelled"])
async def test_who_resumes_a_job_that_has_ended_is_told_how(
    side: Coordinator, run: Any, tmp_path: Path, phase: str
) -> None:
    async with run(demand=1, folder=tmp_path / "job") as job:
        await submit(side, (1, 1), 1, 4.0)
        await job
    side.over = phase
    async with run(demand=1, folder=tmp_path / "job", resume=True) as job:
        result = await job
    assert (result.finished, result.phase, result.message) == (phase == "finished", phase, "not today")
    assert len(result.rounds) == 1


def crashed(message: str) -> pb.DriverAlive:
    return pb.DriverAlive(paused=pb.JobPaused(reason="JOB_CRASHES", message=message))


async def test_a_job_that_crashes_on_devices_gives_up(side: Coordinator, run: Any) -> None:
    async with run() as job:
        await side.tell(alive=crashed("ValueError: no rows"))
        result = await job
    assert (result.finished, result.phase) == (False, "failed")
    assert "ValueError: no rows" in side.cancel_reason


async def test_why_responses_were_refused_is_told_with_the_end(side: Coordinator, run: Any) -> None:
    async with run() as job:
        async with Device(side, (1, 1), 1) as device:
            await device.submit({"w": np.full(5, np.nan)})
        await side.tell(alive=crashed("response_rejected on 5 devices\nits output"))
        result = await job
    assert result.message.startswith("the job crashed on several devices: response_rejected on 5 devices: SIZE: ")
    assert side.cancel_reason == result.message


async def test_a_model_whose_shapes_change_is_told_in_one_line(side: Coordinator, run: Any) -> None:
    async with run(source=CHANGES, demand=1) as job:
        async with Device(side, (1, 1), 1) as device:
            await device.submit({"w": np.zeros(5)})
        with pytest.raises(VennError) as caught:
            await job
    assert caught.value.exit_code == ExitCode.FAILED
    assert "float64[7]" in str(caught.value)
    assert "float64[5]" in str(caught.value)
    assert side.ended == "failed"


async def test_a_full_disk_ends_the_driver_and_neither_the_truth_nor_the_job(
    side: Coordinator, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run(folder=tmp_path / "job") as job:

        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        for module in ("upload", "spool"):  # of a large response, of a small one
            monkeypatch.setattr(f"job_driver.{module}.write_all", full)
        async with Device(side, (1, 1), 1) as device:
            call = device.begin()
            whole = tensors.encode(response(1.0))
            await call.write(device.header(whole))
            await call.read()
            await call.write(piece(whole, 0, len(whole)))
            assert await refusal(call) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OUT_OF_SPACE")
        with pytest.raises(PeerError, match="no space"):
            await job
    assert not (tmp_path / "job" / "manifest.jsonl").read_text()
    assert side.ended == ""
    monkeypatch.undo()
    side.opened.clear()
    async with run(folder=tmp_path / "job", resume=True) as job:
        await submit(side, (1, 1), 1, 1.0)
        await submit(side, (1, 1), 2, 2.0)
        assert (await job).model["w"][0] == 1.5


BROKEN = """
import numpy as np
from job_driver import Job, Result, WeightedMean

class Mean(WeightedMean):
    def add(self, result):
        raise ValueError("a slip of the pen")

def evaluate(model, held_out):
    raise ValueError("a slip of the pen")

job = Job(initial=lambda rng: {"w": np.zeros(5)}, on_device=lambda m, t: Result(m), %s)
"""


@pytest.mark.parametrize("broken", ["aggregate=Mean", "evaluate=evaluate"])
async def test_an_error_in_the_job_file_can_be_mended_and_the_job_goes_on(
    side: Coordinator, run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    (tmp_path / "held_out").touch()
    settings = {"folder": tmp_path / "job", "rounds": 2, "held_out": tmp_path / "held_out"}
    async with run(source=BROKEN % broken, **settings) as job:
        await submit_all(side, (1, 1), [1, 2])
        with pytest.raises(VennError, match="a slip of the pen"):
            await job
    assert side.ended == ""
    assert "the job waits for its driver: continue with --resume" in caplog.text
    async with run(source=BROKEN % "", resume=True, **settings) as job:
        await side.wait_for(lambda s: (2, 1) in s.opened)
        await submit_all(side, (2, 1), [3, 4])
        result = await job
    assert (result.finished, [closed.number for closed in result.rounds]) == (True, [1, 2])


async def test_an_attempt_that_was_opened_with_other_code_is_given_up(
    side: Coordinator, run: Any, tmp_path: Path
) -> None:
    async with run(source=BROKEN % "", folder=tmp_path / "job") as job:
        await submit_all(side, (1, 1), [1])
        job.cancel()
    async with run(source=BROKEN % "" + "# mended", folder=tmp_path / "job", resume=True) as job:
        await side.wait_for(lambda s: (1, 2) in s.opened)
        await submit_all(side, (1, 2), [2, 3])
        result = await job
    assert (result.finished, result.rounds[0].responses) == (True, 2)
    assert side.status[1, 1] == pb.ATTEMPT_STATUS_ABORTED


async def test_no_coordinator_is_one_clear_error(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("job_driver.client.FIRST_CONTACT_S", 0.2)
    async with run(coordinator="127.0.0.1:1") as job:
        with pytest.raises(PeerError, match="does not answer"):
            await job


async def test_a_folder_in_use_and_a_damaged_spool_are_told(side: Coordinator, run: Any, tmp_path: Path) -> None:
    async with run(folder=tmp_path / "job") as job:
        await submit(side, (1, 1), 1, 1.0)
        job.cancel()
    async with run(folder=tmp_path / "job") as job:
        with pytest.raises(UsageError, match="--resume"):
            await job
    (tmp_path / "job" / "spool" / "1-1-1.tensors").write_bytes(b"power was lost")
    async with run(folder=tmp_path / "job", resume=True) as job:
        with pytest.raises(UsageError, match="acknowledged response is missing or damaged"):
            await job
    assert side.ended == ""


async def test_a_second_driver_in_a_folder_is_refused_and_disturbs_nothing(
    side: Coordinator, run: Any, tmp_path: Path
) -> None:
    async with run(folder=tmp_path / "job", demand=1) as job, Device(side, (1, 1), 1) as device:
        call, whole = device.begin(), tensors.encode(response(4.0))
        await call.write(device.header(whole))
        await call.read()
        await call.write(piece(whole, 0, 100))
        async with run(folder=tmp_path / "job", demand=1, resume=True) as second:
            with pytest.raises(UsageError, match=f"another driver works in this folder: process {os.getpid()} on"):
                await second
        await call.write(piece(whole, 100, len(whole)))
        assert (await receipt(call)).outcome == common.OUTCOME_COUNTED
        assert (await job).finished
    assert len(side.submitted) == 1
    async with run(folder=tmp_path / "job", demand=1, resume=True) as after:  # the lock went with its driver
        assert (await after).finished


async def receipt(call: Any) -> common.Receipt:
    while (answer := await call.read()).WhichOneof("frame") != "receipt":
        pass
    return answer.receipt


def test_a_torn_manifest_line_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").write_text(
        '{"kind":"attempt","round":1,"attempt":1,"status":"aborted","leases":[],"incarnation":1,"at":0.0}\n{"kind":"resp'
    )
    spool = Spool(tmp_path)
    assert [attempt.no for attempt in spool.attempts(after_round=0)] == [(1, 1)]
    assert (tmp_path / "manifest.jsonl").read_text().endswith("}\n")
    spool.close()
