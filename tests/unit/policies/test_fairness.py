"""The fairness knob by hand: fair times, the order within a group, and who takes devices over."""

import math
from dataclasses import replace

import pytest

from coordinator.engine.ids import RegionId
from coordinator.engine.plan import JobView, View
from coordinator.policies.venn.fairness import FairShares, power
from coordinator.policies.venn.policy import Venn
from testbed.testing.arena import CASES, case, view


def seen(cycle: str, requests: str, now: float, arrivals: tuple[float, ...], rounds: tuple[int, ...] = ()) -> View:
    """Jobs whose requests are unserved, with a tail of 10 s each."""
    world = case(cycle, requests)
    made = view(world, world.demands)
    asked = tuple(one._replace(arrival=at) for one, at in zip(made.requests, arrivals, strict=True))
    jobs = {
        one.job: JobView(one.arrival, one.group, one.remaining, count, (10.0,))
        for one, count in zip(asked, rounds or (1,) * len(asked), strict=True)
    }
    asked = tuple(sorted(asked, key=lambda one: (one.arrival, one.job)))
    return replace(made.showing(*asked), now=now, jobs=jobs)


def test_a_fair_time_is_that_alone_times_the_jobs_that_share() -> None:
    """G4 alone: 4 devices in 4 s, and 10 s for the responses; two jobs: 28 s. It has waited 56 s: twice that."""
    world = seen("g", "G4 G2", 56.0, (0.0, 42.0))
    shares = FairShares(world, 1.0)
    assert shares.demands(world.requests.left).tolist() == [4 / 2.0, 2 / (14.0 / 24.0)]
    assert shares.weight([0, 1]) == (56.0 + 14.0) / (28.0 + 24.0)


@pytest.mark.parametrize("exponent", [0.0, 0.25, 0.3, 1.0, 1.5, 2.0, 49.99, 50.0])
@pytest.mark.parametrize("base", [0.01, 0.7, 1.0, 3.0, 100.0])
def test_a_power_is_what_it_should_be_and_made_of_exact_steps(base: float, exponent: float) -> None:
    assert power(base, exponent) == pytest.approx(base**exponent, rel=1e-13)
    if exponent in (0.0, 1.0, 2.0):
        assert power(base, exponent) == (1.0, base, base * base)[int(exponent)]
    assert power(base, 0.75) == math.sqrt(base) * math.sqrt(math.sqrt(base))


def test_rounds_and_supply_count() -> None:
    """A device for G in every second second: 3 rounds of 2 x 4 s + 10 s."""
    world = seen("g h", "G4", 27.0, (0.0,), (3,))
    assert FairShares(world, 1.0).demands(world.requests.left)[0] == 4 / (27.0 / 54.0)


def test_ratios_are_kept_within_bounds() -> None:
    world = seen("g", "G4 G2", 1e6, (0.0, 1e6))
    shares = FairShares(world, 1.0)
    assert shares.demands(world.requests.left).tolist() == [4 / 100.0, 2 / 0.01]
    unseen = replace(world, supply={})
    assert FairShares(unseen, 2.0).demands(unseen.requests.left)[0] == 4 / 0.01**2


def test_the_order_turns_as_the_knob_grows() -> None:
    """r is 2 and 0.58 in the first test above: 4 x 2^-e against 2 x 0.58^-e, equal at e = 0.56."""
    world = seen("g", "G4 G2", 56.0, (0.0, 42.0))
    assert [Venn(fairness=knob).plan(world).queues for knob in (0.0, 0.5, 0.6, 2.0)] == [
        ((1, 0),),
        ((1, 0),),
        ((0, 1),),
        ((0, 1),),
    ]


def test_an_overdue_group_takes_devices_over() -> None:
    """G1 is as many as H1, and would not get gh; but its job has waited for ten times as long."""
    world = seen("g gh", "G1 H5", 1000.0, (0.0, 999.0))
    region = RegionId(1)
    assert Venn().plan(world).owner[region] == 0
    assert Venn(fairness=1.0).plan(world).owner[region] == 1
    late = seen("g gh", "G1 H5", 1000.0, (999.0, 0.0))
    assert Venn(fairness=50.0).plan(late).owner[region] == 0


def test_a_knob_at_nothing_is_venn_as_it_is() -> None:
    for world in CASES.values():
        made = view(world, world.demands)  # without a word about jobs
        assert Venn(fairness=0.0).plan(made) == Venn().plan(made)


@pytest.mark.parametrize("knob", [-0.1, 50.1, math.nan, math.inf])
def test_a_knob_has_bounds(knob: float) -> None:
    with pytest.raises(ValueError, match="it is 0 to 50"):
        Venn(fairness=knob)


def test_the_strongest_knob_still_gives_numbers() -> None:
    world = seen("g gh", "G1 H5 G900", 1e6, (0.0, 1e6, 1e6))
    shares = FairShares(world, 50.0)
    assert all(0.0 < one < math.inf for one in shares.demands(world.requests.left))
    assert len(Venn(fairness=50.0).plan(world).queues) == 2
