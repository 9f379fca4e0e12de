"""Tier matching by hand: when a restriction pays, when it is lifted, and what is asked for in between."""

from dataclasses import replace

import pytest

from coordinator.engine.chance import Purpose, draw, index
from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId
from coordinator.engine.plan import ANY_TIER, LIFTED, UNDECIDED, GroupView, JobView, Plan, Requests, RequestView, View
from coordinator.engine.scale import BINS, bin_of
from coordinator.policies.registry import PolicyError, load_policy
from coordinator.policies.venn.nomatch import VennNomatch
from coordinator.policies.venn.nosched import VennNosched
from coordinator.policies.venn.policy import Venn
from coordinator.policies.venn.tiers import Drawn
from coordinator.policies.venn.whole_queues import VennQueue
from testbed.testing.arena import response_times

G, SLOW_ONLY = RegionId(0), RegionId(1)


def drawn(request: int, tiers: int = 3, seed: int = 7) -> int:
    return index(draw(seed, Purpose.TIER, request), tiers)


FAST = next(number for number in range(1, 99) if drawn(number) == 0)  # requests whose draw is this tier
SLOW = next(number for number in range(1, 99) if drawn(number) == 2)


def seen(
    request: int = FAST,
    *,
    now: float = 100.0,
    remaining: int = 10,
    tails: tuple[float, ...] = (60.0, 20.0, 40.0, 90.0),
    tier: int = UNDECIDED,
    deadline: float = 1000.0,
    supply: int = 600,
    shares: tuple[int, ...] = (200, 200, 200),
) -> View:
    """One job in one region: ``supply`` check-ins in 300 s, and ``shares`` of them by tier."""
    one = RequestView(RequestId(request), JobId("a"), 0.0, GroupId("g"), remaining, None)
    groups = (GroupView(GroupId("g"), (G,)),)
    return View(
        now,
        7,
        1,
        groups,
        Requests.of([one._replace(tier=tier, opened_at=now, deadline_at=deadline)], groups),
        {G: supply} if supply else {},
        300.0,
        {JobId("a"): JobView(0.0, GroupId("g"), 10, 1, tails)},
        3,
        tuple({G: share} for share in shares),
    )


def decided(plan: Plan, request: int = FAST) -> int | None:
    return plan.tiers.get(RequestId(request))


def test_a_restriction_pays_where_it_saves_more_than_it_waits() -> None:
    """10 devices come in 5 s, of one tier in 15 s: 10 s more for devices, and t_0 - t_u less for responses."""
    for policy in (Venn(), VennQueue(), VennNosched()):
        assert decided(policy.plan(seen(tails=(30.1, 20.0, 40.0, 90.0)))) == 0
        assert decided(policy.plan(seen(tails=(30.0, 20.0, 40.0, 90.0)))) == ANY_TIER


def test_it_is_the_papers_rule_where_tiers_are_alike() -> None:
    for remaining in range(1, 60):
        delay = remaining / 2.0
        pays = 3 + 20.0 / 60.0 * (60.0 / delay) < 1 + 60.0 / delay
        assert decided(Venn().plan(seen(remaining=remaining))) == (0 if pays else ANY_TIER)


def test_the_published_rule_takes_every_tier_for_a_third_of_the_supply() -> None:
    """10 devices come in 5 s; of one tier in 15 s, it says, though here in 60 s. 3 + 20/60 x 12 < 1 + 12."""
    published, rare = Venn(tiers="paper"), (50, 100, 450)
    assert decided(published.plan(seen(shares=rare))) == 0
    assert decided(Venn().plan(seen(shares=rare))) == ANY_TIER
    assert decided(published.plan(seen(shares=rare, tails=(29.9, 20.0, 40.0, 90.0)))) == ANY_TIER  # 6.99 > 6.98


@pytest.mark.parametrize("remaining", range(1, 60, 7))
def test_the_published_rule_is_v_plus_g_c_below_1_plus_c(remaining: int) -> None:
    c = 60.0 * 2.0 / remaining
    expected = 0 if 3 + 20.0 / 60.0 * c < 1 + c else ANY_TIER
    assert decided(Venn(tiers="paper").plan(seen(remaining=remaining))) == expected


def test_the_tail_may_be_a_percentile_of_ones_own() -> None:
    """Nine of ten responses are as fast anywhere; the slowest tenth is slow where devices are."""

    def row(slow: int) -> list[int]:
        counts = [0] * BINS
        counts[bin_of(10.0)], counts[bin_of(90.0)] = 900, slow
        return counts

    world = seen()
    (one,) = world.requests
    known = JobView(0.0, one.group, 10, 1, (10.0,) * 4, response_times(row(100), row(1), row(100), row(100), row(100)))
    world = replace(world, jobs={one.job: known})
    assert decided(Venn().plan(world)) == ANY_TIER
    assert decided(Venn(tail=90).plan(world)) == ANY_TIER
    assert decided(Venn(tail=95).plan(world)) == 0


