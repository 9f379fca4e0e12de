"""Leases: offers, absence, ends and revocations."""

import pytest

from coordinator.engine.effects import EndLease, MissLease, OfferLease, ResumeLease, RevokeLease, RunLease
from coordinator.engine.events import DeviceHeard, LeaseAccepted, LeaseDeclined, SessionEnded, TaskProgressed
from coordinator.engine.ids import LeaseSeq
from coordinator.engine.lifecycle import DeviceState
from coordinator.engine.model import (
    FailureReason,
    HeldLease,
    HeldPhase,
    LeaseEnd,
    Outcome,
    SessionEnd,
    StragglerRule,
)
from testbed.testing.engine import ScriptedEngine


def working(lease: int, phase: HeldPhase = HeldPhase.WORKING) -> tuple[HeldLease, ...]:
    return (HeldLease(LeaseSeq(lease), phase),)


def test_a_lease_takes_its_place_when_it_is_offered() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.offer("one")
    play.check_in("two")
    assert request.placed == 1
    assert not play.got(OfferLease)
    play.accept("one")
    assert play.one(RunLease).lease == lease


def test_an_offer_that_lapses_ends_unaccepted_and_the_device_gets_none_until_it_speaks() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.offer("one")
    play.wait(9.0)
    play.handle(DeviceHeard(play.session("one")))  # alive, and does not answer
    play.wait(2.0)
    assert play.one(EndLease).reason is LeaseEnd.UNACCEPTED
    assert play.one(RevokeLease).lease == lease
    assert not play.got(OfferLease)
    play.handle(DeviceHeard(play.session("one")))
    assert play.one(OfferLease).device == "one"


def test_a_device_may_decline_and_say_when_to_ask_again() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.offer("one")
    play.handle(LeaseDeclined(play.session("one"), lease, FailureReason.DATA_MISSING, 7.0))
    assert play.one(EndLease).failure is FailureReason.DATA_MISSING
    assert not [effect for effect in play.beat(6) if isinstance(effect, OfferLease)]
    assert [effect for effect in play.beat(2) if isinstance(effect, OfferLease)]


def test_a_device_that_declines_as_busy_is_left_alone_by_all_jobs() -> None:
    play = ScriptedEngine()
    play.request("a", demand=1)
    play.request("b", demand=1)
    lease = play.offer("one")
    play.handle(LeaseDeclined(play.session("one"), lease, FailureReason.BUSY, 5.0))
    assert not play.got(OfferLease)
    assert [effect.job for effect in play.beat(6) if isinstance(effect, OfferLease)] == ["me/a/1"]


@pytest.mark.parametrize("reason", [SessionEnd.CONNECTION_ENDED, SessionEnd.GOODBYE_SESSION_OVER])
def test_a_session_that_ends_while_offered_ends_the_lease_at_once(reason: SessionEnd) -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    play.offer("one")
    play.check_in("two")
    play.leave("one", reason)
    assert play.one(EndLease).reason is LeaseEnd.LOST
    assert play.one(OfferLease).device == "two"  # its place is free at once


def test_a_frame_about_a_lease_that_has_ended_is_answered_by_revoke() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, deadline_s=20.0)
    lease = play.run("one")
    play.beat(21)  # the attempt aborts
    assert request.ended_at == 20.0
    session = play.session("one")
    for event in (LeaseAccepted(session, lease), TaskProgressed(session, lease, 0.5)):
        play.handle(event)
        assert play.one(RevokeLease).reason is LeaseEnd.REVOKED
        assert play.device("one").state is DeviceState.BUSY
    play.finish("one", lease)
    assert play.one(RevokeLease).reason is LeaseEnd.REVOKED
    assert play.device("one").state is DeviceState.IDLE  # it says itself that it is through
    play.handle(LeaseAccepted(session, LeaseSeq(99)))
    assert play.one(RevokeLease).reason is LeaseEnd.UNKNOWN


def test_after_a_revoke_a_device_is_busy_until_it_says_released() -> None:
    play = ScriptedEngine()
    job = play.job(demand=1, deadline_s=5.0)
    play.open(job)
    lease = play.run("one")
    play.beat(6)
    play.open(job, 1, 2)
    assert not play.got(OfferLease)
    play.release("one", lease)
    assert play.one(OfferLease).attempt == 2


