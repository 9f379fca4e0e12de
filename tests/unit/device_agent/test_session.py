"""Each protocol rule that concerns the device, on a clock of ours and with scripted frames."""

import math
from dataclasses import dataclass, field

import pytest

from device_agent.actions import (
    Action,
    CloseReason,
    CloseStream,
    LeaseKey,
    MoveDriver,
    Refusal,
    Send,
    StartTask,
    StopTask,
)
from device_agent.held import Stage
from device_agent.session import WELCOME_WITHIN_S, Link, Session
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as pb

INCARNATION = 1_700_000_000_000
HEARTBEAT_S, LIVENESS_S = 3.0, 10.0


def key(lease: int, incarnation: int = INCARNATION) -> LeaseKey:
    return LeaseKey(incarnation, lease)


def receipt(lease: int) -> common.Receipt:
    return common.Receipt(lease=lease, outcome=common.OUTCOME_COUNTED)


@dataclass
class Script:
    """A session, and all that it said and asked for."""

    refusal: Refusal | None = None
    now: float = 100.0
    draw: float = 0.0  # to 1: how much sooner than it must it says something
    said: list[pb.ConnectRequest] = field(default_factory=list)
    asked: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_in = pb.CheckIn(device="d", instance=bytes(16), tasks_per_session=1)
        self.session = Session(check_in, lambda _: self.refusal, lambda: self.draw)

    def note(self, actions: list[Action]) -> None:
        self.said += [action.frame for action in actions if isinstance(action, Send)]
        self.asked += [action for action in actions if not isinstance(action, Send)]

    def dial(self, interval: int = 1) -> pb.CheckIn:
        self.said.clear()
        self.note(self.session.dial(interval, self.now))
        return self.said[0].check_in

    def hear(self, **frame: object) -> None:
        self.note(self.session.receive(pb.ConnectResponse(**frame), self.now))  # type: ignore[arg-type]

    def welcome(self, incarnation: int = INCARNATION) -> None:
        welcome = pb.Welcome(incarnation=incarnation, session=1)
        welcome.heartbeat.FromSeconds(int(HEARTBEAT_S))
        welcome.liveness.FromSeconds(int(LIVENESS_S))
        self.hear(welcome=welcome)

    def offer(self, lease: int, remaining_s: int = 15, grace_s: int = 30) -> None:
        offer = pb.Offer(lease=lease, driver_address="127.0.0.1:1")
        offer.remaining.FromSeconds(remaining_s)
        offer.grace.FromSeconds(grace_s)
        self.hear(offer=offer)

    def open(self) -> "Script":
        self.dial()
        self.welcome()
        return self

    def at(self, now: float) -> "Script":
        self.now = now
        self.note(self.session.tick(now))
        return self

    def kinds(self) -> list[str]:
        return [str(frame.WhichOneof("frame")) for frame in self.said]


def test_a_session_begins_with_a_check_in_and_stands_at_the_welcome() -> None:
    script = Script()
    check_in = script.dial(interval=4)
    assert (check_in.device, check_in.interval, check_in.tasks_per_session, check_in.version.protocol) == ("d", 4, 1, 1)
    assert script.session.link is Link.DIALLING
    script.welcome()
    assert script.session.link is Link.OPEN


def test_leases_are_those_of_the_coordinator_that_welcomed_last_though_its_clock_was_set_back() -> None:
    script = Script().open()
    script.session.cut()
    script.dial()
    script.welcome(INCARNATION - 1000)
    script.offer(7)
    script.session.cut()
    [held] = script.dial().held
    assert (held.lease, held.incarnation) == (7, INCARNATION - 1000)


def test_an_offer_is_accepted_at_once_and_its_task_started() -> None:
    script = Script().open()
    script.offer(7, remaining_s=15)
    assert script.kinds() == ["check_in", "accepted"]
    assert [frame.seq for frame in script.said] == [1, 2]
    [start] = script.asked
    assert isinstance(start, StartTask)
    assert start.key == key(7)
    assert start.ends_at == pytest.approx(script.now + 15)


def test_the_same_offer_again_is_accepted_again_and_started_once() -> None:
    script = Script().open()
    script.offer(7)
    script.offer(7)
    assert script.kinds().count("accepted") == 2
    assert len(script.asked) == 1


def test_a_busy_device_declines() -> None:
    script = Script().open()
    script.offer(7)
    script.offer(8)
    assert script.said[-1].declined.lease == 8
    assert script.said[-1].declined.reason == common.FAILURE_REASON_BUSY


def test_what_the_device_must_not_do_is_declined_with_the_reason() -> None:
    script = Script(refusal=Refusal(common.FAILURE_REASON_CODE_NOT_ALLOWED, "not told to", 60.0)).open()
    script.offer(7)
    declined = script.said[-1].declined
    assert (declined.reason, declined.message) == (common.FAILURE_REASON_CODE_NOT_ALLOWED, "not told to")
    assert declined.retry_after.seconds == 60
    assert not script.session.held


