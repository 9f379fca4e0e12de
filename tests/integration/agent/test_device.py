"""A device from its check-in to its goodbye, or its crash."""

import asyncio
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

from device_agent import device as agent
from device_agent.connection import Lost, Refused
from device_agent.machine import AllowedCode
from device_agent.spec import Ending, Interval
from job_driver.bundle import pack
from tests.integration.agent.conftest import Stage
from tests.integration.agent.scripted import INCARNATION, Conversation, offer
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as device
from venn.wire import tensors
from venn.wire.chunks import digest_of
from venn.wire.errors import PeerError

MODEL = tensors.encode({"w": np.zeros(200_000)})  # four chunks

NOTHING = "def work(model, task): return Result(model)"
FAILS = "def work(model, task):\n    print('looked at the data')\n    raise ValueError('x has 0 rows')"
LONG = "def work(model, task):\n    import time\n    while True: time.sleep(0.01); task.progress(0.5)"


def code_of(stage: Stage, body: str) -> bytes:
    stage.folder.mkdir(exist_ok=True)
    file = stage.folder / "task.py"
    text = f"from job_driver import Job, Result\n{body}\njob = Job(initial=lambda rng: {{}}, on_device=work)\n"
    file.write_text(text)
    return pack(file)


def task_of(stage: Stage, body: str = NOTHING, model: bytes = MODEL) -> common.Task:
    task = common.Task(model=stage.driver.artifact(model), seed=7)
    task.code.CopyFrom(stage.driver.artifact(code_of(stage, body)))
    task.code_name = "task.py"
    return task


def synthetic(stage: Stage, **numbers: float) -> common.Task:
    task = common.Task(model=stage.driver.artifact(MODEL))
    task.params["kind"].text = "synthetic"
    for name, number in numbers.items():
        task.params[name].number = number
    return task


def once(length_s: float, *, crash: bool = False) -> Callable[[], Iterator[Interval]]:
    return lambda: iter([Interval(1, 0.0, length_s, Ending.CRASH if crash else Ending.GOODBYE)])


async def leased(stage: Stage, task: common.Task, lease: int = 5, *, remaining_s: float = 30.0) -> Conversation:
    """A welcomed device that has accepted this task."""
    stream = await stage.coordinator.stream()
    await stream.welcome()
    await stream.say(offer=offer(lease, stage.driver, task, remaining_s=remaining_s))
    assert (await stream.hear("accepted")).lease == lease
    return stream


async def test_a_task_from_the_offer_to_the_receipt(stage: Stage) -> None:
    stage.play(numbers={"cpu": 4.0}, labels={"site": ("lab",)}, tasks_per_session=2)
    stream = await stage.coordinator.stream()
    check_in = await stream.welcome()
    assert (check_in.device, check_in.interval, check_in.tasks_per_session) == ("d-1", 1, 2)
    assert check_in.capabilities.numbers["cpu"] == 4.0
    assert list(check_in.capabilities.labels["site"].values) == ["lab"]
    await stream.say(offer=offer(5, stage.driver, task_of(stage)))
    await stream.hear("accepted")
    finished = await stream.hear("finished")
    assert finished.receipt.outcome == common.OUTCOME_COUNTED
    assert finished.measure.download_bytes > len(MODEL)
    assert finished.measure.upload_bytes == len(stage.driver.received)
    assert tensors.decode(bytes(stage.driver.received))["w"].shape == (200_000,)
    [line] = stage.lines("receipts")
    assert line["digest"] == digest_of(stage.driver.received).hex()
    expected = {"device": "d-1", "lease": 5, "incarnation": INCARNATION, "job": "test/job/1", "round": 3, "attempt": 1}
    assert line.items() >= {**expected, "outcome": "counted"}.items()


async def test_each_device_fetches_an_artifact_once_and_all_share_one_copy(stage: Stage) -> None:
    task = task_of(stage)
    stage.play(device="a")
    stream = await leased(stage, task)
    await stream.hear("finished")
    stage.driver.received.clear()
    await stream.say(ack=device.Ack(through=3))
    await stream.say(offer=offer(6, stage.driver, task))
    await stream.hear("accepted")
    await stream.hear("finished")
    assert len(stage.driver.fetched) == 2
    stage.driver.received.clear()
    stage.play(device="b")
    await (await leased(stage, task)).hear("finished")
    assert len(stage.driver.fetched) == 4


async def test_cut_transfers_go_on_where_they_were_cut(stage: Stage) -> None:
    stage.driver.cut_fetch_at = stage.driver.cut_submit_at = 1 << 20
    task = synthetic(stage)
    stage.play()
    stream = await leased(stage, task)
    finished = await stream.hear("finished")
    assert [offset for _, offset in stage.driver.fetched] == [0, 1 << 20]
    assert stage.driver.resumed_at == [0, 1 << 20]
    assert stage.driver.headers[0] == stage.driver.headers[1]
    assert finished.measure.download_bytes == len(MODEL)


