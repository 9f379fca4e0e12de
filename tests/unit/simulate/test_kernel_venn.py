"""Which group owns which region under Venn, in the compiled loop."""

from collections.abc import Sequence

import numpy as np
import pytest

from testbed.simulate.compiled import kernel_tiers, kernel_venn
from testbed.simulate.compiled.kernel_venn import NO, UNCLEAR, YES
from testbed.simulate.compiled.layout import GROUND, NONE
from testbed.simulate.compiled.tables import Tables
from testbed.testing.worlds import job
from tests.unit.simulate.kernels import plan, small, uncompiled

VENN, TIERS = uncompiled(kernel_venn), uncompiled(kernel_tiers)
NOT_WEIGHED = np.empty(0)


def contenders(
    *demands: list[int], regions: Sequence[Sequence[int]] = ((1,), (0, 1)), supply: Sequence[int] = (4, 2)
) -> Tables:
    """Requests of these demands of each group, the scarcest group first, and the groups that each region serves.

    Unless given, region 0 serves the second group alone, and region 1 both. ``supply``: of each region.
    """
    groups = [group for group, each in enumerate(demands) for _ in each]
    t = small([job(f"{place:02}", 1) for place in range(len(groups))], groups, serves=regions)
    t.jobs["places"] = [demand for each in demands for demand in each]
    owner = [min(region) for region in regions]
    usable = np.array([[int(group in region) for region in regions] for group in range(len(demands))])
    rates = np.bincount(owner, supply, len(demands)).astype(np.int64)
    t = t.with_(ground=np.zeros(len(regions), GROUND), usable=usable, rates=rates)
    t.ground["supply"], t.ground["owner"] = supply, owner
    t.run.merged = len(demands)
    plan(t, *[np.flatnonzero(np.array(groups) == group).tolist() for group in range(len(demands))])
    return t


def owners(t: Tables, *, whole_queues: bool = False) -> list[int]:
    assert VENN.allocate(t, NOT_WEIGHED, whole_queues, False)
    return list(t.cells["owner"].tolist())


def test_the_scarce_group_owns_the_devices_that_both_can_use() -> None:
    assert owners(contenders([5], [1, 1])) == [1, 0]
    assert owners(contenders([5], [1])) == [1, 0]


def test_the_other_group_takes_them_where_more_of_its_requests_are_held_up() -> None:
    """Per device: more than 4 / 2 for one of the owner."""
    assert owners(contenders([100], [1, 1])) == [1, 0]
    assert owners(contenders([100], [1, 1, 1])) == [1, 1]


def test_requests_are_held_up_only_if_they_would_be_served_before_the_owner_is_done() -> None:
    """The third one would have its devices after 3 x 10 / 4 windows; the owner is done after 14 / 2, or 15 / 2."""
    assert owners(contenders([14], [10, 10, 10])) == [1, 0]
    assert owners(contenders([15], [10, 10, 10])) == [1, 1]
    assert owners(contenders([14], [10, 10, 10]), whole_queues=True) == [1, 1]


def test_a_group_without_requests_gives_up_what_another_can_use() -> None:
    assert owners(contenders([], [9])) == [1, 1]


def test_a_group_that_owns_nothing_takes_only_from_an_owner_with_fewer_requests() -> None:
    assert owners(contenders([100, 100], [1, 1], supply=(0, 2))) == [1, 0]
    assert owners(contenders([100, 100], [1, 1, 1], supply=(0, 2))) == [1, 1]


def test_the_search_ends_at_the_first_owner_that_keeps_its_devices() -> None:
    """The least scarce of the others comes first: it has many requests. The scarcest would lose its devices."""
    regions, supply = [[2], [1, 2], [0, 2]], (4, 2, 2)
    assert owners(contenders([100], [100] * 10, [1, 1, 1], regions=regions, supply=supply)) == [2, 1, 0]
    assert owners(contenders([100], [], [1, 1, 1, 1], regions=regions, supply=supply)) == [2, 2, 2]


def test_a_region_that_no_contender_can_use_has_no_owner_and_queues_without_supply_come_first() -> None:
    t = contenders([5], [1])
    t.ground["owner"] = NONE, 0
    t.run.merged, t.run.unsupplied = 3, 1
    plan(t, [], [0], [1])
    assert owners(t) == [NONE, 1]


def test_a_comparison_too_close_for_64_bits_leaves_the_plan_to_python() -> None:
    """3 x 2e9 / 2e9 windows against 3e9 / 1e9: equal, and the products are beyond 4e18."""
    billion = 10**9
    t = contenders([3 * billion], [2 * billion] * 3, supply=(2 * billion, billion))
    assert not VENN.allocate(t, NOT_WEIGHED, False, False)


@pytest.mark.parametrize(
    ("demands", "supplies", "demand", "supply", "expected"),
    [
        ([1], [2], 2, 3, YES),
        ([1, 1], [2, 3], 2, 3, NO),
        ([1, 1, 1], [10, 5, 5], 1, 2, YES),  # 0.1 + 0.2 + 0.2: equal
        ([10**10], [10**10], 1, 1, YES),
        ([10**10 - 1], [10**10], 1, 1, YES),
        ([10**10 + 1], [10**10], 1, 1, NO),  # floats tell nothing this close
        ([10**6, 1], [10**6, 10**10], 1, 1, NO),
        ([1, 1], [3 * 10**9, 3 * 10**9], 2, 3 * 10**9, UNCLEAR),
        ([1, 1], [3 * 10**9, 3 * 10**9], 1, 10**9, YES),  # as large, and clear
        ([2, 2], [3 * 10**9, 3 * 10**9], 1, 10**9, NO),
    ],
)
def test_delays_are_compared_exactly_or_not_at_all(
    demands: list[int], supplies: list[int], demand: int, supply: int, expected: int
) -> None:
    arguments = np.array(demands), np.array(supplies), np.int64(demand), np.int64(supply)
    assert VENN._within(*arguments) == expected


@pytest.mark.parametrize(("fairness", "first", "second"), [(0.0, 4, 2), (0.5, 2.8, 2.6), (0.6, 2.64, 2.76)])
def test_a_job_beyond_its_fair_time_looks_shorter_than_it_is(fairness: float, first: float, second: float) -> None:
    """The example of the page on policies: twice its fair time, and 0.58 of it."""
    t = small([job("a", 4), job("b", 2)])
    t.run.fairness, t.run.now, t.run.span_s, t.group_rates[:] = fairness, 56.0, 1.0, 1.0
    t.jobs["arrival"] = 0.0, 42.0
    for row in (0, 1):
        for _ in range(20):
            TIERS.profile(t, row, 10.0, NONE, 0)
    jobs = VENN.unfinished(t)
    assert VENN.fair_demand(t, 0, 4, jobs) == pytest.approx(first, abs=0.05)
    assert VENN.fair_demand(t, 1, 2, jobs) == pytest.approx(second, abs=0.05)
