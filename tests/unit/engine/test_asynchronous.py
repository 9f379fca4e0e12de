"""Asynchronous jobs: one request for all rounds, places that counted responses give back, flushes, staleness."""

import json
from fractions import Fraction

import pytest

from coordinator.engine.counts import job_count
from coordinator.engine.effects import (
    AcceptAttempt,
    AdoptPlan,
    AnswerResponses,
    EndAttempt,
    EndLease,
    FillAttempt,
    OfferLease,
    RefuseJob,
)
from coordinator.engine.engine import Engine
from coordinator.engine.events import AttemptOpened, JobEnded, JobSubmitted
from coordinator.engine.ids import LeaseSeq
from coordinator.engine.model import Asynchronous, AttemptStatus, JobEnd, LeaseEnd, Outcome
from coordinator.engine.plan import Plan, View
from coordinator.engine.record import event_from_json
from coordinator.engine.state import Request
from coordinator.policies.fifo import Fifo
from testbed.testing.engine import ScriptedEngine, spec
from tests.unit.engine.snapshot import snapshot


class Watching(Fifo):
    """Keeps the views that it was shown."""

    def __init__(self) -> None:
        self.views: list[View] = []

    def plan(self, view: View) -> Plan:
        self.views.append(view)
        return super().plan(view)


def begin(
    play: ScriptedEngine, name: str = "a", *, buffer: int = 2, demand: int = 3, rounds: int | None = None
) -> Request:
    job = play.job(name, demand=demand, rounds=rounds, asynchronous=Asynchronous(buffer))
    return play.open(job, rounds_left=rounds)


def respond(play: ScriptedEngine, request: Request, name: str) -> LeaseSeq:
    """The device's response counts, and the device is free."""
    lease = play.lease(name)
    play.record(request, lease)
    told = play.effects
    play.finish(name, lease)
    play.effects = [*told, *play.effects]
    return lease


def open_next(play: ScriptedEngine, request: Request) -> None:
    """The driver has the next model."""
    left = request.left_from(request.round)
    play.handle(AttemptOpened(request.job.id, 1, request.round, request.attempt, left))


def test_a_counted_response_gives_its_place_back_at_once() -> None:
    play = ScriptedEngine()
    request = begin(play)
    for name in ("d1", "d2", "d3"):
        play.run(name)
    assert play.check_in("d4")
    assert not play.got(OfferLease)
    play.record(request, play.lease("d1"))
    assert play.one(OfferLease).device == "d4"
    assert (request.placed, request.counted, request.held) == (3, 0, 1)


def test_a_full_buffer_closes_the_round_and_leases_survive_it() -> None:
    play = ScriptedEngine()
    request = begin(play)
    leases = [play.run(name) for name in ("d1", "d2", "d3")]
    play.record(request, *leases[:2])
    ended = play.one(EndAttempt)
    assert (ended.round, ended.status, ended.responses) == (1, AttemptStatus.CLOSED, 2)
    assert play.one(AnswerResponses).status is AttemptStatus.CLOSED
    assert request.open
    assert request.round == 2
    assert play.engine.leases[leases[2]].round == 1
    open_next(play, request)
    assert play.one(AcceptAttempt).request == request.id
    play.record(request, leases[2])
    assert request.held == 1
    assert request.job.closed_rounds == 1


def test_a_lease_has_the_round_whose_model_it_was_given() -> None:
    play = ScriptedEngine()
    request = begin(play, demand=4)
    play.record(request, *[play.run(name) for name in ("d1", "d2")])
    before = play.engine.leases[play.run("d3")]
    open_next(play, request)
    after = play.engine.leases[play.run("d4")]
    assert (before.round, after.round) == (1, 2)
    play.record(request, before.seq, after.seq)
    assert [lease.counts_in - lease.round for lease in (before, after)] == [1, 0]


def test_reaching_and_leaving_the_concurrency_is_no_new_plan() -> None:
    policy = Watching()
    play = ScriptedEngine(policy)
    request = begin(play, buffer=3, demand=1)
    play.run("d1")
    assert play.got(AdoptPlan) == []
    assert request.unmet == 0
    plans = len(policy.views)
    play.check_in("d2")
    respond(play, request, "d1")
    assert play.one(OfferLease).device == "d2"
    play.accept("d2")
    assert len(policy.views) == plans
    play.job("b")  # the full request is in the next plan, ordered by what its buffer lacks
    (seen,) = policy.views[-1].requests
    assert (seen.request, seen.remaining) == (request.id, 2)


def test_what_orders_it_over_all_rounds() -> None:
    policy = Watching()
    play = ScriptedEngine(policy)
    request = begin(play, buffer=3, demand=2, rounds=5)
    play.run("d1")
    respond(play, request, "d1")
    play.job("b")
    (seen,) = policy.views[-1].requests
    assert (seen.remaining, seen.remaining_all_rounds) == (2, 2 + 4 * 3)


def test_the_last_round_closes_the_request() -> None:
    play = ScriptedEngine()
    request = begin(play, buffer=1, demand=2, rounds=2)
    leases = [play.run(name) for name in ("d1", "d2")]
    play.record(request, leases[0])
    open_next(play, request)
    play.finish("d1", leases[0])
    play.record(request, leases[1])
    assert play.one(EndAttempt).round == 2
    assert request.status is AttemptStatus.CLOSED
    assert request.job.closed_rounds == 2
    play.handle(JobEnded(request.job.id, JobEnd.FINISHED))
    assert play.engine.requests == {request.id: request}


