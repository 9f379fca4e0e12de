"""Tiers of devices and targets of requests, as the compiled loop decides them."""

import numpy as np
import pytest

from coordinator.engine.plan import ANY_TIER, LIFTED, UNDECIDED
from testbed.simulate.compiled import kernel_tiers
from testbed.simulate.compiled.kernel_tiers import AUTO, LAST
from testbed.simulate.compiled.layout import GROUND, NONE
from testbed.simulate.compiled.tables import Tables
from testbed.testing.worlds import job
from tests.unit.simulate.kernels import lease, plan, small, uncompiled

TIERS = uncompiled(kernel_tiers)
SPAN_S = 12.0
ALL = np.array([0])  # contender of each region: there is one of each
EVERY_TIER = (NONE, 0, 1, 2)


def responses(t: Tables, row: int, tier: int, *seconds: float) -> None:
    """Of a tier alone, or over all (NONE). A time is as long as the edge of its bin, which is set to it."""
    for each in seconds:
        t.edges[TIERS._bin_of(t, each)] = each
        TIERS.profile(t, row, each, tier, 0 if tier == NONE else 1)


def example(supply: int, of_tier: int, deadline: float = 900.0) -> Tables:
    """That of the page on policies: 10 devices, a tail of 60 s over all and 20 s in a tier. Supply in 12 seconds."""
    t = small([job("a", 10, deadline=deadline)], tiers=3)
    for tier in EVERY_TIER:
        responses(t, 0, tier, *[60.0 if tier == NONE else 20.0] * 20)
    t = t.with_(ground=np.zeros(1, GROUND), tier_supply=np.full((3, 1), of_tier))
    t.ground["supply"], t.run.span_s, t.run.merged = supply, SPAN_S, 1
    plan(t, [0])
    return t


def tier_of(t: Tables, row: int = 0) -> int:
    return int(t.jobs[row].tier)


def test_devices_are_cut_between_tiers_by_their_scores() -> None:
    t = small([job("a", 1)], tiers=3)
    assert TIERS.tier_of(t, 1.0, False) == NONE  # there are no cuts so far
    t.run.cuts, t.cuts[:] = 2, (TIERS._bin_of(t, 1.0), TIERS._bin_of(t, 4.0))
    assert [TIERS.tier_of(t, score, True) for score in (0.5, 1.0, 1.1, 4.0, 4.3, 99.0)] == [0, 0, 1, 1, 2, 2]
    assert t.scores.sum() == 1  # a device counts once in an interval
    assert t.scores[TIERS._bin_of(t, 1.0)] == 1


@pytest.mark.parametrize(
    ("supply", "of_tier", "pays"),
    [(24, 8, True), (3, 1, False), (24, 2, False), (24, 0, False)],
    ids=["10 s lost for 40 s", "80 s lost", "55 s lost", "none of the tier"],
)
def test_a_request_is_restricted_where_it_gains_more_than_it_waits(supply: int, of_tier: int, pays: bool) -> None:
    t = example(supply, of_tier)
    TIERS.restrict(t, ALL)
    assert (tier_of(t) >= 0) is pays
    assert pays or tier_of(t) == ANY_TIER


def test_it_stays_undecided_as_long_as_its_group_owns_nothing() -> None:
    t = example(24, 8)
    TIERS.restrict(t, np.array([NONE]))
    assert tier_of(t) == UNDECIDED


def test_it_is_for_all_while_too_few_have_responded() -> None:
    t = example(24, 8)
    t.profiles[0, 0].total = 19
    TIERS.restrict(t, ALL)
    assert tier_of(t) == ANY_TIER


def test_a_restriction_is_lifted_for_good_before_it_costs_the_deadline() -> None:
    """10 devices of the tier take 15 s, their responses 20 s."""
    t = example(24, 8)
    TIERS.restrict(t, ALL)
    assert (tier_of(t) >= 0, t.run.review) == (True, 865.0)
    t.run.now = 864.9
    TIERS.restrict(t, ALL)
    assert tier_of(t) >= 0
    t.run.now = 865.0
    TIERS.restrict(t, ALL)
    assert (tier_of(t), t.run.review) == (LIFTED, np.inf)
    t.run.now = 0.0
    TIERS.restrict(t, ALL)
    assert tier_of(t) == LIFTED


def test_leases_of_a_request_that_is_restricted_count_for_their_tier_only() -> None:
    t = example(24, 8)
    _, before = lease(t, 0, 5)
    TIERS.decide(t, 0, 1)
    _, after = lease(t, 0, 6)
    TIERS.decide(t, 0, ANY_TIER)
    _, lifted = lease(t, 0, 7)
    assert [int(t.leases[one].chosen) for one in (before, after, lifted)] == [1, 1, 1]
    counts = t.profiles[0]["total"].copy()
    TIERS.profile(t, 0, 5.0, 1, 1)
    assert (t.profiles[0]["total"] - counts).tolist() == [0, 0, 1, 0, 0]
    TIERS.profile(t, 0, 5.0, 1, 0)
    assert (t.profiles[0]["total"] - counts).tolist() == [1, 0, 2, 0, 1]


@pytest.mark.parametrize(("cost_s", "tier"), [(0.0, 0), (0.9, 0), (1.1, ANY_TIER)])
def test_under_venn_plus_a_tier_is_worth_what_it_costs_the_request_and_others(cost_s: float, tier: int) -> None:
    """It saves 40 s and waits 10 s longer; three times as many devices as else pass, which another job waits for."""
    t = small([job("a", 10), job("b", 1)], [0, 1], tiers=3)
    responses(t, 0, NONE, *[60.0] * 20)
    responses(t, 0, 0, *[20.0] * 20)
    responses(t, 0, 1, *[60.0] * 40)
    t.group_rates[:], t.group_tiers[:], t.run.span_s = 24.0, [[8], [16], [24]], SPAN_S
    t.seconds[0, 1] = cost_s
    TIERS.restrict_priced(t, np.array([0, 1]))
    assert (tier_of(t), tier_of(t, 1)) == (tier, ANY_TIER)


def aimed(price: float, *, spares: int = AUTO, left_s: float = 1e6) -> list[int]:
    """Targets of a job that needs 2 of 4, and of one behind it that waits ``price`` seconds for each device.

    The second response comes after 60 s of two, after 20 s of three and after 10 s of four.
    """
    t = small([job("a", 4, min_response="1/2", deadline=left_s), job("b", 1)], [0, 1])
    responses(t, 0, NONE, *[10.0] * 12, *[20.0] * 3, *[60.0] * 15)
    t.run.spares, t.seconds[1, 0] = spares, price
    TIERS.aim(t, np.array([0, 1]))
    return list(t.jobs["target"].tolist())


@pytest.mark.parametrize(("price", "target"), [(0.0, 4), (9.0, 4), (11.0, 3), (39.0, 3), (41.0, 2)])
def test_a_spare_place_is_filled_where_it_saves_more_than_it_costs_those_behind(price: float, target: int) -> None:
    assert aimed(price) == [target, 1]


def test_a_spare_place_is_filled_at_any_price_where_it_saves_the_round() -> None:
    assert aimed(1000.0, left_s=30.0) == [3, 1]
    assert aimed(1000.0, left_s=15.0) == [4, 1]


def test_spare_places_that_come_last_are_beyond_the_responses_needed() -> None:
    assert aimed(0.0, spares=LAST) == [2, 1]
