"""Tiers: cuts by hand, who may be leased to a restricted request, and how a restriction ends."""

import pytest

from coordinator.engine.effects import OfferLease
from coordinator.engine.events import PolicyChanged
from coordinator.engine.ids import RequestId
from coordinator.engine.lifecycle import InvariantError
from coordinator.engine.model import Asynchronous, EngineSettings, Outcome
from coordinator.engine.plan import ANY_TIER, LIFTED, UNDECIDED, Plan, View
from coordinator.engine.scale import BINS, bin_of
from coordinator.engine.tiers import FULL, NO_TIER, Tiers
from coordinator.policies.fifo import Fifo
from testbed.testing.engine import ScriptedEngine
from tests.unit.engine.snapshot import snapshot

FAST, MIDDLE, SLOW = 0.1, 1.0, 10.0


class Scripted:
    """By arrival; with the tiers and the time of review that the test says, for the next plan with a request."""

    name = "scripted"

    def __init__(self) -> None:
        self.tiers: dict[int, int] = {}
        self.review_at: float | None = None
        self.or_faster = False
        self.views: list[View] = []

    def plan(self, view: View) -> Plan:
        self.views.append(view)
        if not view.requests:
            return Plan()
        tiers, self.tiers = {RequestId(key): tier for key, tier in self.tiers.items()}, {}
        review_at, self.review_at = self.review_at, None
        queue = tuple(request.request for request in view.requests)
        return Plan((queue,), tiers=tiers, or_faster=self.or_faster, review_at=review_at)


def cut(*scores: float, number: int = 3) -> Tiers:
    tiers = Tiers(EngineSettings(seed=1, policy="", tiers=number), 0.0)
    for score in scores:
        tiers.count(score, NO_TIER, 0)
    tiers.tick(1.0)
    return tiers


