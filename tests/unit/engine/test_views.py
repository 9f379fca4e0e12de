"""Views: what a policy sees."""

from fractions import Fraction

import pytest

from coordinator.engine.lifecycle import InvariantError
from coordinator.engine.plan import CollectingView
from coordinator.engine.requirements import Comparison
from testbed.testing.engine import ScriptedEngine, needs
from tests.unit.engine.tiny import Recorder, SparesLast, served

ROOMY = Comparison("memory", ">=", 4.0)


def test_a_policy_sees_who_will_open_another_round() -> None:
    recorder = SparesLast()
    play = ScriptedEngine(recorder)
    again = play.job("a", demand=3, min_response=Fraction(2, 3))
    last = play.job("b", demand=1)
    play.open(again, rounds_left=3)
    play.open(last, rounds_left=1)
    assert served(play, 1) == ["a"]
    assert len(recorder.views[-1].collecting) == 0
    assert served(play, 2) == ["a", "b"]
    (one,) = recorder.views[-1].requests
    assert (one.needed, one.lacking, one.remaining, one.placed) == (2, 0, 1, 2)
    assert [*recorder.views[-1].collecting] == [CollectingView(again.id, again.arrival, again.group.id, 3, 2)]


def test_a_view_in_which_no_request_has_changed_shows_the_very_object_of_the_view_before() -> None:
    recorder = Recorder()
    play = ScriptedEngine(recorder)
    play.request("a", demand=3)
    play.request("b", demand=2)
    play.request("c", demand=1)
    assert [one.job for one in recorder.views[-1].requests] == ["me/a/1", "me/b/1", "me/c/1"]
    for device in ("one", "two", "three"):
        play.run(device)
    before, after = recorder.views[-2:]
    assert [one.job for one in after.requests] == ["me/b/1", "me/c/1"]  # a is full
    assert [*after.requests] == [*before.requests[1:]]
    assert play.engine.matcher.views.seen()[0] is after.requests


def test_what_is_kept_of_requests_is_held_against_them() -> None:
    play = ScriptedEngine()
    request = play.request("a", demand=3)
    request.rounds_left = 7  # and nobody says so
    with pytest.raises(InvariantError, match="would not show requests as they are"):
        play.engine.validate()


def test_the_attained_service_is_that_of_the_view_s_time() -> None:
    recorder = Recorder()
    play = ScriptedEngine(recorder)
    play.request("a", demand=3, rounds=None)
    play.run("one")
    play.wait(5.0)
    play.job("b", demand=2)
    assert dict(recorder.views[-1].attained) == {"me/a/1": 5.0, "me/b/1": 0.0}


def test_the_view_holds_what_is_unmet_of_jobs_that_may_be_served() -> None:
    recorder = Recorder()
    play = ScriptedEngine(recorder)
    play.request("a", demand=3, over_commit=Fraction(1, 3), rounds=None)
    job = play.job("b", demand=2, **needs(ROOMY, "roomy"))
    play.run("one")
    play.wait(5.0)
    play.open(job, 1, 1, rounds_left=4)
    view = recorder.views[-1]
    first, second = view.requests
    assert (first.remaining, first.remaining_all_rounds) == (3, None)
    assert (second.remaining, second.remaining_all_rounds) == (2, 8)
    assert (first.places, first.needed, first.lacking) == (4, 3, 2)
    assert (second.places, second.needed, second.lacking) == (2, 2, 2)
    assert [group.group for group in view.groups] == ["all", "memory >= 4"]
    assert view.now == 5.0