def test_something_is_said_at_every_heartbeat_and_progress_counts_as_one() -> None:
    script = Script().open()
    assert script.session.next_deadline() == 103.0
    script.at(103.0)
    assert script.kinds()[-1] == "heartbeat"
    script.hear(ack=pb.Ack(through=2))
    script.offer(7)
    script.session.progressed(key(7), 0.2)
    script.session.progressed(key(7), 0.5)
    script.at(106.0)
    assert script.said[-1].progress.fraction == 0.5
    script.at(109.0)
    assert script.kinds()[-1] == "heartbeat"


def test_a_silent_coordinator_ends_the_session() -> None:
    script = Script().open()
    script.at(109.9)
    assert script.session.link is Link.OPEN
    script.at(110.0)
    assert script.asked == [CloseStream(CloseReason.SILENT)]


def test_an_acknowledged_heartbeat_is_a_sign_of_life() -> None:
    script = Script().open()
    script.now = 109.0
    script.hear(ack=pb.Ack(through=2))
    script.at(112.0)
    assert script.session.link is Link.OPEN
    assert not script.asked


def test_a_check_in_without_an_answer_is_given_up() -> None:
    script = Script()
    script.dial()
    script.at(100 + WELCOME_WITHIN_S)
    assert script.asked == [CloseStream(CloseReason.SILENT)]


def test_after_goodbye_offers_are_ignored() -> None:
    script = Script().open()
    script.note(script.session.leave(pb.GOODBYE_REASON_SESSION_OVER, script.now))
    script.offer(7)
    assert script.kinds() == ["check_in", "goodbye"]
    assert not script.session.held


def test_leaving_stops_the_task_and_it_is_not_named_again() -> None:
    script = Script().open()
    script.offer(7)
    script.note(script.session.leave(pb.GOODBYE_REASON_SESSION_OVER, script.now))
    assert isinstance(script.asked[-1], StopTask)
    script.session.cut()
    assert not script.dial(2).held


@pytest.mark.parametrize(
    ("stage", "phase"),
    [
        (Stage.FETCHING, "fetching"),
        (Stage.WORKING, "working"),
        (Stage.HELD, "working"),
        (Stage.SUBMITTING, "submitting"),
    ],
)
def test_a_lost_stream_keeps_the_lease_and_names_it_with_its_phase(stage: Stage, phase: str) -> None:
    script = Script().open()
    script.offer(7)
    for step in (Stage.FETCHING, Stage.WORKING, Stage.HELD, Stage.SUBMITTING):
        script.session.moved(key(7), step, offset=512 if step is Stage.SUBMITTING else 0)
        if step is stage:
            break
    script.session.cut()
    [held] = script.dial().held
    assert (held.lease, held.incarnation, held.WhichOneof("phase")) == (7, INCARNATION, phase)
    assert held.submitting.offset == (512 if stage is Stage.SUBMITTING else 0)
    script.welcome()
    assert script.session.in_task  # a check-in acknowledges ends, not work under way


def to_submitting(script: Script, lease: int) -> None:
    script.offer(lease)
    for stage in (Stage.WORKING, Stage.SUBMITTING):
        script.session.moved(key(lease), stage)


def test_an_end_is_told_and_forgotten_when_it_is_acknowledged() -> None:
    script = Script().open()
    to_submitting(script, 7)
    script.note(script.session.finished(key(7), receipt(7), pb.TaskMeasure(upload_bytes=9), script.now))
    finished = script.said[-1]
    assert finished.finished.measure.upload_bytes == 9
    script.hear(ack=pb.Ack(through=finished.seq - 1))
    assert key(7) in script.session.held
    assert not script.session.in_task
    script.hear(ack=pb.Ack(through=finished.seq))
    assert not script.session.held


def test_an_unacknowledged_end_is_told_again_at_the_next_check_in() -> None:
    script = Script().open()
    to_submitting(script, 7)
    script.note(script.session.finished(key(7), receipt(7), pb.TaskMeasure(), script.now))
    script.session.cut()
    for _ in range(2):  # the first of these check-ins is lost too
        [held] = script.dial().held
        assert held.done.receipt == receipt(7)
    script.welcome()
    assert not script.session.held


def test_an_end_while_dialling_is_told_after_the_welcome() -> None:
    script = Script().open()
    to_submitting(script, 7)
    script.session.cut()
    script.dial()
    script.note(script.session.finished(key(7), receipt(7), pb.TaskMeasure(), script.now))
    assert script.kinds() == ["check_in"]
    script.welcome()
    assert script.kinds() == ["check_in", "finished"]
    assert script.said[-1].seq == 2


def test_a_failure_while_away_is_named_as_broken() -> None:
    script = Script().open()
    script.offer(7)
    script.session.cut()
    failed = script.session.failed(
        key(7), common.PHASE_FETCH, common.FAILURE_REASON_DRIVER_UNREACHABLE, "away", "", script.now
    )
    assert not failed
    [held] = script.dial().held
    assert (held.broken.phase, held.broken.message) == (common.PHASE_FETCH, "away")