async def test_a_small_credit_is_kept_to(stage: Stage) -> None:
    stage.driver.credit = 100_000
    stage.play()
    await (await leased(stage, synthetic(stage))).hear("finished")


async def test_a_damaged_chunk_is_fetched_again_and_a_liar_given_up(stage: Stage) -> None:
    stage.driver.corrupt_fetches = 1
    task = synthetic(stage)
    stage.play()
    stream = await leased(stage, task)
    await stream.hear("finished")
    task.model.digest = bytes(32)
    stage.driver.artifacts[bytes(32)] = MODEL
    await stream.say(ack=device.Ack(through=3))
    await stream.say(offer=offer(6, stage.driver, task))
    await stream.hear("accepted")
    failed = await stream.hear("failed")
    assert (failed.phase, failed.reason) == (common.PHASE_FETCH, common.FAILURE_REASON_TRANSFER_FAILED)
    assert "do not have the digest of the offer" in failed.message


async def test_a_crashed_task_is_told_with_its_exception_and_output(stage: Stage) -> None:
    stage.play()
    failed = await (await leased(stage, task_of(stage, FAILS))).hear("failed")
    assert (failed.phase, failed.reason) == (common.PHASE_ON_DEVICE, common.FAILURE_REASON_TASK_CRASHED)
    assert failed.message == "ValueError: x has 0 rows (task.py, line 4)"
    assert "looked at the data" in failed.output_tail
    assert "raise ValueError('x has 0 rows')" in failed.output_tail


async def test_code_that_the_agent_was_not_told_to_run_is_declined(stage: Stage) -> None:
    stage.allowed = AllowedCode(digests=frozenset({bytes(32)}))
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    task = task_of(stage)
    await stream.say(offer=offer(5, stage.driver, task))
    declined = await stream.hear("declined")
    assert declined.reason == common.FAILURE_REASON_CODE_NOT_ALLOWED
    assert f"--allow-code {task.code.digest.hex()}" in declined.message
    assert not stage.driver.fetched


async def test_data_that_the_device_has_not_is_declined(stage: Stage) -> None:
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    task = synthetic(stage)
    task.data = "digits"
    await stream.say(offer=offer(5, stage.driver, task))
    assert (await stream.hear("declined")).reason == common.FAILURE_REASON_DATA_MISSING


async def test_a_task_longer_than_the_coordinators_patience_does_not_silence_the_device(stage: Stage) -> None:
    """The worker does not look up for longer than the liveness interval; heartbeats go on."""
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome(heartbeat_s=0.2, liveness_s=2.0)
    await stream.say(
        offer=offer(5, stage.driver, task_of(stage, "def work(model, task):\n    import time; time.sleep(60)"))
    )
    await stream.hear("accepted")
    for _ in range(12):
        await stream.say(ack=device.Ack(through=2))
        await stream.hear("heartbeat")
    await stream.say(revoke=device.Revoke(lease=5))
    await stream.hear("released")


async def test_a_revoked_task_stops_and_is_released(stage: Stage) -> None:
    stage.play()
    stream = await leased(stage, task_of(stage, LONG))
    await stream.say(revoke=device.Revoke(lease=5, reason=common.LEASE_END_REVOKED))
    assert (await stream.hear("released")).lease == 5
    await stream.say(offer=offer(6, stage.driver, task_of(stage)))
    assert (await stream.hear("accepted")).lease == 6
    await stream.hear("finished")


async def test_modelled_time_is_held_and_lateness_is_told(stage: Stage) -> None:
    stage.modelled = True
    await stage.pool.warm()
    task = synthetic(stage)
    task.workload.compute.FromSeconds(4)
    stage.play(numbers={"cpu": 4.0})
    stream = await leased(stage, task)
    measure = (await stream.hear("finished")).measure
    assert not measure.HasField("late")
    assert 0 < measure.held.ToNanoseconds() / 1e9 <= 1.0
    stage.driver.received.clear()
    task.workload.compute.FromNanoseconds(1_000)
    await stream.say(ack=device.Ack(through=99))
    await stream.say(offer=offer(6, stage.driver, task))
    await stream.hear("accepted")
    measure = (await stream.hear("finished")).measure
    assert measure.late.ToNanoseconds() > 0


async def test_a_lost_stream_is_dialled_again_and_the_lease_kept(stage: Stage) -> None:
    stage.play()
    first = await leased(stage, task_of(stage, LONG))
    first.end(grpc.StatusCode.UNAVAILABLE, "FAULT")
    second = await stage.coordinator.stream()
    check_in = await second.welcome()
    [held] = check_in.held
    assert (held.lease, held.incarnation) == (5, INCARNATION)
    assert check_in.interval == 1
    await second.say(revoke=device.Revoke(lease=5, reason=common.LEASE_END_REPLACED))
    await second.hear("released")