def test_after_a_revoke_a_device_is_busy_until_a_session_that_does_not_name_the_lease() -> None:
    play = ScriptedEngine()
    job = play.job(demand=1, deadline_s=5.0)
    play.open(job)
    lease = play.run("one")
    play.beat(6)
    play.open(job, 1, 2)
    play.check_in("one", held=working(lease))
    assert play.one(RevokeLease).reason is LeaseEnd.REVOKED
    assert not play.got(OfferLease)
    play.check_in("one")
    assert play.one(OfferLease).attempt == 2


def test_after_a_revoke_a_device_is_busy_at_most_until_the_leases_expiry() -> None:
    play = ScriptedEngine()
    job = play.job(demand=1, deadline_s=5.0, lease_s=20.0)
    play.open(job)
    play.run("one")
    play.beat(6)
    play.open(job, 1, 2)
    play.open(play.job("b", demand=1))
    assert not [effect for effect in play.beat(13) if isinstance(effect, OfferLease)]
    assert [effect for effect in play.beat(2) if isinstance(effect, OfferLease)]


def test_a_session_lost_while_running_frees_the_place_at_once_and_the_lease_is_absent() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("one")
    play.check_in("two")
    play.leave("one")
    assert play.one(MissLease).lease == lease
    assert play.one(OfferLease).device == "two"
    assert request.placed == 1
    assert not play.got(EndLease)


def test_a_device_that_returns_while_there_is_a_place_runs_on() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("one")
    play.leave("one")
    play.check_in("one", held=working(lease))
    assert play.one(ResumeLease).lease == lease
    assert request.placed == 1
    assert play.lease("one") == lease


def test_a_device_that_returns_too_late_is_replaced_and_busy_until_it_has_stopped() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.run("one")
    play.leave("one")
    play.offer("two")
    play.open(play.job("b", demand=1))
    play.check_in("one", held=working(lease))
    assert play.one(EndLease).reason is LeaseEnd.REPLACED
    assert play.one(RevokeLease).reason is LeaseEnd.REPLACED
    play.release("one", lease)
    assert play.one(OfferLease).job == "me/b/1"


def test_a_device_that_returns_without_its_lease_has_lost_it() -> None:
    play = ScriptedEngine()
    play.request(demand=2)
    play.run("one")
    play.leave("one")
    play.check_in("one")
    assert play.one(EndLease).reason is LeaseEnd.LOST
    assert play.one(OfferLease).device == "one"


def test_an_absent_lease_whose_device_stays_away_is_lost_at_its_expiry() -> None:
    play = ScriptedEngine()
    play.request(demand=1, lease_s=12.0)
    play.run("one")
    play.leave("one")
    ended = [effect for effect in play.wait(12.0) if isinstance(effect, EndLease)]
    assert [effect.reason for effect in ended] == [LeaseEnd.LOST]


def test_a_response_of_an_absent_lease_counts() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("one")
    play.leave("one")
    play.record(request, lease)
    assert play.one(EndLease).reason is LeaseEnd.COUNTED
    assert request.counted == 1


def test_a_device_that_returns_done_is_free_and_its_lease_waits_for_the_record() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("one")
    play.leave("one")
    play.check_in("one", held=(HeldLease(lease, HeldPhase.DONE, Outcome.COUNTED),))
    assert play.device("one").state is DeviceState.IDLE
    assert request.placed == 1  # nobody else is asked meanwhile
    play.record(request, lease)
    assert play.one(EndLease).reason is LeaseEnd.COUNTED


def test_a_device_that_returns_done_when_its_place_is_taken_still_has_its_response_counted() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("one")
    play.leave("one")
    play.run("two")
    play.check_in("one", held=(HeldLease(lease, HeldPhase.DONE, Outcome.COUNTED),))
    assert play.device("one").state is DeviceState.IDLE
    play.record(request, lease)
    assert request.counted == 1
    assert {effect.reason for effect in play.got(EndLease)} == {LeaseEnd.COUNTED, LeaseEnd.REPLACED}


def test_a_device_that_returns_with_a_failure_tells_it_then() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.run("one")
    play.leave("one")
    held = HeldLease(lease, HeldPhase.BROKEN, failure=FailureReason.TASK_CRASHED, message="ValueError: no")
    play.check_in("one", held=(held,))
    assert play.one(EndLease).reason is LeaseEnd.FAILED
    assert play.one(EndLease).message == "ValueError: no"
    assert not play.got(OfferLease)  # it cools


