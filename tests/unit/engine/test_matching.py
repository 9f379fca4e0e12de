"""Plans and matching: engine rules 2 and 6, and work conservation."""

from dataclasses import replace
from fractions import Fraction

import pytest

from coordinator.engine.chance import Purpose, draw, index
from coordinator.engine.effects import AcceptAttempt, AdoptPlan, FillAttempt, OfferLease, OpenSession
from coordinator.engine.events import AttemptOpened, DeviceCheckedIn, DeviceHeard, JobEnded, PolicyChanged
from coordinator.engine.ids import DeviceId, JobId, RegionId, SessionSeq
from coordinator.engine.lifecycle import InvariantError, PlanError
from coordinator.engine.matching import Matcher
from coordinator.engine.model import Asynchronous, JobEnd, Repeat
from coordinator.engine.plan import Mode, Plan, View
from coordinator.engine.requirements import Capabilities, Comparison
from coordinator.policies.fifo import Fifo
from testbed.testing.engine import ScriptedEngine, needs
from tests.unit.engine.tiny import Recorder, SparesLast, Standing, Uniform, served

ROOMY = Comparison("memory", ">=", 4.0)


def test_the_plan_changes_with_its_inputs_and_never_on_a_mere_check_in() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3, min_response=Fraction(2, 3))
    assert play.got(AdoptPlan)  # opened
    one = play.run("one")
    play.finish("one")
    two = play.run("two")
    play.handle(DeviceHeard(play.session("two")))
    assert play.engine.world.plan_number == 3  # arrival, driver, opening
    three = play.run("three")
    assert play.engine.world.plan_number == 4  # filled
    play.record(request, one)
    assert not play.got(AdoptPlan)
    play.record(request, two)
    assert play.got(AdoptPlan)  # closed
    play.record(request, three)
    assert not play.got(AdoptPlan)
    play.handle(JobEnded(request.job.id, JobEnd.FINISHED))
    assert play.got(AdoptPlan)


def test_all_events_of_a_turn_make_one_plan_and_devices_are_matched_by_that() -> None:
    recorder = Recorder()
    play = ScriptedEngine(recorder)
    jobs = [play.job(name) for name in ("a", "b", "c")]
    made = len(recorder.views)
    here = DeviceCheckedIn(SessionSeq(1), DeviceId("one"), "", 1, Capabilities())
    play.turn(here, *(AttemptOpened(job.id, 1, 1, 1, None) for job in jobs))
    assert [len(view.requests) for view in recorder.views[made:]] == [3]  # and none for one of them, or for two
    assert [type(effect) for effect in play.effects] == [OpenSession, *[AcceptAttempt] * 3, AdoptPlan, OfferLease]
    assert play.one(OfferLease).job == "me/a/1"  # was opened after the device had come, and before the turn ended


@pytest.mark.parametrize("policy", [Fifo, SparesLast])
def test_what_a_region_can_have_is_listed_once_a_device_cannot_have_the_first(
    policy: type[Fifo], monkeypatch: pytest.MonkeyPatch
) -> None:
    play = ScriptedEngine(policy())
    play.request("a", demand=9)
    play.request("b", demand=9)
    listed: list[object] = []
    list_ = Matcher._list
    monkeypatch.setattr(Matcher, "_list", lambda self, *what: listed.append(what) or list_(self, *what))
    for name in ("one", "two"):
        play.run(name)
    assert not listed
    for name in ("one", "two"):
        play.fail(name)
        assert play.one(OfferLease).job == "me/b/1"
    assert len(listed) == 1


def test_who_comes_first_is_looked_for_again_only_where_the_queue_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    play = ScriptedEngine(Standing())
    for name in ("here", "there"):
        job = play.job(name, demand=9, **needs(Comparison("at", "=", name), name))
        play.open(job, rounds_left=2)
        play.run(f"{name}-0", labels={"at": frozenset({name})})
    walks: list[int] = []
    first = Matcher._first
    monkeypatch.setattr(Matcher, "_first", lambda self, class_id: walks.append(class_id) or first(self, class_id))

    def walked(name: str) -> bool:
        """For a device there, which then serves the job there."""
        walks.clear()
        play.check_in(f"{name}-{len(play.all)}", labels={"at": frozenset({name})})
        assert play.one(OfferLease).job == f"me/{name}/1"
        return bool(walks)

    play.handle(PolicyChanged(Standing.name))  # this plan knows both regions
    assert [walked("here"), walked("there")] == [True, True]
    play.handle(PolicyChanged(Standing.name))
    assert play.got(AdoptPlan)
    assert [walked("here"), walked("there")] == [False, False]
    job = play.engine.jobs[JobId("me/here/1")]
    play.open(job, 1, 2)  # gives the attempt before up
    assert [walked("here"), walked("there")] == [True, False]