def test_tiers_hold_equal_numbers() -> None:
    tiers = cut(*(float(score) for score in range(1, 10)))
    assert [tiers.of(float(score)) for score in range(1, 10)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert tiers.cuts == (bin_of(3.0), bin_of(6.0))
    assert (tiers.of(0.01), tiers.of(100.0)) == (0, 2)


def test_a_cut_is_where_the_count_is_reached() -> None:
    tiers = cut(1.0, 2.0, 4.0, 8.0)  # ceil(4 / 3) = 2, ceil(8 / 3) = 3
    assert [tiers.of(score) for score in (1.0, 2.0, 4.0, 8.0)] == [0, 0, 1, 2]


def test_devices_that_are_alike_are_of_one_tier() -> None:
    tiers = cut(1.0, 1.0, 1.0, 1.0, 5.0)
    assert [tiers.of(score) for score in (0.5, 1.0, 5.0)] == [0, 0, 2]


def test_without_a_score_or_a_tick_there_is_no_tier() -> None:
    tiers = Tiers(EngineSettings(seed=1, policy=""), 0.0)
    tiers.count(1.0, NO_TIER, 0)
    assert tiers.of(1.0) == NO_TIER
    tiers.tick(1.0)
    assert tiers.of(1.0) == 0
    assert tiers.of(0.0) == tiers.of(float("nan")) == NO_TIER
    assert cut(0.0, 0.0).of(1.0) == NO_TIER
    assert cut(1.0, 2.0, number=1).of(1.0) == NO_TIER


def test_counts_are_halved_at_a_tick_when_they_are_full() -> None:
    tiers = cut(1.0)
    tiers.counts[bin_of(1.0)], tiers.counts[bin_of(2.0)] = FULL - 3, 3
    tiers.tick(2.0)
    assert (tiers.counts[bin_of(1.0)], tiers.counts[bin_of(2.0)]) == ((FULL - 3) // 2, 1)
    assert len(tiers.counts) == BINS


def world() -> tuple[ScriptedEngine, Scripted]:
    """At 11 s: nine devices have come and gone, and the tick at 10 s has cut the tiers; the next one is at 20 s."""
    policy = Scripted()
    play = ScriptedEngine(policy, supply_window_s=10.0 * 288 * 288)
    for number, score in enumerate((FAST, MIDDLE, SLOW) * 3):
        play.check_in(f"old-{number}", reference_s=score)
        play.leave(f"old-{number}")
    play.wait(11.0)
    return play, policy


def test_a_device_keeps_the_tier_of_its_check_in() -> None:
    play, _ = world()
    play.check_in("d", reference_s=FAST)
    assert play.device("d").tier == 0
    for number in range(40):
        play.check_in(f"faster-{number}", reference_s=0.001)
    play.beat(10)
    assert play.device("d").tier == 0
    play.leave("d")
    play.check_in("d", interval=2, reference_s=FAST)
    assert play.device("d").tier == 2


def test_a_restricted_request_takes_its_tier_alone_and_others_flow_on() -> None:
    play, policy = world()
    policy.tiers = {1: 0}
    first = play.request("a", demand=2)
    second = play.request("b", demand=9)
    assert first.tier == 0
    for name, score, taker in (("s", SLOW, second), ("f", FAST, first), ("m", MIDDLE, second), ("x", 0.0, second)):
        play.check_in(name, reference_s=score)
        assert play.one(OfferLease).request == taker.id
    play.check_in("g", reference_s=FAST)
    assert play.one(OfferLease).request == first.id
    play.check_in("h", reference_s=FAST)
    assert play.one(OfferLease).request == second.id  # the first one is full


def test_a_plan_may_let_faster_devices_in() -> None:
    play, policy = world()
    policy.tiers, policy.or_faster = {1: 1}, True
    first, second = play.request("a", demand=9), play.request("b", demand=9)
    for name, score, taker in (("s", SLOW, second), ("f", FAST, first), ("m", MIDDLE, first), ("x", 0.0, second)):
        play.check_in(name, reference_s=score)
        assert play.one(OfferLease).request == taker.id


def test_who_waits_for_whom_is_said() -> None:
    play, policy = world()
    policy.tiers = {1: 2}
    request = play.request("a")
    play.check_in("f", reference_s=FAST)
    play.check_in("x")
    assert not play.got(OfferLease)
    assert any("for devices of tier 3 of 3, 1 the fastest" in line for line in play.engine.explain_job(request.job.id))
    said = play.engine.explain_device(play.device("f").id)
    assert said[0] == "TIER: me/a/1 is for tier 3 of 3, 1 the fastest; this one is of tier 1 of 3, 1 the fastest"
    assert "this one is of no known tier" in play.engine.explain_device(play.device("x").id)[0]


def test_who_waits_for_faster_ones_is_said() -> None:
    play, policy = world()
    policy.tiers, policy.or_faster = {1: 1}, True
    play.request("a")
    play.check_in("s", reference_s=SLOW)
    assert not play.got(OfferLease)
    said = play.engine.explain_device(play.device("s").id)
    assert said[0].startswith("TIER: me/a/1 is for tier 2 of 3, 1 the fastest, or faster; this one is of tier 3")


def test_a_lifted_request_takes_who_waits_at_once() -> None:
    play, policy = world()
    policy.tiers, policy.review_at = {1: 0}, play.now + 5.0
    request = play.request("a")
    play.check_in("s", reference_s=SLOW)
    play.check_in("t", reference_s=SLOW)
    assert play.device("s").lease is None
    policy.tiers, policy.review_at = {1: ANY_TIER}, None
    play.wait(4.0)
    assert request.tier == 0
    play.wait(1.0)  # the review that was asked for is due
    assert request.tier == LIFTED
    assert play.device("s").lease is not None


def test_a_decision_stands() -> None:
    play, policy = world()
    policy.tiers = {1: ANY_TIER}
    request = play.request("a")
    assert request.tier == ANY_TIER
    policy.tiers = {1: 1}
    with pytest.raises(InvariantError, match="me/a/1 round 1 attempt 1 is not to be restricted to tier 1"):
        play.request("b")


@pytest.mark.parametrize("tiers", [{1: 3}, {1: UNDECIDED}, {9: 0}])
def test_a_plan_restricts_what_is_open_to_tiers_that_there_are(tiers: dict[int, int]) -> None:
    play, policy = world()
    policy.tiers = tiers
    with pytest.raises(InvariantError, match="is not to be restricted"):
        play.request("a")


def test_a_plan_is_reviewed_later() -> None:
    play, policy = world()
    policy.review_at = play.now
    with pytest.raises(InvariantError, match="it is None, or a time after"):
        play.request("a")


def test_a_review_that_no_longer_stands_makes_no_plan() -> None:
    play, policy = world()
    play.job("b")
    policy.review_at = play.now + 5.0
    play.request("a")
    play.handle(PolicyChanged("scripted"))
    plans = len(policy.views)
    play.wait(8.0)
    assert len(policy.views) == plans


def test_another_policy_lifts_all() -> None:
    play, policy = world()
    policy.tiers = {1: 0}
    request = play.request("a")
    play.check_in("s", reference_s=SLOW)
    play.engine.set_policy(Fifo())
    play.handle(PolicyChanged("tiny-fifo"))
    assert request.tier == LIFTED
    assert play.device("s").lease is not None


def test_responses_are_profiled_by_tier() -> None:
    play, policy = world()
    policy.tiers = {1: 0}
    job = play.job("a", demand=3)
    first = play.open(job, 1)
    lease = play.run("f", reference_s=FAST)
    play.beat(3)
    play.record(first, lease)
    assert job.profiles is not None
    assert job.profiles.tiers[0].counts[bin_of(3.0)] == 1
    assert job.profiles.everyone.total == 0  # the attempt was restricted
    play.handle(PolicyChanged("scripted"))
    assert first.tier == LIFTED
    late = play.run("s", reference_s=SLOW)
    no = play.run("m", reference_s=MIDDLE)
    play.record(first, late, outcome=Outcome.STRAGGLER)
    play.record(first, no, outcome=Outcome.REJECTED)
    assert [tier.total for tier in job.profiles.tiers] == [1, 0, 1]
    assert job.profiles.everyone.total == 0
    assert policy.views[-1].jobs[job.id].tails_s == (0.0, 0.0, 0.0, 0.0)


def test_a_view_shows_jobs_and_supply_by_tier() -> None:
    play, policy = world()
    job = play.job("a", rounds=5, demand=4)
    play.open(job, 2, rounds_left=4)
    play.check_in("f", reference_s=FAST)
    play.check_in("s", reference_s=SLOW)
    play.beat(400)
    play.handle(PolicyChanged("scripted"))
    view = policy.views[-1]
    assert view.tiers == len(view.tier_supply) == 3
    assert sum(view.supply.values()) == 11
    assert [sum(supply.values()) for supply in view.tier_supply] == [1, 0, 1]  # nine came before there were tiers
    assert list(view.jobs) == [job.id]
    assert (len(view.jobs), view.jobs[job.id].places, view.jobs[job.id].rounds) == (1, 4, 5)
    assert all(one.opened_at == 11.0 and one.deadline_at == 71.0 for one in view.requests)


def test_the_snapshot_has_it_all() -> None:
    play, policy = world()
    policy.tiers = {1: 0}
    play.request("a")
    text = str(snapshot(play.engine))
    assert "'tier': 0" in text
    assert "'cuts': [" in text


def test_what_has_no_deadline_is_for_all() -> None:
    """Nothing would end its restriction."""
    play, policy = world()
    policy.tiers = {1: 0}
    with pytest.raises(InvariantError, match="is not to be restricted"):
        play.request("a", rounds=4, asynchronous=Asynchronous(2, None))
