"""Jobs and their drivers: keys, incarnations, following and driver grace."""

from fractions import Fraction

import pytest

from coordinator.engine.effects import (
    AcceptAttempt,
    AcceptJob,
    EndAttempt,
    EndJob,
    EndLease,
    OfferLease,
    PauseJob,
    RefuseJob,
    ResumeJob,
    RevokeLease,
)
from coordinator.engine.events import (
    AttemptOpened,
    DriverFollowed,
    DriverLost,
    JobEnded,
    JobSubmitted,
    ResponsesRecorded,
)
from coordinator.engine.lifecycle import JobState
from coordinator.engine.model import AttemptEndReason, AttemptStatus, JobEnd, LeaseEnd, Outcome
from testbed.testing.engine import ScriptedEngine, spec


def test_the_same_key_and_body_stand_and_another_body_is_refused() -> None:
    play = ScriptedEngine()
    job = play.job()
    play.handle(JobSubmitted(spec(), 1))
    assert play.one(AcceptJob) == AcceptJob(job.id, None)
    play.handle(JobSubmitted(spec(demand=3), 1))
    assert play.one(RefuseJob).reason == "KEY_REUSED"


def test_a_job_gets_no_devices_before_its_driver_follows() -> None:
    play = ScriptedEngine()
    play.handle(JobSubmitted(spec(), 1))
    play.handle(AttemptOpened(spec().job, 1, 1, 1, None))
    play.check_in("one")
    assert not play.got(OfferLease)
    assert "DRIVER_AWAY" in play.engine.explain_job(spec().job)[0]
    play.handle(DriverFollowed(spec().job, 1))
    assert play.one(OfferLease)


def test_while_its_driver_is_away_a_job_gets_no_leases() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    play.run("one")
    play.handle(DriverLost(request.job.id, 1))
    assert play.one(PauseJob).reason == "DRIVER_AWAY"
    play.check_in("two")
    assert not play.got(OfferLease)
    play.handle(DriverFollowed(request.job.id, 1))
    assert play.one(ResumeJob)
    assert play.one(OfferLease).device == "two"


def test_after_the_grace_the_attempt_aborts() -> None:
    play = ScriptedEngine(driver_grace_s=30.0)
    request = play.request(demand=2, deadline_s=500.0)
    play.wait(5.0)
    play.handle(DriverLost(request.job.id, 1))
    play.wait(29.9)
    assert request.status is AttemptStatus.OPEN
    play.wait(0.2)
    assert request.reason is AttemptEndReason.DRIVER_AWAY
    play.handle(AttemptOpened(request.job.id, 1, 1, 2, None))  # away still, but it can call
    play.wait(31.0)
    assert [effect.reason for effect in play.got(EndAttempt)] == [AttemptEndReason.DRIVER_AWAY]


def test_a_driver_that_comes_back_in_time_keeps_its_attempt() -> None:
    play = ScriptedEngine(driver_grace_s=30.0)
    request = play.request(demand=2, deadline_s=500.0)
    for _ in range(3):
        play.handle(DriverLost(request.job.id, 1))
        play.wait(20.0)
        play.handle(DriverFollowed(request.job.id, 1))
    assert request.status is AttemptStatus.OPEN


def test_expiry_is_extended_by_the_outage_and_deadlines_are_not() -> None:
    play = ScriptedEngine(driver_grace_s=30.0)
    request = play.request(demand=1, lease_s=50.0, deadline_s=70.0)
    play.run("one")
    lease = play.engine.leases[play.lease("one")]
    play.beat(40)
    play.handle(DriverLost(request.job.id, 1))
    play.beat(20)  # over its expiry at 50
    play.handle(DriverFollowed(request.job.id, 1))
    assert (lease.ends_at, lease.extended_s) == (70.0, 20.0)
    play.beat(9)
    assert request.status is AttemptStatus.OPEN
    play.beat(1)
    assert request.reason is AttemptEndReason.DEADLINE


def test_a_device_whose_task_outlasts_its_lease_while_its_driver_is_away_is_busy_until_it_has_stopped() -> None:
    play = ScriptedEngine(driver_grace_s=30.0)
    request = play.request(demand=1, lease_s=20.0)
    lease = play.run("one")
    play.request("b", demand=1)
    play.handle(DriverLost(request.job.id, 1))
    play.beat(25)
    play.handle(JobEnded(request.job.id, JobEnd.CANCELLED, "", None))
    assert play.one(RevokeLease).lease == lease
    assert not play.got(OfferLease)
    play.release("one", lease)
    assert play.one(OfferLease).job == "me/b/1"


def test_expiry_is_extended_by_the_grace_at_most() -> None:
    play = ScriptedEngine(driver_grace_s=30.0)
    request = play.request(demand=1, lease_s=50.0, deadline_s=1000.0)
    play.run("one")
    for _ in range(3):
        play.handle(DriverLost(request.job.id, 1))
        play.beat(20)
        play.handle(DriverFollowed(request.job.id, 1))
    assert play.engine.leases[play.lease("one")].ends_at == 80.0
    effects = play.beat(20)
    assert [effect.reason for effect in effects if isinstance(effect, EndLease)] == [LeaseEnd.EXPIRED]


def test_a_restarted_driver_takes_its_open_attempt_up_and_records_again() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    first, second = play.run("one"), play.run("two")
    play.record(request, first)
    play.handle(JobSubmitted(spec(), 8))
    assert play.one(AcceptJob).open_request == request.id
    assert [lease.seq for lease in request.live()] == [second]
    assert [lease.seq for lease in request.counted_leases()] == [first]
    play.handle(DriverFollowed(request.job.id, 8))
    play.record(request, first, second)
    assert play.one(EndAttempt).status is AttemptStatus.CLOSED
    assert play.one(EndAttempt).responses == 2