def test_what_is_known_of_who_comes_first_is_held_against_the_plan() -> None:
    play = ScriptedEngine()
    play.request("a", demand=3)
    second = play.request("b", demand=3)
    play.run("one")
    play.engine.matcher._firsts[play.device("one").capability_class] = second
    with pytest.raises(InvariantError, match="would not find who comes first"):
        play.engine.validate()


class Fickle:
    """A queue for each request, and an owner that it changes in the plan before, which no policy may."""

    name = "tiny-fickle"

    def __init__(self) -> None:
        self.owner: dict[RegionId, int] = {}

    def plan(self, view: View) -> Plan:
        queues = tuple((request.request,) for request in view.requests)
        self.owner.update({region: view.plan_number % len(queues) for group in view.groups for region in group.regions})
        return Plan(queues=queues, owner=self.owner if queues else {})


def test_what_is_known_of_who_comes_first_is_held_against_who_owns_the_region() -> None:
    play = ScriptedEngine(Fickle())
    for name in "ab":
        play.request(name, demand=9)
    play.run("one")
    play.handle(PolicyChanged(Fickle.name))  # this plan knows the region
    play.run("two")
    with pytest.raises(InvariantError, match="would not find who comes first"):
        play.handle(PolicyChanged(Fickle.name))


class Explaining(Fifo):
    """Counts how often it says why."""

    def __init__(self) -> None:
        self.said = 0

    def plan(self, view: View) -> Plan:
        return replace(super().plan(view), why=lambda: self._why(view))

    def _why(self, view: View) -> list[tuple[JobId, str]]:
        self.said += 1
        return [(request.job, f"said at {view.now}") for request in view.requests]


def test_reasons_are_made_when_asked_for_and_once_for_a_plan() -> None:
    policy = Explaining()
    play = ScriptedEngine(policy)
    first, second = play.request("a"), play.request("b")
    play.run("one")
    assert play.engine.plan_number > 3
    assert policy.said == 0
    for job in (first.job, second.job, first.job):
        assert "said at 0.0" in play.engine.explain_job(job.id)
    assert policy.said == 1
    play.wait(5.0)
    play.request("c")
    assert policy.said == 1
    assert "said at 5.0" in play.engine.explain_job(first.job.id)
    assert policy.said == 2


def test_a_place_lost_after_the_fill_makes_a_new_plan_and_is_leased_again() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    play.run("one")
    play.check_in("two")
    play.leave("one")
    assert play.got(AdoptPlan)
    assert play.one(OfferLease).device == "two"


def test_a_new_plan_is_made_when_a_request_reaches_its_target_or_falls_below_it() -> None:
    recorder = SparesLast()
    play = ScriptedEngine(recorder)
    play.request(demand=3, min_response=Fraction(2, 3))
    made = len(recorder.views)
    play.run("one")
    assert len(recorder.views) == made
    play.run("two")
    assert recorder.views[made].requests[0].lacking == 0
    play.leave("two")
    assert recorder.views[made + 1].requests[0].lacking == 1
    assert len(recorder.views) == made + 2


def test_requests_below_their_target_come_before_the_spare_places_of_others() -> None:
    play = ScriptedEngine(SparesLast())
    play.request("a", demand=3, min_response=Fraction(1, 3))
    play.request("b", demand=2, min_response=Fraction(1, 2))
    assert served(play, 5) == ["a", "b", "a", "a", "b"]


def test_chance_draws_among_requests_below_their_target_first() -> None:
    class Drawn(SparesLast):
        def plan(self, view: View) -> Plan:
            return replace(super().plan(view), mode=Mode.UNIFORM)

    play = ScriptedEngine(Drawn())
    for name in "abcdef":
        play.request(name, demand=4, min_response=Fraction(1, 4))
    assert sorted(served(play, 6)) == list("abcdef")


@pytest.mark.parametrize("target", [1, 4])
def test_a_target_is_between_what_a_round_needs_and_what_it_asks_for(target: int) -> None:
    class Wrong(Recorder):
        def plan(self, view: View) -> Plan:
            return replace(super().plan(view), targets={request.request: target for request in view.requests})

    play = ScriptedEngine(Wrong())
    with pytest.raises(PlanError, match=f"request 1 is not to have a target of {target} places"):
        play.request(demand=3, min_response=Fraction(2, 3))


