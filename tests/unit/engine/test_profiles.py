"""Response profiles: the scale, the percentile, halving, priors."""

from bisect import bisect_left
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.engine.profiles import ENOUGH, FULL, Profile, closing_percent, new_profiles
from coordinator.engine.scale import BINS, EDGES, FIRST_EDGE_S, STEP, bin_of
from coordinator.engine.tiers import NO_TIER


def test_the_scale_is_one_product_after_the_other() -> None:
    assert len(EDGES) == BINS
    assert EDGES[:4] == (
        FIRST_EDGE_S,
        FIRST_EDGE_S * STEP,
        FIRST_EDGE_S * STEP * STEP,
        FIRST_EDGE_S * STEP * STEP * STEP,
    )
    assert EDGES[-1] > 16 * 86_400


def test_an_edge_is_the_greatest_time_of_its_bin() -> None:
    assert [bin_of(seconds) for seconds in (0.0, EDGES[0], EDGES[7], EDGES[7] * 1.001, 1e12)] == [0, 0, 7, 8, BINS - 1]


def test_the_tail_is_the_edge_at_which_95_of_100_are_reached() -> None:
    profile = Profile()
    for _ in range(95):
        profile.add(100)
    for bin_ in range(200, 205):
        profile.add(bin_)
    assert profile.tail_s == EDGES[100]  # the 95th of 100
    profile.add(204)
    assert profile.tail_s == EDGES[200]  # ceil(95.95) = 96 of 101
    for _ in range(20):
        profile.add(50)
    assert profile.tail_s == EDGES[100]  # ceil(114.95) = 115 of 121: 20 + 95


def test_the_percentile_is_that_of_the_response_that_closes_a_round() -> None:
    assert closing_percent(80, 100) == 80
    assert closing_percent(8, 11) == 73  # ceil(72.7)
    assert closing_percent(10, 10) == 95  # the last one says nothing of the others
    profile = Profile(percent=50)
    for bin_ in range(100):
        profile.add(bin_)
    assert profile.tail_s == EDGES[49]  # the 50th of 100


def test_too_few_responses_are_no_tail() -> None:
    profile = Profile()
    for _ in range(ENOUGH - 1):
        profile.add(3)
    assert profile.tail_s == 0.0
    profile.add(3)
    assert profile.tail_s == EDGES[3]


def test_all_bins_are_halved_when_it_is_full() -> None:
    profile = Profile()
    for bin_ in [10] * 1001 + [20] * 998:
        profile.add(bin_)
    assert (profile.total, profile.counts[10], profile.counts[20]) == (FULL - 1, 1001, 998)
    profile.add(30)
    assert (profile.counts[10], profile.counts[20], profile.counts[30], profile.total) == (500, 499, 0, 999)
    assert profile.tail_s == EDGES[20]


@given(st.lists(st.tuples(st.integers(0, BINS - 1), st.integers(0, 100)), max_size=300), st.integers(1, 30))
def test_a_quantile_that_begins_at_the_last_one_is_the_one_that_is_counted(
    bins: list[tuple[int, int]], times: int
) -> None:
    profile = Profile()
    for bin_, percent in bins * times:
        profile.add(bin_)
        assert profile.total == sum(profile.counts) < FULL
        if percent:  # else nobody asks
            upto = list(accumulate(profile.counts))
            assert profile.quantile(percent, 100) == EDGES[bisect_left(upto, -(-percent * profile.total // 100))]


def test_a_tier_that_is_not_known_is_as_slow_as_all() -> None:
    profiles = new_profiles(2)
    assert profiles.tails() == (0.0, 0.0, 0.0)
    for _ in range(ENOUGH):
        profiles.add(2.0, 0, chosen=False)
    profiles.add(50.0, 1, chosen=False)
    profiles.add(9e9, NO_TIER, chosen=False)
    two = EDGES[bin_of(2.0)]
    slow = EDGES[bin_of(50.0)]
    assert (profiles.everyone.total, profiles.tiers[0].total, profiles.tiers[1].total) == (ENOUGH + 2, ENOUGH, 1)
    assert profiles.tails() == (slow, two, slow)


def test_chosen_devices_say_nothing_about_all() -> None:
    profiles = new_profiles(2)
    for _ in range(ENOUGH):
        profiles.add(2.0, 0, chosen=True)
    assert profiles.tails() == (0.0, EDGES[bin_of(2.0)], 0.0)


def test_a_lost_place_takes_its_own_time_and_once_more_what_places_take() -> None:
    """Half of the leases are lost after 10 s, the others take 10 s: after one loss a place takes 20 s, after two 30."""
    profiles = new_profiles(1)
    for _ in range(900):
        profiles.add(10.0, NO_TIER, chosen=False)
        profiles.lose(10.0, chosen=False)
    times = profiles.times()
    places, responses = times.until_response(NO_TIER), times.of_tier()
    assert places is not None
    assert responses is not None
    within = [sum(places.counts[: bin_of(10.6 * turns) + 1]) / places.total for turns in (1, 2, 3)]
    assert within == [pytest.approx(expected, abs=0.03) for expected in (1 / 2, 3 / 4, 7 / 8)]
    assert responses.total == 900  # tails know responses only


def test_what_is_lost_before_enough_responses_are_known_says_nothing() -> None:
    profiles = new_profiles(1)
    for _ in range(ENOUGH - 1):
        profiles.add(10.0, NO_TIER, chosen=False)
    profiles.lose(10.0, chosen=False)
    assert profiles.times().until_response(NO_TIER) is None
    profiles.add(10.0, NO_TIER, chosen=False)
    profiles.lose(10.0, chosen=True)  # for one tier: what it shows is not what all take
    assert profiles.places.total == ENOUGH
    profiles.lose(10.0, chosen=False)
    assert profiles.places.total == ENOUGH + 1
