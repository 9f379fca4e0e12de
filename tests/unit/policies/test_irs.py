"""Each line of the allocation, on worlds small enough to follow by hand. Regions are numbers, supply is per window."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from coordinator.engine.ids import RegionId
from coordinator.policies.venn.irs import NOBODY, Allocation, contest

ALL, SHARED, RARE = RegionId(0), RegionId(1), RegionId(2)
Contender = tuple[list[RegionId], tuple[int, ...]]  # regions with supply, and remaining demands


def contender(regions: list[RegionId], *demands: int) -> Contender:
    return regions, demands


def allocate(
    contenders: Sequence[Contender], supply: Mapping[RegionId, int], *, whole_queues: bool = False
) -> dict[RegionId, int]:
    """The owner of each region that has one. Contenders come scarcest first."""
    ground = contest([regions for regions, _ in contenders], supply)
    made = Allocation(ground, [list(accumulate(each)) for _, each in contenders], whole_queues=whole_queues).ground
    assert made.rates == [
        sum(supply[RegionId(region)] for region, owner in enumerate(made.owner) if owner == index)
        for index in range(len(contenders))
    ]
    return {RegionId(region): int(owner) for region, owner in enumerate(made.owner) if owner != NOBODY}


def test_the_scarcest_owns_what_it_can_use() -> None:
    owner = allocate([contender([SHARED], 5), contender([ALL, SHARED], 5)], {ALL: 1, SHARED: 1})
    assert owner == {SHARED: 0, ALL: 1}


def test_an_empty_queue_gives_its_regions_up() -> None:
    owner = allocate([contender([SHARED]), contender([ALL, SHARED], 5)], {ALL: 1, SHARED: 1})
    assert owner == {SHARED: 1, ALL: 1}


def test_an_empty_queue_takes_nothing() -> None:
    owner = allocate([contender([SHARED], 5), contender([ALL, SHARED])], {ALL: 1, SHARED: 1})
    assert owner == {SHARED: 0, ALL: 1}


def test_many_short_requests_held_up_by_one_long_one_take_what_they_share() -> None:
    owner = allocate([contender([SHARED], 100), contender([ALL, SHARED], 2, 2, 2)], {ALL: 1, SHARED: 1})
    assert owner == {SHARED: 1, ALL: 1}


def test_requests_that_would_not_run_before_the_holder_is_done_are_not_held_up() -> None:
    """As many as before, but the holder is done after 2 windows, when none of the three would be."""
    owner = allocate([contender([SHARED], 2), contender([ALL, SHARED], 9, 9, 9)], {ALL: 1, SHARED: 1})
    assert owner == {SHARED: 0, ALL: 1}


def test_an_equal_claim_leaves_things_as_they_are() -> None:
    owner = allocate([contender([SHARED], 9), contender([ALL, SHARED], 2)], {ALL: 1, SHARED: 1})
    assert owner == {SHARED: 0, ALL: 1}


def test_a_group_without_devices_of_its_own_needs_to_outnumber_the_holder() -> None:
    """Its two regions belong to two scarcer groups. It looks at the less scarce of them first."""
    scarce = [contender([SHARED], 9), contender([ALL], 9)]
    supply = {SHARED: 1, ALL: 2}
    assert allocate([*scarce, contender([ALL, SHARED], 1)], supply) == {SHARED: 0, ALL: 1}
    assert allocate([*scarce, contender([ALL, SHARED], 1, 1)], supply)[ALL] == 2


def test_what_was_taken_over_is_held_up_as_well() -> None:
    """After it took ALL the group queues 3 requests on 2 devices a window: 3 x 1 > 1 x 2, so it takes SHARED too."""
    scarce = [contender([SHARED], 9), contender([ALL], 9)]
    assert allocate([*scarce, contender([ALL, SHARED], 1, 1)], {SHARED: 1, ALL: 2}) == {SHARED: 2, ALL: 2}
    # On 4 devices a window the same 3 are not enough: 3 x 1 > 1 x 4 is false.
    assert allocate([*scarce, contender([ALL, SHARED], 1, 1)], {SHARED: 1, ALL: 4}) == {SHARED: 0, ALL: 2}


def test_only_the_intersection_moves() -> None:
    """The reference simulator moves all that the holder has, devices included that the taker cannot use."""
    owner = allocate([contender([SHARED, RARE], 100), contender([ALL, SHARED], 1, 1, 1)], {ALL: 2, SHARED: 1, RARE: 1})
    assert owner == {RARE: 0, SHARED: 1, ALL: 1}


def test_the_first_holder_that_keeps_its_devices_ends_the_search() -> None:
    """The middle one keeps ALL; the scarcest has no request, but is not reached."""
    contenders = [contender([RARE]), contender([SHARED], 1), contender([ALL, SHARED, RARE], 9)]
    assert allocate(contenders, {ALL: 4, SHARED: 2, RARE: 1}) == {RARE: 0, SHARED: 1, ALL: 2}


def test_whole_queues_count_requests_that_would_not_run_before_the_holder_is_done() -> None:
    contenders = [contender([SHARED], 2), contender([ALL, SHARED], 9, 9, 9)]
    assert allocate(contenders, {ALL: 1, SHARED: 1}, whole_queues=True) == {SHARED: 1, ALL: 1}


def test_delays_are_compared_exactly() -> None:
    """2/20 for its own two requests and 4/20 for what it took over are just within 6/20; in floats they are not."""
    assert 2 / 20 + 4 / 20 > 6 / 20
    supply = {SHARED: 20, RARE: 20}
    taker = contender([SHARED, RARE], 1, 1)
    assert allocate([contender([RARE], 3, 3), contender([SHARED], 4), taker], supply) == {RARE: 2, SHARED: 2}
    assert allocate([contender([RARE], 3, 2), contender([SHARED], 4), taker], supply) == {RARE: 0, SHARED: 2}


def test_supply_that_is_not_used_by_anybody_has_no_owner() -> None:
    assert allocate([contender([SHARED], 1)], {ALL: 7, SHARED: 1, RegionId(9): 3}) == {SHARED: 0}
    assert allocate([], {ALL: 7}) == {}
    assert allocate([], {}) == {}
