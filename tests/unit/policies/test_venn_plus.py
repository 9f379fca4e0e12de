"""The order of venn-plus, and its tiers at a price, part by part. docs/venn-plus.md says why."""

from dataclasses import replace
from fractions import Fraction

import pytest

from coordinator.engine.ids import RegionId
from coordinator.engine.plan import ANY_TIER, Collecting, CollectingView, JobView, View
from coordinator.engine.profiles import ResponseTimes
from coordinator.engine.scale import BINS, bin_of
from coordinator.policies.registry import PolicyError, load_policy
from coordinator.policies.srsf_job import SrsfJob
from coordinator.policies.venn_plus import VennPlus
from testbed.testing.arena import CASES, case, response_times, run, view


def seen(cycle: str, requests: str) -> View:
    world = case(cycle, requests)
    return view(world, world.demands)


def order(policy: VennPlus, world: View) -> tuple[int, ...]:
    (queue,) = policy.plan(world).queues
    return queue


@pytest.mark.parametrize(
    ("scarcity", "expected"),
    [(0, (0, 1)), (1, (0, 1)), (2, (1, 0))],  # G is at 2 devices a cycle, H at 1: 4 < 12; 4 x 2 < 12; 4 x 4 > 12
)
def test_scarcity_is_the_power_of_the_supply(scarcity: int, expected: tuple[int, ...]) -> None:
    assert order(VennPlus(scarcity=scarcity), seen("g gh", "G4 H12")) == expected


def test_the_order_without_its_parts_is_srsf_job() -> None:
    bare = VennPlus(scarcity=0, nearness=False, spares="with", tiers=1)
    for world in CASES.values():
        start = view(world, world.demands)
        assert bare.plan(start).queues == SrsfJob().plan(start).queues
        assert not bare.plan(start).targets


def test_what_is_nearly_full_comes_forward() -> None:
    world = seen("g", "G4 G4")
    first, second = world.requests
    far, near = first._replace(remaining_all_rounds=90), second._replace(remaining_all_rounds=100, remaining=2)
    assert order(VennPlus(), world.showing(far, near)) == (1, 0)  # 90 > 100 x sqrt(2 / 4)
    assert order(VennPlus(nearness=False), world.showing(far, near)) == (0, 1)


def test_a_group_whose_devices_were_never_seen_counts_as_scarcest() -> None:
    world = replace(seen("g h", "G1 H9"), supply={RegionId(0): 5})
    assert order(VennPlus(), world) == (1, 0)


def test_supply_that_moves_is_seen() -> None:
    policy = VennPlus()
    world = seen("g h", "G3 H4")
    assert order(policy, world) == (0, 1)
    assert order(policy, replace(world, supply={RegionId(0): 5, RegionId(1): 1})) == (1, 0)


@pytest.mark.parametrize(("name", "mean"), [("A", "5"), ("C", "9")])
def test_exact_cases(name: str, mean: str) -> None:
    assert run(CASES[name], VennPlus()).mean == Fraction(mean)


def test_parameters_come_with_the_name() -> None:
    policy = load_policy("venn-plus(scarcity=1; nearness=no; spares=last)")
    assert isinstance(policy, VennPlus)
    assert (policy.scarcity, policy.nearness, policy.spares) == (1, False, "last")
    with pytest.raises(PolicyError, match="scarcity is 9; it is 0 to 8"):
        load_policy("venn-plus(scarcity=9)")
    with pytest.raises(PolicyError, match="spares is 'first'; it is with, last, auto"):
        load_policy("venn-plus(spares=first)")


# -- prices: devices of g come at 1 in 100 s; a job's responses take 10 s, its slowest fifth 100 s


def times(*seconds: float) -> list[int]:
    counts = [0] * BINS
    for each in seconds:
        counts[bin_of(each)] += 10
    return counts


def priced(remaining: int = 3, *, responses: ResponseTimes | None = None) -> View:
    """One request for 10 devices that closes at 8; it has all but ``remaining``."""
    world = replace(seen("g", "G10"), supply={RegionId(0): 36}, supply_span_s=3600.0)
    one = world.requests[0]._replace(remaining=remaining, needed=8, lacking=max(remaining - 2, 0), deadline_at=9e9)
    known = responses or response_times(times(10, 10, 10, 10, 10, 10, 10, 10, 100, 100))
    return replace(world.showing(one), jobs={one.job: JobView(0.0, one.group, 10, 1, (100.0,) * 4, known)})


def test_a_job_in_collection_counts_for_prices_where_it_will_stand() -> None:
    """One more device costs it 100 s, and would save 90 s: the 8th of 8 comes after 100 s, of 10 after 10 s."""
    world = priced()
    (one,) = world.requests
    assert VennPlus().plan(world).targets == {one.request: 10}

    def coming(rounds_left: int | None) -> View:
        job = CollectingView(one.job, 9.0, one.group, 10, rounds_left)
        return replace(world, collecting=Collecting.of([job], world.groups))

    assert VennPlus().plan(coming(5)).targets == {one.request: 8}
    assert VennPlus().plan(coming(None)).targets == {one.request: 8}  # one more round, as far as is known: 10 > 3
    assert VennPlus(collecting=False).plan(coming(5)).targets == {one.request: 10}
    ahead = one._replace(remaining_all_rounds=900)  # it comes after the next opening of the other
    assert VennPlus().plan(coming(5).showing(ahead)).targets == {one.request: 10}


def tiered(supply: int, *, waiting: int = 0) -> View:
    """Three tiers with a third of the supply each, in which responses take 10, 20 and 100 s."""
    tiers = [times(10), times(20), times(100)]
    each = [[10 * count for count in one] for one in tiers]
    known = response_times(times(10, 20, 100), *each, times(10, 20, 100))
    world = priced(10, responses=known)
    (one,) = world.requests
    others = [one._replace(request=9 + number, job=f"z{number}", arrival=9.0) for number in range(waiting)]
    jobs = {request.job: world.jobs[one.job] for request in (one, *others)}
    return replace(
        world.showing(one, *others),
        supply={RegionId(0): supply},
        jobs=jobs,
        tiers=3,
        tier_supply=tuple({RegionId(0): supply // 3} for _ in range(3)),
    )


def test_the_tiers_that_save_most_are_taken_where_that_is_more_than_they_cost() -> None:
    """The 8th of 10 responses comes after 100 s, of the fast two tiers after 20 s, of the fastest after 10 s.

    10 devices at 1 a second come in 10 s, of two tiers in 15 s, of one in 30 s: 5 s for 80 s are best. At 10 a second
    2 s for 90 s are, and at 1 in 20 s the two tiers cost 100 s.
    """
    plan = VennPlus().plan(tiered(3600))
    assert plan.tiers == {0: 1}
    assert plan.or_faster
    assert VennPlus().plan(tiered(36000)).tiers == {0: 0}
    assert VennPlus().plan(tiered(180)).tiers == {0: ANY_TIER}
    assert VennPlus(tiers=1).plan(tiered(3600)).tiers == {}


def test_every_request_is_asked_and_not_the_first_of_its_group_alone() -> None:
    assert VennPlus(spares="with").plan(tiered(36000, waiting=2)).tiers == {0: 0, 9: 0, 10: 0}


def test_others_who_wait_are_a_price_of_a_tier() -> None:
    """Each of them waits 10 x 1.5 s: four are worth less than the 75 s, six more."""
    assert VennPlus(spares="with").plan(tiered(3600, waiting=4)).tiers[0] == 1
    assert VennPlus(spares="with").plan(tiered(3600, waiting=6)).tiers[0] == ANY_TIER
