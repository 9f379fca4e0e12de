"""A device from its check-in to its goodbye, its crash, or the loss of its stream."""

import asyncio

import grpc
import pytest

from device_agent import device as agent
from device_agent.connection import Lost, Refused
from device_agent.spec import Ending, Interval
from tests.integration.agent.conftest import LONG, Stage, leased, synthetic, task_of
from tests.integration.agent.scripted import INCARNATION, offer
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as device
from venn.wire.errors import PeerError
from venn.wire.keys import new_key


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


async def test_the_end_of_an_interval_is_a_goodbye(stage: Stage) -> None:
    playing = stage.play(lambda: iter([Interval(1, 0.0, 1.0)]))
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


async def test_a_key_that_is_not_known_is_refused_for_good(stage: Stage) -> None:
    stage.key = new_key()
    with pytest.raises(ExceptionGroup) as group:
        await stage.play()
    assert group.group_contains(Refused, match="does not know this key")


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