def test_idle_devices_are_matched_in_the_order_of_their_sessions() -> None:
    play = ScriptedEngine()
    for name in ("c", "a", "b"):
        play.check_in(name)
    play.check_in("c")  # a newer session: it is last now
    play.request(demand=2)
    assert [effect.device for effect in play.got(OfferLease)] == ["a", "b"]


def test_a_fill_makes_the_next_plan_and_the_matching_goes_on() -> None:
    play = ScriptedEngine()
    first, second = play.job("a", demand=2), play.job("b", demand=2)
    for number in range(5):
        play.check_in(f"d{number}")
    play.open(second)
    play.open(first)
    assert [effect.job for effect in play.got(OfferLease)] == [first.id, first.id]
    play = ScriptedEngine()
    first, second = play.job("a", demand=2), play.job("b", demand=2)
    for number in range(3):
        play.check_in(f"d{number}")
    play.open(first)
    fills, offers = play.got(FillAttempt), play.got(OfferLease)
    assert (len(fills), len(offers)) == (1, 2)
    play.open(second)
    assert [effect.device for effect in play.got(OfferLease)] == ["d2"]


def test_one_event_can_fill_several_requests_with_a_plan_for_each() -> None:
    recorder = Recorder()
    play = ScriptedEngine(recorder)
    play.request("a", demand=2)
    play.request("b", demand=2)
    play.check_in("x", foreign=(9,))
    play.run("one")
    play.run("two")
    play.run("three")
    play.leave("three")
    seen = len(recorder.views)
    play.leave("two")
    assert len(recorder.views) == seen + 1
    assert [view.plan_number for view in recorder.views] == list(range(1, len(recorder.views) + 1))
    assert play.got(OfferLease) == []


def test_by_chance_each_open_request_is_drawn_by_session_and_attempt() -> None:
    play = ScriptedEngine(Uniform())
    requests = [play.request(name, demand=50, repeat=Repeat.ALLOW) for name in ("c", "a", "b")]
    by_arrival = [requests[index].id for index in (1, 2, 0)]  # all at 0: then by name
    tally = dict.fromkeys(by_arrival, 0)
    for number in range(60):
        session = play.check_in(f"d{number}")
        offer = play.one(OfferLease)
        assert offer.request == by_arrival[index(draw(7, Purpose.MATCH, session, 0), 3)]
        tally[offer.request] += 1
    assert min(tally.values()) > 10
    play.accept("d0")
    play.finish("d0")
    session = play.session("d0")
    assert play.one(OfferLease).request == by_arrival[index(draw(7, Purpose.MATCH, session, 1), 3)]


def test_only_eligible_devices_are_matched() -> None:
    play = ScriptedEngine()
    play.request(demand=2, **needs(ROOMY, "roomy"))
    play.check_in("small", numbers={"memory": 2.0})
    play.check_in("unknown")
    assert not play.got(OfferLease)
    assert play.offer("large", numbers={"memory": 4.0})


def test_a_device_that_comes_back_as_another_does_not_change_who_serves_its_former_neighbours() -> None:
    """The list of the small ones was begun for it, and is gone through further after it has grown."""
    play = ScriptedEngine()
    play.check_in("large", numbers={"memory": 8.0})
    play.leave("large")
    for name in ("a", "b"):
        play.request(name, demand=1, asynchronous=Asynchronous(1, None))  # full and not: the same plan
    play.request("c", demand=2, asynchronous=Asynchronous(1, None), **needs(ROOMY, "roomy"))
    play.run("one", numbers={"memory": 2.0})
    play.run("two", numbers={"memory": 2.0})
    play.leave("two")
    assert play.offer("two", numbers={"memory": 8.0})
    play.check_in("three", numbers={"memory": 2.0})
    assert not play.got(OfferLease)


def test_another_policy_takes_effect_at_once() -> None:
    class Last(Fifo):
        name = "last"

        def plan(self, view: View) -> Plan:
            return Plan(queues=(tuple(request.request for request in reversed(view.requests)),))

    play = ScriptedEngine()
    play.request("a", demand=2)
    play.request("b", demand=2)
    play.engine.set_policy(Last())
    play.handle(PolicyChanged("last"))
    assert play.got(AdoptPlan)
    play.check_in("one")
    assert play.one(OfferLease).job == "me/b/1"


def test_regions_that_the_plan_does_not_know_use_its_default() -> None:
    play = ScriptedEngine()
    play.request("a", demand=2, **needs(ROOMY, "roomy"))
    play.request("b", demand=2)
    play.check_in("one", numbers={"memory": 2.0})  # the first of its region
    assert play.one(OfferLease).job == "me/b/1"