def test_the_papers_own_venn_is_a_name_with_parameters() -> None:
    policy = load_policy("venn(order=request; tail=95; tiers=paper)")
    assert isinstance(policy, Venn)
    assert (policy.order, policy.rule, policy.tiers) == ("request", Drawn(paper=True, percent=95), 3)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("order=size", "order is 'size'; it is job or request"),
        ("tail=100", "tail is 100; it is 1 to 99, or closing"),
        ("tail=0", "tail is 0; it is 1 to 99, or closing"),
        ("tail=last", "tail is last; it is 1 to 99, or closing"),
        ("tiers=17", "tiers is 17; it is 1, for none, to 16, or paper"),
        ("tiers=ours", "tiers is ours; it is 1, for none, to 16, or paper"),
    ],
)
def test_a_knob_that_does_not_exist_is_told(parameters: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        load_policy(f"venn({parameters})")


def test_a_slow_tier_never_pays() -> None:
    assert decided(Venn().plan(seen(SLOW)), SLOW) == ANY_TIER


def test_the_tiers_own_supply_counts() -> None:
    """10 devices of a tier that is rare here come in 60 s: 55 s more, for 40 s less."""
    assert decided(Venn().plan(seen(shares=(50, 100, 450)))) == ANY_TIER
    assert decided(Venn().plan(seen(shares=(100, 100, 400)))) == 0
    assert decided(Venn().plan(seen(shares=(0, 0, 600)))) == ANY_TIER


def test_what_is_not_known_restricts_nothing() -> None:
    assert decided(Venn().plan(seen(tails=()))) == ANY_TIER
    assert decided(Venn().plan(seen(tails=(0.0, 20.0, 0.0, 0.0)))) == ANY_TIER
    assert decided(Venn().plan(seen(deadline=float("inf")))) == ANY_TIER


def test_who_has_no_devices_decides_later() -> None:
    for policy in (Venn(), VennNosched()):
        assert decided(policy.plan(seen(supply=0))) is None


def test_only_the_first_of_a_queue_decides() -> None:
    view = seen()
    second = view.requests[0]._replace(request=RequestId(FAST + 100), job=JobId("b"), arrival=5.0, remaining=11)
    view = replace(view.showing(*view.requests, second), jobs={**view.jobs, JobId("b"): view.jobs[JobId("a")]})
    for policy in (Venn(), VennNosched()):
        assert list(policy.plan(view).tiers) == [FAST]


def test_nobody_is_restricted_without_tiers() -> None:
    for policy in (VennNomatch(), Venn(tiers=1), VennNosched(tiers=1)):
        assert policy.plan(seen()).tiers == {}
    for policy in (Venn(), VennNosched()):
        assert policy.plan(replace(seen(), tiers=1, tier_supply=())).tiers == {}


def test_a_decision_is_left_alone() -> None:
    for tier in (ANY_TIER, LIFTED, 0, 1):
        plan = Venn().plan(seen(tier=tier))
        assert plan.tiers == {}
        assert (plan.review_at is None) == (tier < 0)


@pytest.mark.parametrize(
    ("remaining", "latest"),
    [(10, 1000.0 - (10 * 300.0 / 200 + 20.0)), (2, 1000.0 - (2 * 300.0 / 200 + 20.0))],  # 965, 977
)
def test_the_deadline_guard(remaining: int, latest: float) -> None:
    """10 devices of the tier come in 15 s, and answer in 20 s."""
    for policy in (Venn(), VennNosched()):
        plan = policy.plan(seen(tier=0, remaining=remaining, now=latest - 1.0))
        assert (plan.tiers, plan.review_at) == ({}, latest)
        plan = policy.plan(seen(tier=0, remaining=remaining, now=latest))
        assert (plan.tiers, plan.review_at) == ({FAST: ANY_TIER}, None)


def test_what_cannot_be_in_time_is_not_restricted_at_all() -> None:
    plan = Venn().plan(seen(now=970.0))
    assert (plan.tiers, plan.review_at) == ({FAST: ANY_TIER}, None)
    plan = Venn().plan(seen(now=960.0))
    assert (plan.tiers, plan.review_at) == ({FAST: 0}, 965.0)


def test_a_tier_that_no_longer_comes_lifts() -> None:
    assert Venn().plan(seen(tier=0, shares=(0, 300, 300))).tiers == {FAST: ANY_TIER}
    assert Venn().plan(seen(tier=0, supply=0, shares=(0, 0, 0))).tiers == {}  # no supply, no part in the plan


def test_the_earliest_review_counts() -> None:
    view = seen(tier=0)
    second = view.requests[0]._replace(request=RequestId(7), job=JobId("b"), deadline_at=900.0)
    view = replace(view.showing(*view.requests, second), jobs={**view.jobs, JobId("b"): view.jobs[JobId("a")]})
    assert Venn().plan(view).review_at == 900.0 - 35.0


def test_under_fifo_a_region_is_the_first_groups() -> None:
    """The second group owns what the first cannot use, here slow devices only."""
    view = seen()
    other = view.requests[0]._replace(request=RequestId(FAST), job=JobId("b"), arrival=5.0, group=GroupId("h"))
    first = view.requests[0]._replace(request=RequestId(SLOW))
    view = replace(
        replace(view, groups=(*view.groups, GroupView(GroupId("h"), (G, SLOW_ONLY)))).showing(first, other),
        supply={G: 600, SLOW_ONLY: 600},
        jobs={JobId("a"): view.jobs[JobId("a")], JobId("b"): view.jobs[JobId("a")]},
        tier_supply=({G: 200}, {G: 200}, {G: 200, SLOW_ONLY: 600}),
    )
    assert VennNosched().plan(view).tiers == {SLOW: ANY_TIER, FAST: ANY_TIER}
    alone = view.showing(other)
    assert VennNosched().plan(alone).tiers == {FAST: 0}