async def test_an_end_that_was_not_acknowledged_is_told_again(stage: Stage) -> None:
    stage.play()
    first = await leased(stage, synthetic(stage))
    await first.hear("finished")
    first.end(grpc.StatusCode.UNAVAILABLE, "FAULT")
    second = await stage.coordinator.stream()
    [held] = (await second.welcome()).held
    assert held.done.receipt.outcome == common.OUTCOME_COUNTED
    second.end(grpc.StatusCode.UNAVAILABLE, "FAULT")
    assert not (await (await stage.coordinator.stream()).welcome()).held


async def test_a_driver_that_was_never_there_costs_the_lease_and_no_more(stage: Stage) -> None:
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    made = offer(5, stage.driver, synthetic(stage), remaining_s=1.0)
    made.driver_address = "127.0.0.1:9"
    await stream.say(offer=made)
    await stream.hear("accepted")
    failed = await stream.hear("failed")
    assert (failed.phase, failed.reason) == (common.PHASE_FETCH, common.FAILURE_REASON_DRIVER_UNREACHABLE)
    assert "driver at 127.0.0.1:9" in failed.message


async def test_a_driver_that_moved_is_followed(stage: Stage) -> None:
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    made = offer(5, stage.driver, synthetic(stage))
    made.driver_address = "127.0.0.1:9"
    await stream.say(offer=made)
    await stream.hear("accepted")
    await stream.say(redirect=device.Redirect(lease=5, driver_address=stage.driver.address))
    await stream.hear("finished")


async def test_a_driver_that_refuses_the_ticket_ends_the_task(stage: Stage) -> None:
    stage.driver.refuse = (grpc.StatusCode.PERMISSION_DENIED, "TICKET_FORGED")
    stage.play()
    failed = await (await leased(stage, synthetic(stage))).hear("failed")
    assert failed.reason == common.FAILURE_REASON_TRANSFER_FAILED


async def test_the_end_of_an_interval_is_a_goodbye(stage: Stage) -> None:
    playing = stage.play(once(1.0))
    stream = await leased(stage, task_of(stage, LONG))
    assert (await stream.hear("goodbye")).reason == device.GOODBYE_REASON_SESSION_OVER
    await stream.hear("end")
    await playing
    start, end = stage.lines("sessions")
    assert (start["event"], start["interval"]) == ("start", 1)
    assert (end["event"], end["how"], end["in_task"]) == ("end", "goodbye", True)


async def test_a_crash_is_the_end_of_the_connection_and_of_what_was_known(stage: Stage) -> None:
    intervals = [Interval(1, 0.0, 1.0, Ending.CRASH), Interval(2, 1.1, 60.0)]
    stage.play(lambda: iter(intervals))
    first = await stage.coordinator.stream()
    instance = (await first.welcome()).instance
    await first.say(offer=offer(5, stage.driver, task_of(stage, LONG)))
    await first.hear("accepted")
    await first.hear("end")  # and no goodbye
    check_in = await (await stage.coordinator.stream()).welcome()
    assert check_in.instance != instance
    assert not check_in.held
    assert check_in.interval == 2
    assert stage.lines("sessions")[1].items() >= {"how": "crash", "in_task": True}.items()


async def test_a_cut_ends_the_connection_and_the_task_goes_on(stage: Stage) -> None:
    intervals = [Interval(1, 0.0, 1.0, Ending.CUT), Interval(2, 1.2, 60.0)]
    stage.play(lambda: iter(intervals))
    first = await stage.coordinator.stream()
    instance = (await first.welcome()).instance
    await first.say(offer=offer(5, stage.driver, task_of(stage, LONG)))
    await first.hear("accepted")
    await first.hear("end")  # and no goodbye
    check_in = await (await stage.coordinator.stream()).welcome()
    assert (check_in.instance, check_in.interval) == (instance, 2)
    assert [held.lease for held in check_in.held] == [5]
    assert stage.lines("sessions")[1].items() >= {"how": "cut", "in_task": True}.items()


async def test_a_silent_device_hears_and_says_nothing_until_it_is_back(stage: Stage) -> None:
    intervals = [Interval(1, 0.0, 0.5, Ending.SILENT), Interval(2, 1.5, 60.0)]
    stage.play(lambda: iter(intervals))
    first = await stage.coordinator.stream()
    instance = (await first.welcome()).instance
    while True:
        if len(stage.lines("sessions")) == 2:
            break
        await asyncio.sleep(0.01)
    await first.say(offer=offer(5, stage.driver, task_of(stage)))
    await first.hear("end")  # neither accepted nor goodbye came before it
    check_in = await stage.coordinator.checked_in()
    assert (check_in.instance, check_in.interval, list(check_in.held)) == (instance, 2, [])
    assert stage.lines("sessions")[1]["how"] == "silent"