def test_finished_frees_the_device_and_nothing_else() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    play.request("b", demand=1)
    lease = play.run("one")
    play.finish("one")
    assert play.one(OfferLease).job == "me/b/1"
    assert not play.got(EndLease)
    assert (request.placed, request.counted) == (1, 0)
    play.record(request, lease)
    assert request.counted == 1


def test_a_counted_lease_is_finished_even_if_its_device_dies_before_saying_so() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    lease = play.run("one")
    play.record(request, lease)
    assert play.device("one").state is DeviceState.BUSY
    play.leave("one")
    assert not play.got(EndLease)
    assert not play.got(MissLease)
    assert request.counted == 1


def test_the_record_may_come_before_the_acceptance() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    lease = play.offer("one")
    play.record(request, lease)
    assert play.one(EndLease).reason is LeaseEnd.COUNTED
    play.handle(LeaseAccepted(play.session("one"), lease))
    assert not play.got(RevokeLease)  # its receipt says it all
    play.finish("one", lease)
    assert play.device("one").state is DeviceState.IDLE


def test_a_finish_whose_acceptance_was_lost_stands() -> None:
    play = ScriptedEngine()
    play.request(demand=2)
    play.offer("one")
    play.finish("one")
    assert play.one(RunLease)
    assert play.device("one").tasks == 1


def test_a_lease_ends_at_its_expiry_and_its_device_is_told() -> None:
    play = ScriptedEngine()
    play.request(demand=1, lease_s=12.0, deadline_s=100.0)
    lease = play.run("one")
    effects = play.beat(13)
    assert [effect.reason for effect in effects if isinstance(effect, EndLease)] == [LeaseEnd.EXPIRED]
    assert RevokeLease(play.session("one"), lease, LeaseEnd.EXPIRED) in effects
    assert [effect.lease for effect in effects if isinstance(effect, OfferLease)] == [2]


def test_a_delivered_lease_that_is_never_recorded_expires_too() -> None:
    play = ScriptedEngine()
    play.request(demand=1, lease_s=12.0, deadline_s=100.0)
    play.run("one")
    play.finish("one")
    assert [effect.reason for effect in play.beat(13) if isinstance(effect, EndLease)] == [LeaseEnd.EXPIRED]


def test_running_leases_finish_as_stragglers_and_offers_are_taken_back() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, over_commit=2)
    first, second, third = play.run("one"), play.run("two"), play.offer("three")
    play.record(request, first)
    assert play.got(EndLease)[1].lease == third
    assert play.got(EndLease)[1].reason is LeaseEnd.REVOKED
    play.record(request, second, outcome=Outcome.STRAGGLER)
    assert play.one(EndLease).reason is LeaseEnd.STRAGGLER
    play.finish("two", second, Outcome.STRAGGLER)
    assert play.device("two").state is DeviceState.IDLE


def test_a_job_may_want_its_stragglers_revoked() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, over_commit=2, stragglers=StragglerRule.REVOKE)
    first, second = play.run("one"), play.run("two")
    play.run("three")
    play.finish("three")
    play.record(request, first)
    assert [(effect.lease, effect.reason) for effect in play.got(EndLease)] == [
        (first, LeaseEnd.COUNTED),
        (second, LeaseEnd.REVOKED),
    ]  # the third has a receipt: that is for the driver to record


def test_a_straggler_that_was_absent_may_return_while_there_is_a_place() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, over_commit=1)
    first, second = play.run("one"), play.run("two")
    play.leave("two")
    play.record(request, first)
    play.check_in("two", held=working(second))
    assert play.one(ResumeLease).lease == second


def test_frames_of_a_session_that_is_over_are_dropped() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.offer("one")
    old = play.session("one")
    play.leave("one")
    assert play.handle(LeaseAccepted(old, lease)) == []
    assert play.handle(SessionEnded(old, SessionEnd.CONNECTION_ENDED)) == []


def test_one_device_cannot_speak_for_anothers_lease() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    lease = play.run("one")
    play.run("two")
    play.finish("two", lease)
    assert play.one(RevokeLease).reason is LeaseEnd.UNKNOWN
    assert request.placed == 2
    assert play.lease("one") == lease


def test_a_device_that_releases_a_lease_unasked_has_failed_it() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.run("one")
    play.release("one", lease)
    assert play.one(EndLease).failure is FailureReason.CANCELLED
