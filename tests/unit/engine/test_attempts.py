"""Attempts: how they open, count, close and abort, and the race of a late COUNTED."""

from fractions import Fraction

import pytest

from coordinator.engine.effects import (
    AcceptAttempt,
    AnswerResponses,
    EndAttempt,
    EndLease,
    FillAttempt,
    OfferLease,
    RefuseJob,
    RevokeLease,
)
from coordinator.engine.events import AttemptOpened, JobEnded, ResponsesRecorded, TimePassed
from coordinator.engine.ids import RequestId
from coordinator.engine.lifecycle import JobState
from coordinator.engine.model import AttemptEndReason, AttemptStatus, JobEnd, LeaseEnd, Outcome
from testbed.testing.engine import ScriptedEngine, spec


@pytest.mark.parametrize(
    ("demand", "fraction", "over", "needed", "places"),
    [
        (100, "0.55", "0", 55, 100),  # in floats 56
        (10, "0.8", "0.2", 8, 12),
        (3, "0.8", "0.1", 3, 4),
        (1, "0.01", "0", 1, 1),
    ],
)
def test_k_and_c_are_exact_and_fixed_at_open(demand: int, fraction: str, over: str, needed: int, places: int) -> None:
    play = ScriptedEngine()
    play.request(demand=demand, min_response=Fraction(fraction), over_commit=Fraction(over))
    answer = play.one(AcceptAttempt)
    assert (answer.responses_needed, answer.places, answer.deadline_at) == (needed, places, 60.0)


def test_the_kth_response_closes_and_the_next_round_opens() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3, min_response=Fraction(2, 3))
    first, second, third = play.run("one"), play.run("two"), play.run("three")
    assert play.engine.jobs[request.job.id].state is JobState.COLLECTING
    play.record(request, first)
    assert play.one(AnswerResponses).status is AttemptStatus.OPEN
    play.record(request, second, third)
    assert play.one(EndAttempt).reason is AttemptEndReason.ENOUGH
    assert play.one(EndAttempt).responses == 2
    assert play.one(AnswerResponses) == AnswerResponses(request.job.id, 1, 1, AttemptStatus.CLOSED, 2)
    assert [effect.reason for effect in play.got(EndLease)] == [
        LeaseEnd.COUNTED,
        LeaseEnd.STRAGGLER,  # a COUNTED beyond K is none
    ]
    play.open(request.job, 2)


def test_without_enough_responses_the_attempt_aborts_at_its_deadline_and_the_next_one_opens() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2, deadline_s=15.0)
    lease = play.run("one")
    play.record(request, lease)
    effects = play.beat(15)
    (end,) = [effect for effect in effects if isinstance(effect, EndAttempt)]
    assert (end.status, end.reason, end.responses) == (AttemptStatus.ABORTED, AttemptEndReason.DEADLINE, 1)
    assert request.job.aborts == 1
    assert play.open(request.job, 1, 2).places == 2


def test_an_abort_revokes_what_still_runs() -> None:
    play = ScriptedEngine()
    play.request(demand=2, deadline_s=8.0)
    play.run("one")
    play.offer("two")
    effects = play.wait(8.0)
    assert [effect.reason for effect in effects if isinstance(effect, EndLease)] == [LeaseEnd.REVOKED] * 2
    assert len([effect for effect in effects if isinstance(effect, RevokeLease)]) == 2


def test_a_response_at_its_deadline_counts() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, deadline_s=9.0)
    lease = play.run("one")
    play.now = 9.0
    play.record(request, lease)
    assert play.one(AnswerResponses).status is AttemptStatus.CLOSED


def test_if_the_deadline_was_handled_first_the_answer_is_aborted() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, deadline_s=9.0)
    lease = play.run("one")
    play.now = 9.25  # nobody called at 9
    play.record(request, lease)
    assert play.one(AnswerResponses).status is AttemptStatus.ABORTED


def test_a_fill_ends_the_scheduling_delay_once() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    play.run("one")
    play.wait(1.0)
    play.run("two")
    assert request.filled_at == 1.0
    play.leave("two")
    play.wait(2.0)
    play.check_in("three")  # within C again; the delay is not reopened
    assert play.one(OfferLease)
    assert not play.got(FillAttempt)
    assert request.filled_at == 1.0


def test_an_attempt_may_close_before_it_fills() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, over_commit=Fraction(1))
    lease = play.run("one")
    play.wait(3.0)
    play.record(request, lease)
    assert (request.filled_at, request.ended_at) == (3.0, 3.0)
    assert not play.got(FillAttempt)


def test_live_leases_and_responses_never_exceed_c() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2, over_commit=Fraction(1, 2))
    leases = [play.run(name) for name in ("one", "two", "three")]
    play.check_in("four")
    assert not play.got(OfferLease)
    play.record(request, leases[0])
    assert not play.got(OfferLease)  # a response keeps its place
    play.leave("two")
    assert play.one(OfferLease).device == "four"