def test_it_has_no_deadline_and_its_leases_expire() -> None:
    play = ScriptedEngine()
    request = begin(play)
    assert play.one(AcceptAttempt).deadline_at is None
    play.run("d1")
    play.leave("d1")
    play.wait(50)
    assert request.open
    ends = [effect.reason for effect in play.all if isinstance(effect, EndLease)]
    assert ends == [LeaseEnd.LOST]


def test_a_count_for_a_round_that_has_closed_is_a_straggler() -> None:
    play = ScriptedEngine()
    request = begin(play, buffer=1, demand=2)
    job, leases = request.job, [play.run(name) for name in ("d1", "d2")]
    play.record(request, *leases)  # its driver said one too many
    assert [effect.reason for effect in play.got(EndLease)] == [LeaseEnd.COUNTED, LeaseEnd.STRAGGLER]
    assert (request.round, request.held, job.closed_rounds) == (2, 0, 1)


def test_a_record_told_again_changes_nothing() -> None:
    play = ScriptedEngine()
    request = begin(play, buffer=2, demand=2)
    lease = play.run("d1")
    play.record(request, lease)
    play.record(request, lease)
    assert request.held == 1


def test_a_late_count_goes_into_the_buffer_and_takes_no_place() -> None:
    play = ScriptedEngine()
    request = begin(play, demand=1)
    lease = play.run("d1")
    play.leave("d1")
    play.wait(41)
    other = play.run("d2")
    play.record(request, lease)
    assert (request.placed, request.held) == (1, 1)
    assert play.engine.leases[other].request is request


def test_an_attempt_that_aborts_begins_anew_in_the_same_round() -> None:
    play = ScriptedEngine()
    request = begin(play, buffer=1)
    leases = [play.run(name) for name in ("d1", "d2")]
    play.record(request, leases[0])
    play.finish("d1", leases[0])
    job = request.job
    play.handle(JobSubmitted(job.spec, 2))  # another driver, which never follows
    play.wait(31.0)
    ended = play.one(EndAttempt)
    assert (ended.round, ended.attempt, ended.status) == (2, 1, AttemptStatus.ABORTED)
    again = play.open(job, 2, 2)
    assert again is not request
    assert (again.round, again.offered) == (2, (2, 2))


def test_opening_a_round_again_is_answered_as_it_stands() -> None:
    play = ScriptedEngine()
    request = begin(play, buffer=1, rounds=9)
    play.record(request, play.run("d1"))
    open_next(play, request)
    play.handle(AttemptOpened(request.job.id, 1, 1, 1, 9))
    assert play.one(AcceptAttempt).status is AttemptStatus.CLOSED
    play.handle(AttemptOpened(request.job.id, 1, 2, 1, 9))
    assert play.one(RefuseJob).reason == "KEY_REUSED"
    play.handle(AttemptOpened(request.job.id, 1, 3, 1, 7))
    assert play.one(RefuseJob).reason == "OUT_OF_ORDER"


def test_ended_leases_are_forgotten_when_no_word_on_them_can_come() -> None:
    play = ScriptedEngine()
    request = begin(play, buffer=1, demand=1)
    for number in range(20):
        play.run(f"d{number}")
        respond(play, request, f"d{number}")
        play.leave(f"d{number}")
        open_next(play, request)
        play.wait(10)
    # Two leases each 10 s, and a lease lasts 40 s, or 30 s more without its driver.
    assert len(request.leases) == len(request.over) <= 2 * 8
    assert set(request.leases) == set(play.engine.world.ended)


def test_the_first_time_at_its_concurrency_it_is_filled() -> None:
    play = ScriptedEngine()
    request = begin(play, demand=2)
    play.run("d1")
    play.offer("d2")
    assert play.one(FillAttempt).request == request.id
    respond(play, request, "d1")
    assert not play.got(FillAttempt)


def test_what_people_are_shown() -> None:
    play = ScriptedEngine()
    request = begin(play, demand=2, buffer=2, rounds=4)
    for name in ("d1", "d2"):
        play.run(name)
    count = job_count(play.engine, request.job)
    assert (count.leased, count.places, count.responses, count.responses_needed) == (2, 2, 0, 2)
    assert count.waits == "at its concurrency: 2 leases live, the buffer lacks 2 of 2 responses"
    play.record(request, play.lease("d1"))
    assert "1 place open" in job_count(play.engine, request.job).waits


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"asynchronous": Asynchronous(0)}, "buffer is 0"),
        ({"asynchronous": Asynchronous(1, -1)}, "max_staleness is -1"),
        ({"asynchronous": Asynchronous(1), "over_commit": Fraction(1, 5)}, "over_commit is 1/5"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(changes: dict[str, object], problem: str) -> None:
    play = ScriptedEngine()
    play.handle(JobSubmitted(spec(**changes), 1))
    assert play.one(RefuseJob).message.startswith(problem)


def test_its_record_can_be_played_again() -> None:
    play = ScriptedEngine()
    request = begin(play)
    for name in ("d1", "d2", "d3", "d4"):
        play.check_in(name)
    for name in ("d1", "d2", "d3"):
        play.accept(name)
    play.record(request, play.lease("d1"), outcome=Outcome.STRAGGLER)
    play.record(request, play.lease("d2"), play.lease("d3"))
    open_next(play, request)
    again = Engine(play.engine.settings, Fifo())
    for now, event, _ in play.journal:
        again.handle(event_from_json(json.loads(event)), now)
    assert snapshot(again) == snapshot(play.engine)
