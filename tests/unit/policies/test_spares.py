"""Spare places by hand: what a place costs others, what it saves, and how many are worth it."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId
from coordinator.engine.plan import GroupView, JobView, Plan, Policy, View
from coordinator.engine.profiles import ENOUGH, Profile, ResponseTimes
from coordinator.engine.scale import BINS, EDGES, bin_of
from coordinator.policies.registry import PolicyError, load_policy, policy_names
from coordinator.policies.spares import Contention, best_places
from testbed.testing.arena import case, response_times, view

SPAN_S = 3600.0


def bins(*times: tuple[float, int]) -> list[int]:
    """So many took so long."""
    counts = [0] * BINS
    for seconds, number in times:
        counts[bin_of(seconds)] += number
    return counts


def counted(*times: tuple[float, int]) -> ResponseTimes:
    return response_times(bins(*times))


SCATTERED = counted((10.0, 80), (100.0, 20))  # the 8th of 8 comes after 100 s, of 9 or 10 after 10 s


def seen(requests: str, *, supply: int = 3600, responses: ResponseTimes = SCATTERED) -> View:
    """Rounds of 10 places that close at 8. The first request has its 8; the others have nothing yet."""
    world = case("g", requests)
    start = view(world, world.demands)
    first, *others = [one._replace(needed=8, lacking=8) for one in start.requests]
    first = first._replace(remaining=2, lacking=0)
    jobs = {one.job: JobView(0.0, one.group, 10, 1, (), responses) for one in start.requests}
    return replace(start.showing(first, *others), supply={RegionId(0): supply}, supply_span_s=SPAN_S, jobs=jobs)


def target(world: View, policy: str = "fifo(spares=auto)", request: int = 0) -> int:
    return load_policy(policy).plan(world).targets[RequestId(request)]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1, 9), (80, 9), (95, 8)],  # a device in so many seconds: so much longer the one behind waits. 90 s are saved
)
def test_a_spare_place_is_worth_what_it_saves_and_costs_what_others_wait(seconds: int, expected: int) -> None:
    assert target(seen("G10 G10", supply=round(SPAN_S / seconds))) == expected


def test_every_request_behind_that_lacks_devices_is_part_of_the_price() -> None:
    """At 40 s a device two of them pay 80 s for 90, three pay 120."""
    assert target(seen("G10 G10 G10", supply=90)) == 9
    assert target(seen("G10 G10 G10 G10", supply=90)) == 8
    enough = seen("G10 G10 G10 G10", supply=90)
    first, second, *others = enough.requests
    assert target(enough.showing(first, second._replace(lacking=0), *others)) == 9


@pytest.mark.parametrize(
    ("left_s", "expected"),
    [(110, 8), (90, 9), (15, 9), (5, 10)],  # the 8th of 8 comes after 100 s, of 9 or 10 after 10 s: too late at 5 s
)
def test_a_round_that_would_miss_its_deadline_gets_the_places_that_save_it(left_s: int, expected: int) -> None:
    world = seen("G10 G10", supply=36)  # a place costs 100 s, and saves 90
    first, *others = world.requests
    first = first._replace(deadline_at=world.now + left_s)
    assert target(world.showing(first, *others)) == expected


def test_those_ahead_are_no_part_of_it() -> None:
    world = seen("G10 G10", supply=36)
    assert target(world) == 8
    assert target(world, request=1) == 10  # nobody is behind the last one: all it asks for


def test_too_few_responses_are_no_reason_to_wait_for_the_slowest() -> None:
    assert target(seen("G10 G10", supply=36, responses=counted((10.0, ENOUGH - 1)))) == 10
    assert target(seen("G10 G10", supply=36, responses=counted((10.0, ENOUGH)))) == 8


def test_a_device_that_the_other_group_cannot_use_costs_it_nothing() -> None:
    """W is the rate at which two groups meet the same devices, over the rates of both."""
    groups = tuple(
        GroupView(GroupId(name), tuple(RegionId(one) for one in regions))
        for name, regions in (("a", (0, 1)), ("b", (1, 2)), ("c", (3,)), ("d", (4,)))
    )
    supply = {RegionId(number): count for number, count in enumerate((10, 30, 50, 20))}
    seconds = Contention(groups, supply, SPAN_S).seconds
    assert seconds.tolist() == [
        [SPAN_S / 40, 30 * SPAN_S / (40 * 80), 0.0, 0.0],
        [30 * SPAN_S / (40 * 80), SPAN_S / 80, 0.0, 0.0],
        [0.0, 0.0, SPAN_S / 20, 0.0],
        [0.0, 0.0, 0.0, 0.0],  # whose devices were never seen
    ]


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - {"venn-plus"}))
def test_every_policy_has_the_setting(policy: str) -> None:
    world = seen("G10 G10 G10", supply=36)
    assert load_policy(f"{policy}(spares=last)").plan(world).targets == {0: 8, 1: 8, 2: 8}
    assert load_policy(f"{policy}(spares=auto)").plan(world).targets.keys() == {0, 1, 2}
    assert load_policy(f"{policy}(spares=with)").plan(world).targets == {}
    assert load_policy(policy).plan(world).targets == {}


def test_a_policy_of_ones_own_has_it_too() -> None:
    file = "examples/policies/rare_first.py:RareFirst"
    assert load_policy(f"{file}(spares=last)").plan(seen("G10 G10")).targets == {0: 8, 1: 8}
    with pytest.raises(PolicyError, match=r"there is no parameter 'spare'; did you mean spares\?"):
        load_policy(f"{file}(spare=last)")
    with pytest.raises(PolicyError, match="spares is 'first'; it is with, last, auto"):
        load_policy("fifo(spares=first)")


def test_who_is_at_its_target_does_not_count_as_waiting_under_venn() -> None:
    """H has what it needs, so G takes over the devices that both could use, and H's spare places come last."""
    world = case("g gh", "G10 G10 H10")
    start = view(world, world.demands)
    g, other, h = [one._replace(needed=8, lacking=8) for one in start.requests]
    h = h._replace(remaining=2, lacking=0)
    jobs = {one.job: JobView(0.0, one.group, 10, 1) for one in start.requests}
    start = replace(start.showing(g, other, h), jobs=jobs)
    assert load_policy("venn").plan(start).owner == {RegionId(0): 1, RegionId(1): 0}
    plan = load_policy("venn(spares=last)").plan(start)
    assert plan.owner == {RegionId(0): 1, RegionId(1): 1}
    assert plan.queues == ((), (0, 1), (2,))