def test_older_incarnations_are_superseded() -> None:
    play = ScriptedEngine()
    request = play.request()
    job = request.job.id
    play.handle(JobSubmitted(spec(), 8))
    for event in (
        JobSubmitted(spec(), 1),
        DriverFollowed(job, 1),
        AttemptOpened(job, 1, 1, 2, None),
        ResponsesRecorded(job, 1, 1, 1, ()),
    ):
        play.handle(event)
        assert play.one(RefuseJob).reason == "SUPERSEDED"
    assert play.handle(DriverLost(job, 1)) == []


def test_a_higher_incarnation_has_to_submit_first() -> None:
    play = ScriptedEngine()
    job = play.job()
    play.handle(DriverFollowed(job.id, 2))
    assert play.one(RefuseJob).reason == "OUT_OF_ORDER"


def test_cancel_aborts_the_attempt_and_revokes_its_leases_and_stragglers() -> None:
    play = ScriptedEngine()
    job = play.job(demand=1, over_commit=Fraction(1))
    first = play.open(job, 1)
    counted = play.run("one")
    play.run("two")
    play.record(first, counted)
    second = play.open(job, 2)
    play.run("three")
    play.run("four")
    play.finish("four", outcome=Outcome.STRAGGLER)
    play.handle(JobEnded(job.id, JobEnd.CANCELLED, "no more"))
    assert second.reason is AttemptEndReason.CANCELLED
    reasons = [effect.reason for effect in play.got(EndLease)]
    assert reasons.count(LeaseEnd.REVOKED) == 2
    assert reasons.count(LeaseEnd.STRAGGLER) == 1  # as its receipt says
    assert play.one(EndJob) == EndJob(job.id, JobEnd.CANCELLED, "no more")
    assert not play.engine.leases
    assert play.engine.regions.groups == {}


def test_a_job_ends_once() -> None:
    play = ScriptedEngine()
    job = play.job()
    play.handle(JobEnded(job.id, JobEnd.FINISHED))
    assert job.state is JobState.FINISHED
    assert play.handle(JobEnded(job.id, JobEnd.FINISHED)) == []
    play.handle(JobEnded(job.id, JobEnd.CANCELLED))
    assert play.one(RefuseJob).reason == "JOB_ENDED"
    play.handle(JobSubmitted(spec(), 2))
    assert play.one(RefuseJob).reason == "JOB_ENDED"
    play.handle(AttemptOpened(job.id, 1, 1, 1, None))
    assert play.one(RefuseJob).reason == "JOB_ENDED"


def test_a_superseded_driver_does_not_end_the_job() -> None:
    play = ScriptedEngine()
    job = play.job()
    play.handle(JobSubmitted(job.spec, 2))
    for end in (JobEnd.FAILED, JobEnd.FINISHED):
        play.handle(JobEnded(job.id, end, "my disk is full", incarnation=1))
        assert play.one(RefuseJob).reason == "SUPERSEDED"
    play.handle(JobEnded(job.id, JobEnd.FAILED, "mine too", incarnation=2))
    assert job.state is JobState.FAILED


def test_a_record_that_comes_after_the_end_is_still_heard() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    lease = play.run("one")
    play.handle(JobEnded(request.job.id, JobEnd.CANCELLED))
    play.record(request, lease)
    assert play.one(EndLease).reason is LeaseEnd.COUNTED


@pytest.mark.parametrize(
    "event",
    [
        DriverFollowed(spec("x").job, 1),
        AttemptOpened(spec("x").job, 1, 1, 1, None),
        JobEnded(spec("x").job, JobEnd.CANCELLED),
    ],
)
def test_an_unknown_job_is_refused(event: DriverFollowed) -> None:
    play = ScriptedEngine()
    play.handle(event)
    assert play.one(RefuseJob).reason == "UNKNOWN_JOB"


@pytest.mark.parametrize(
    "change",
    [
        {"demand": 0},
        {"min_response": Fraction(0)},
        {"min_response": Fraction(3, 2)},
        {"over_commit": Fraction(-1)},
        {"deadline_s": 0.0},
        {"lease_s": float("inf")},
        {"deadline_s": float("nan")},
    ],
)
def test_numbers_that_would_break_a_round_are_refused(change: dict[str, object]) -> None:
    play = ScriptedEngine()
    play.effects = play.engine.handle(JobSubmitted(spec(**change), 1), 0.0)
    assert play.one(RefuseJob).reason == "BAD_SPEC"


def test_jobs_that_ended_first_are_forgotten_first_and_unfinished_ones_never() -> None:
    play = ScriptedEngine(most_jobs=2)
    first, second = play.job("a"), play.job("b")
    play.handle(JobSubmitted(spec("c"), 1))
    assert play.one(RefuseJob).reason == "TOO_MANY_JOBS"
    play.open(first)
    play.handle(JobEnded(second.id, JobEnd.CANCELLED))
    play.handle(JobEnded(first.id, JobEnd.CANCELLED))
    play.job("c")
    assert sorted(play.engine.jobs) == ["me/a/1", "me/c/1"]


def test_the_deadline_of_an_attempt_is_told_with_it() -> None:
    play = ScriptedEngine()
    play.wait(2.5)
    play.request(deadline_s=15.0)
    assert play.one(AcceptAttempt).deadline_at == 17.5