def test_a_revoked_task_is_stopped_and_then_released() -> None:
    script = Script().open()
    script.offer(7)
    script.hear(revoke=pb.Revoke(lease=7, reason=common.LEASE_END_REVOKED))
    assert isinstance(script.asked[-1], StopTask)
    assert script.kinds()[-1] == "accepted"
    script.offer(8)
    assert script.said[-1].declined.reason == common.FAILURE_REASON_BUSY
    script.note(script.session.stopped(key(7), script.now))
    assert script.said[-1].released.lease == 7
    script.offer(9)
    assert script.said[-1].accepted.lease == 9


def test_a_task_that_ends_while_it_is_revoked_is_released_too() -> None:
    script = Script().open()
    to_submitting(script, 7)
    script.hear(revoke=pb.Revoke(lease=7))
    script.note(script.session.finished(key(7), receipt(7), pb.TaskMeasure(), script.now))
    assert script.said[-1].released.lease == 7
    assert not script.session.held


def test_a_revoke_of_what_is_not_held_is_released_at_once() -> None:
    script = Script().open()
    script.hear(revoke=pb.Revoke(lease=3))
    assert script.said[-1].released.lease == 3


def test_a_revoke_of_an_end_that_was_told_late_makes_it_forgotten() -> None:
    script = Script().open()
    to_submitting(script, 7)
    script.note(script.session.finished(key(7), receipt(7), pb.TaskMeasure(), script.now))
    script.hear(revoke=pb.Revoke(lease=7, reason=common.LEASE_END_EXPIRED))
    assert script.said[-1].released.lease == 7
    assert not script.session.held


def test_a_lease_of_an_earlier_incarnation_is_revoked_by_its_number_and_not_confused() -> None:
    script = Script().open()
    script.offer(7)
    script.session.cut()
    assert script.dial().held[0].incarnation == INCARNATION
    script.welcome(INCARNATION + 5)
    script.hear(revoke=pb.Revoke(lease=7, reason=common.LEASE_END_UNKNOWN))
    assert script.asked[-1] == StopTask(key(7), "revoked: LEASE_END_UNKNOWN")
    script.note(script.session.stopped(key(7), script.now))
    script.offer(7)
    assert isinstance(script.asked[-1], StartTask)
    assert script.asked[-1].key == key(7, INCARNATION + 5)


def test_a_redirect_moves_the_driver_of_a_held_lease_only() -> None:
    script = Script().open()
    script.offer(7)
    script.hear(redirect=pb.Redirect(lease=7, driver_address="127.0.0.1:2"))
    assert script.asked[-1] == MoveDriver(key(7), "127.0.0.1:2", b"")
    script.hear(redirect=pb.Redirect(lease=8, driver_address="127.0.0.1:3"))
    assert script.asked[-1] == MoveDriver(key(7), "127.0.0.1:2", b"")


@pytest.mark.parametrize(
    ("reason", "after_s", "close"),
    [
        (pb.COME_BACK_REASON_LIMIT, None, CloseStream(CloseReason.LIMIT)),
        (pb.COME_BACK_REASON_LIMIT, 3600, CloseStream(CloseReason.COME_BACK, 3600.0)),
        (pb.COME_BACK_REASON_NO_WORK, 4, CloseStream(CloseReason.COME_BACK, 4.0)),
        (pb.COME_BACK_REASON_OVERLOAD, 60, CloseStream(CloseReason.COME_BACK, 60.0)),
    ],
)
def test_come_back_is_answered_by_goodbye(
    reason: pb.ComeBackReason.ValueType, after_s: int | None, close: CloseStream
) -> None:
    script = Script().open()
    come_back = pb.ComeBack(reason=reason)
    if after_s is not None:
        come_back.after.FromSeconds(after_s)
    script.hear(come_back=come_back)
    assert script.said[-1].goodbye.reason == pb.GOODBYE_REASON_TOLD_TO
    assert script.asked == [close]


def test_a_drain_is_answered_by_goodbye_and_work_goes_on() -> None:
    script = Script().open()
    script.offer(7)
    script.hear(drain=pb.Drain())
    assert script.said[-1].goodbye.reason == pb.GOODBYE_REASON_TOLD_TO
    assert script.asked[-1] == CloseStream(CloseReason.DRAINED)
    script.session.cut()
    assert script.dial().held[0].lease == 7


def test_a_lease_that_nobody_ends_is_dropped_after_the_grace_that_its_offer_names() -> None:
    script = Script().open()
    script.offer(7, remaining_s=15, grace_s=300)
    [start] = script.asked
    assert isinstance(start, StartTask)
    assert start.grace_s == 300
    script.session.cut()
    assert script.session.next_deadline() == script.now + 15 + 300
    script.at(script.session.next_deadline())
    assert script.asked[-1] == StopTask(key(7), "its lease is over")
    assert script.session.next_deadline() == math.inf


def test_a_task_that_runs_out_of_its_lease_ends_without_a_word() -> None:
    script = Script().open()
    script.offer(7)
    script.note(script.session.stopped(key(7), script.now))
    assert script.kinds() == ["check_in", "accepted"]
    assert not script.session.held