def test_a_record_is_idempotent_and_the_first_word_stands() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    lease = play.run("one")
    for outcome in (Outcome.COUNTED, Outcome.COUNTED, Outcome.STRAGGLER):
        play.record(request, lease, lease, outcome=outcome)
        assert play.one(AnswerResponses).responses == 1


def test_responses_of_other_attempts_leases_do_not_count() -> None:
    play = ScriptedEngine()
    request, other = play.request("a", demand=2), play.request("b", demand=2)
    lease = play.run("one")
    play.record(other, lease, 77)
    assert other.counted == 0
    assert play.lease("one") == lease
    assert request.placed == 1


@pytest.mark.parametrize("how", ["expired", "lost", "unaccepted", "failed"])
def test_a_response_counted_before_the_driver_heard_of_the_end_counts(how: str) -> None:
    play = ScriptedEngine()
    request = play.request(demand=2, lease_s=9.0)
    lease = play.offer("one") if how == "unaccepted" else play.run("one")
    if how == "lost":
        play.leave("one")
        play.check_in("one")
    elif how == "failed":
        play.fail("one")
    else:
        play.beat(10)
    assert play.engine.world.ended[lease].reason == how
    play.record(request, lease)
    correction, *others = play.got(EndLease)
    assert (correction.lease, correction.reason) == (lease, LeaseEnd.COUNTED)
    assert all(one.reason is LeaseEnd.REVOKED for one in others)  # what its device has been given since
    assert request.counted == 1
    ends = play.engine.world.ends
    assert (ends[LeaseEnd.COUNTED], ends[LeaseEnd(how)]) == (1, 0)
    play.record(request, lease)
    assert not play.got(EndLease)


def test_where_the_place_was_leased_again_the_cheapest_is_taken_back() -> None:
    play = ScriptedEngine()
    request = play.request(demand=4, min_response=Fraction(3, 4))
    lost = play.run("lost")
    play.leave("lost")
    running = play.run("running")
    play.run("done")
    play.finish("done")
    play.check_in("offered-1")
    play.check_in("offered-2")  # the newest offer is the cheapest
    offered = max(request.leases)
    assert request.unmet == 0
    play.record(request, lost)
    ends = {effect.lease: effect.reason for effect in play.got(EndLease)}
    assert ends == {lost: LeaseEnd.COUNTED, offered: LeaseEnd.REPLACED}
    assert play.one(RevokeLease).lease == offered
    assert request.unmet == 0
    assert running in play.engine.leases


def test_a_task_that_runs_goes_before_a_receipt_when_places_are_taken_back() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3)
    lost = play.run("lost")
    play.leave("lost")
    older, newer = play.run("older"), play.run("newer")
    done = play.run("done", per_session=1)
    play.finish("done")
    play.record(request, lost)
    assert [effect.lease for effect in play.got(EndLease)] == [lost, newer]
    play.record(request, newer)  # the driver had counted that as well
    assert [effect.lease for effect in play.got(EndLease)] == [newer, older]
    play.record(request, done)
    assert play.one(EndAttempt).status is AttemptStatus.CLOSED


def test_a_response_counted_in_an_attempt_that_was_aborted_is_kept_as_waste() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, deadline_s=5.0)
    lease = play.run("one")
    play.wait(5.0)
    play.record(request, lease)
    assert play.one(EndLease).reason is LeaseEnd.COUNTED
    assert play.one(AnswerResponses) == AnswerResponses(request.job.id, 1, 1, AttemptStatus.ABORTED, 0)


def test_a_rejected_response_ends_its_lease_and_frees_its_place() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("one")
    play.check_in("two")
    play.record(request, lease, outcome=Outcome.REJECTED)
    assert play.one(EndLease).reason is LeaseEnd.REJECTED
    assert play.one(OfferLease).device == "two"
    play.finish("one", lease, Outcome.REJECTED)
    assert not play.got(RevokeLease)


def test_the_same_key_has_the_same_answer_and_another_body_is_refused() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    job = request.job
    play.handle(AttemptOpened(job.id, 1, 1, 1, None))
    assert play.one(AcceptAttempt).request == request.id
    play.handle(AttemptOpened(job.id, 1, 1, 1, 5))
    assert play.one(RefuseJob).reason == "KEY_REUSED"
    play.record(request, play.run("one"))
    play.handle(AttemptOpened(job.id, 1, 1, 1, None))
    assert play.one(AcceptAttempt).status is AttemptStatus.CLOSED


def test_the_next_attempt_gives_up_the_open_one() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    lease = play.run("one")
    play.open(request.job, 1, 2)
    assert (request.status, request.reason) == (AttemptStatus.ABORTED, AttemptEndReason.GIVEN_UP)
    assert [(end.lease, end.reason) for end in play.got(EndLease)] == [(lease, LeaseEnd.REVOKED)]