async def test_being_stopped_is_a_goodbye(stage: Stage) -> None:
    playing = stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    await asyncio.sleep(0)
    playing.cancel()
    assert (await stream.hear("goodbye")).reason == device.GOODBYE_REASON_STOPPED
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert stage.lines("sessions")[-1]["how"] == "stopped"


async def test_after_its_limit_a_device_waits_for_its_next_interval(stage: Stage) -> None:
    intervals = [Interval(1, 0.0, 1.0), Interval(2, 1.0, 60.0)]
    stage.play(lambda: iter(intervals))
    first = await stage.coordinator.stream()
    await first.welcome()
    await first.say(come_back=device.ComeBack(reason=device.COME_BACK_REASON_LIMIT))
    assert (await first.hear("goodbye")).reason == device.GOODBYE_REASON_TOLD_TO
    assert (await (await stage.coordinator.stream()).welcome()).interval == 2


async def test_without_work_a_device_comes_back_in_the_same_interval(stage: Stage) -> None:
    stage.play()
    first = await stage.coordinator.stream()
    await first.welcome()
    come_back = device.ComeBack(reason=device.COME_BACK_REASON_NO_WORK)
    come_back.after.FromNanoseconds(100_000_000)
    await first.say(come_back=come_back)
    await first.hear("goodbye")
    assert (await (await stage.coordinator.stream()).welcome()).interval == 1


async def test_a_drained_device_says_goodbye_and_dials_again(stage: Stage) -> None:
    stage.play()
    first = await stage.coordinator.stream()
    await first.welcome()
    await first.say(drain=device.Drain())
    await first.hear("goodbye")
    await (await stage.coordinator.stream()).welcome()


async def test_a_silent_coordinator_is_left_and_dialled_again(stage: Stage) -> None:
    stage.play()
    first = await stage.coordinator.stream()
    await first.welcome(heartbeat_s=0.1, liveness_s=0.3)
    await first.hear("end")
    await (await stage.coordinator.stream()).welcome()


@pytest.mark.parametrize(
    ("code", "reason"),
    [(grpc.StatusCode.ABORTED, "SUPERSEDED"), (grpc.StatusCode.FAILED_PRECONDITION, "VERSION")],
)
async def test_what_is_refused_for_good_is_not_dialled_again(stage: Stage, code: grpc.StatusCode, reason: str) -> None:
    playing = stage.play()
    (await stage.coordinator.stream()).end(code, reason)
    with pytest.raises(ExceptionGroup) as group:
        await playing
    [error] = group.value.exceptions
    assert isinstance(error, Refused)
    assert error.reason == reason
    assert error.exit_code == 4


async def test_a_device_waits_while_its_coordinator_is_upgraded_before_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "UPGRADE_S", 0.01)
    stage.play()
    first = await stage.coordinator.stream()
    await first.welcome()
    first.end(grpc.StatusCode.UNAVAILABLE, "DRAINING")
    for _ in range(3):
        (await stage.coordinator.stream()).end(grpc.StatusCode.FAILED_PRECONDITION, "VERSION")
    await (await stage.coordinator.stream()).welcome()


async def test_a_wrong_token_is_refused_for_good(stage: Stage) -> None:
    stage.token = "cd" * 32
    with pytest.raises(ExceptionGroup) as group:
        await stage.play()
    assert group.group_contains(Refused, match="token is missing or wrong")


async def test_a_name_that_is_taken_is_waited_for(stage: Stage) -> None:
    stage.play()
    first = await stage.coordinator.stream()
    first.end(grpc.StatusCode.ALREADY_EXISTS, "DUPLICATE_DEVICE", retry_after_s="0.2")
    await (await stage.coordinator.stream()).welcome()


async def test_a_full_disk_ends_the_device_with_one_clear_line(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise PeerError("OUT_OF_SPACE", "no space is left on the disk", where="receipts.jsonl")

    monkeypatch.setattr(stage.activity, "receipt", full)
    playing = stage.play()
    stream = await leased(stage, synthetic(stage))
    await stream.hear("goodbye")
    with pytest.raises(ExceptionGroup) as group:
        await playing
    assert group.group_contains(PeerError, match="no space is left")


async def test_a_coordinator_that_is_not_there_is_given_up_with_one_clear_line(stage: Stage) -> None:
    stage.address, stage.patience_s = "127.0.0.1:9", 0.3
    with pytest.raises(ExceptionGroup) as group:
        await stage.play()
    [error] = group.value.exceptions
    assert isinstance(error, Lost)
    assert error.reason == "UNREACHABLE"
    assert str(error).startswith("coordinator at 127.0.0.1:9: it does not answer")