def test_the_reason_of_spare_places_is_said() -> None:
    def why(policy: Policy, world: View) -> dict[JobId, str]:
        plan: Plan = policy.plan(world)
        return dict(plan.reasons)

    spare = "it has the devices that it needs: more come after those that others need"
    world = seen("G10 G10")
    assert why(load_policy("fifo(spares=last)"), world)[JobId("job-00")] == spare
    assert JobId("job-00") not in why(load_policy("fifo(spares=last)"), world.showing(world.requests[0]))


def test_a_quantile_is_the_least_edge_that_so_many_did_not_exceed() -> None:
    times = counted((10.0, 80), (100.0, 20)).of_tier()
    assert times is not None
    fast, slow = EDGES[bin_of(10.0)], EDGES[bin_of(100.0)]
    assert [times.quantile(part, 100) for part in (1, 80, 81, 100)] == [fast, fast, slow, slow]


def test_response_times_of_a_tier_are_those_of_all_where_there_are_few() -> None:
    def row(number: int) -> list[int]:
        return [number, *[0] * (BINS - 1)]

    known = response_times(row(30), row(ENOUGH), row(ENOUGH - 1), row(40))
    found = [known.of_tier(tier) for tier in (-1, 0, 1)]
    assert [one and one.total for one in found] == [30, ENOUGH, 30]
    assert [one and one.total for one in map(known.until_response, (-1, 0, 1))] == [40, ENOUGH, 40]
    slow = [5, ENOUGH - 1, *[0] * (BINS - 2)]
    upto = response_times(row(30), row(10), slow).upto_tier
    both = upto(1)
    assert upto(0) is None
    assert both is not None
    assert (both.total, [both.quantile(part, 34) for part in (15, 16)]) == (34, [EDGES[0], EDGES[1]])
    few = response_times(row(ENOUGH - 1), row(ENOUGH - 1), row(90))
    assert (
        few.of_tier(0)
        is few.until_response(0)
        is ResponseTimes().of_tier()
        is ResponseTimes().upto_tier(0)
        is ResponseTimes().until_response(0)
        is None
    )


def test_devices_that_are_lost_make_spare_places_worth_more() -> None:
    """Where one place in eight is lost, the 8th of 8 waits for such a one; where none is, all take as long."""
    row, lossy = bins((10.0, 90)), bins((10.0, 78), (100.0, 12))
    assert target(seen("G10 G10", supply=90, responses=response_times(row, row))) == 8
    assert target(seen("G10 G10", supply=90, responses=response_times(row, lossy))) == 9


@given(st.lists(st.tuples(st.floats(1, 999), st.integers(1, 30)), min_size=1, max_size=9), st.data())
def test_the_falls_of_a_quantile_are_all_there_is_to_choose_from(
    times: list[tuple[float, int]], data: st.DataObject
) -> None:
    """The n that is chosen has the least Q(K / (n + 1)) + n x price of every n, and is the first such n."""
    needed, price = data.draw(st.integers(1, 40)), data.draw(st.floats(0.01, 99))
    places = needed + data.draw(st.integers(0, 40))
    known = Profile(bins(*times), sum(number for _, number in times), 0, 0)
    every = {n: known.quantile(needed, n + 1) + n * price for n in range(needed, places + 1)}
    chosen = best_places(known.counts, known.total, known.at, known.upto, EDGES, needed, places, math.inf, price)
    assert chosen == min(every, key=every.__getitem__)