@pytest.mark.parametrize(("round_", "attempt"), [(1, 3), (2, 1)])
def test_only_one_attempt_is_open_at_a_time(round_: int, attempt: int) -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    play.handle(AttemptOpened(request.job.id, 1, round_, attempt, None))
    assert play.one(RefuseJob).reason == "OUT_OF_ORDER"


def test_a_closed_round_is_not_opened_again() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    play.record(request, play.run("one"))
    play.handle(AttemptOpened(request.job.id, 1, 1, 2, None))
    assert play.one(RefuseJob).reason == "OUT_OF_ORDER"
    play.open(request.job, 7)  # a driver that resumes may have got further elsewhere


def test_records_of_attempts_that_were_never_opened_here_are_refused() -> None:
    play = ScriptedEngine()
    job = play.job()
    play.handle(ResponsesRecorded(job.id, 1, 3, 1, ()))
    assert play.one(RefuseJob).reason == "OUT_OF_ORDER"
    play.handle(ResponsesRecorded(spec("x").job, 1, 1, 1, ()))
    assert play.one(RefuseJob).reason == "UNKNOWN_JOB"


def test_old_attempts_are_forgotten_with_their_leases() -> None:
    play = ScriptedEngine()
    job = play.job(demand=1)
    for round_ in range(1, 6):
        request = play.open(job, round_)
        lease = play.run("one") if round_ == 1 else play.lease("one")
        if round_ > 1:
            play.accept("one")
        play.record(request, lease)
        play.finish("one", lease)
    assert len(play.engine.world.ended) == 2
    play.handle(AttemptOpened(job.id, 1, 1, 1, None))  # its answer is not forgotten
    assert play.one(AcceptAttempt).status is AttemptStatus.CLOSED


def test_what_was_due_before_an_event_happens_before_it() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, deadline_s=4.0)
    play.now = 50.0
    play.check_in("late")
    assert request.status is AttemptStatus.ABORTED
    assert not play.got(OfferLease)
    play.handle(TimePassed())


def test_attempts_before_the_latest_are_forgotten_once_their_last_lease_has_ended() -> None:
    play = ScriptedEngine(most_attempts=3)
    job = play.request(demand=2, deadline_s=5.0, min_response=Fraction(1, 2), lease_s=40.0).job
    first, straggler = play.run("one"), play.run("two")
    play.record(play.engine.requests[RequestId(1)], first)  # closed; the other runs on as a straggler
    for attempt in range(1, 11):
        play.open(job, 2, attempt)
        play.wait(5.0)
    assert straggler not in play.engine.leases
    play.open(job, 2, 11)
    assert list(job.attempts) == [(2, 9), (2, 10), (2, 11)]
    assert len(play.engine.requests) == 3
    play.handle(AttemptOpened(job.id, 1, 2, 3, None))
    assert play.one(RefuseJob).reason == "OUT_OF_ORDER"
    play.handle(AttemptOpened(job.id, 1, 2, 10, None))
    assert play.one(AcceptAttempt).status is AttemptStatus.ABORTED


def test_no_attempt_is_forgotten_before_there_are_too_many() -> None:
    play = ScriptedEngine(most_attempts=8)
    job = play.request(demand=1, deadline_s=5.0).job
    for attempt in range(2, 9):
        play.wait(5.0)
        play.open(job, 1, attempt)
    assert list(job.attempts) == [(1, attempt) for attempt in range(1, 9)]
    play.wait(5.0)
    play.open(job, 1, 9)
    assert list(job.attempts) == [(1, attempt) for attempt in range(2, 10)]


def test_an_attempt_with_a_straggler_is_not_forgotten() -> None:
    play = ScriptedEngine(most_attempts=3)
    request = play.request(demand=2, min_response=Fraction(1, 2), lease_s=1000.0, deadline_s=5.0)
    first, straggler = play.run("one"), play.run("two")
    play.record(request, first)
    for attempt in range(1, 11):
        play.open(request.job, 2, attempt)
        play.wait(5.0)
    assert straggler in play.engine.leases
    assert request in request.job.requests()
    play.handle(JobEnded(request.job.id, JobEnd.CANCELLED))
    assert straggler not in play.engine.leases


def test_a_job_that_ended_before_many_others_loses_its_leases() -> None:
    play = ScriptedEngine(most_over=2)
    requests = [play.request(name, demand=1) for name in "abcd"]
    for name, request in zip("wxyz", requests, strict=True):
        play.record(request, play.run(name))
        play.handle(JobEnded(request.job.id, JobEnd.FINISHED))
    assert [len(request.leases) for request in requests] == [0, 0, 1, 1]
    assert len(play.engine.world.ended) == 2
