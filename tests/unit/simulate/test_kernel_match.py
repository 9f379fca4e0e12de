"""Who gets a device in the compiled loop, and what a device may still take."""

import pytest

from coordinator.engine.model import Repeat
from testbed.simulate.compiled import kernel_match
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables
from testbed.testing.worlds import job
from tests.unit.simulate.kernels import RULES, lease, plan, small, uncompiled

MATCH = uncompiled(kernel_match)
DAY_S = 86_400.0


def taken(t: Tables, cell: int = 0, device: int = 0) -> list[int]:
    """Whose devices of a cell become, one after the other; they hold no lease of any job."""
    found = []
    while (chosen := MATCH.choose(t, cell, device, 1, 0)) != NONE:
        found.append(chosen)
        t.jobs[chosen].placed += 1
    return found


def test_the_queue_that_owns_the_cell_comes_first_and_then_the_others_in_order() -> None:
    t = small([job(name, 1) for name in "abcd"])
    plan(t, [0], [1], [3, 2])
    t.cells["owner"] = 2
    assert taken(t) == [3, 2, 0, 1]
    t.jobs["placed"], t.cells["owner"] = 0, NONE
    plan(t, [1], [0], [3, 2])
    assert taken(t) == [1, 0, 3, 2]


@pytest.mark.parametrize("field", ["placed", "responses"])
def test_a_request_whose_places_are_all_leased_or_answered_is_passed_over(field: str) -> None:
    t = small([job("a", 2), job("b", 1)])
    plan(t, [0, 1])
    t.jobs[0][field] = 2
    assert taken(t) == [1]


def test_a_device_serves_only_groups_of_its_region() -> None:
    t = small([job("a", 1), job("b", 1)], [0, 1], serves=[[0, 1], [1]])
    plan(t, [0, 1])
    assert taken(t, cell=1) == [1]
    assert taken(t, cell=0) == [0]


def test_requests_at_their_target_come_after_all_others() -> None:
    t = small([job("a", 3), job("b", 1)])
    t.run.aimed, t.jobs[0].target, t.jobs[0].placed = 1, 2, 2
    plan(t, [0, 1])
    assert taken(t) == [1, 0]


@pytest.mark.parametrize(("or_faster", "tiers"), [(0, [1]), (1, [0, 1])])
def test_a_restricted_request_gets_devices_of_its_tier_or_of_faster_ones_as_well(
    or_faster: int, tiers: list[int]
) -> None:
    t = small([job("a", 9)], tiers=3)
    t.run.or_faster, t.jobs[0].tier = or_faster, 1
    plan(t, [0])
    assert [tier for tier in (NONE, 0, 1, 2) if MATCH.choose(t, tier + 1, 0, 1, 0) == 0] == tiers


def test_tasks_in_a_session_are_limited() -> None:
    t = small([job("a", 1)], tasks_per_session=2)
    MATCH.count_task(t, 0)
    assert not MATCH.limited(t, 0)
    MATCH.count_task(t, 0)
    assert MATCH.limited(t, 0)


def test_tasks_in_a_day_are_limited_until_the_day_is_over() -> None:
    t = small([job("a", 1)], tasks_per_day=1)
    t.run.now = DAY_S - 1.0
    assert not MATCH.limited(t, 0)
    MATCH.count_task(t, 0)
    assert MATCH.limited(t, 0)
    t.run.now = DAY_S
    assert not MATCH.limited(t, 0)
    MATCH.count_task(t, 0)
    assert MATCH.limited(t, 0)


def test_a_device_counts_once_in_a_round_even_if_it_worked_for_another_job_meanwhile() -> None:
    t = small([job("a", 2, rounds=2), job("b", 2)])
    plan(t, [0, 1])
    MATCH.lease_round(t, 0, 5)
    assert MATCH.used_up(t, 0, 5)
    assert not MATCH.used_up(t, 0, 6)
    assert MATCH.choose(t, 0, 5, 1, 0) == 1
    MATCH.lease_round(t, 1, 5)
    assert MATCH.used_up(t, 0, 5)
    assert MATCH.choose(t, 0, 5, 1, 0) == NONE
    RULES.open_attempt(t, 0, 1)
    assert not MATCH.used_up(t, 0, 5)


def test_a_device_may_have_the_round_again_if_it_gave_no_response_or_if_the_job_allows_it() -> None:
    t = small([job("a", 2), job("b", 2, repeat=Repeat.ALLOW)])
    lease(t, 0, 5)
    assert MATCH.used_up(t, 0, 5)
    MATCH.forget_round(t, 5)
    assert not MATCH.used_up(t, 0, 5)
    lease(t, 1, 6)
    assert not MATCH.used_up(t, 1, 6)


@pytest.mark.parametrize("lacks", ["a lease", "a session", "events"])
def test_there_is_room_only_with_a_free_lease_a_free_session_and_events(lacks: str) -> None:
    t = small([job("a", 1)])
    assert MATCH.room(t)
    if lacks == "a lease":
        t.run.free_lease = NONE
    elif lacks == "a session":
        t.run.free_session = NONE
    else:
        t.run.heap = len(t.heap) - 1
    assert not MATCH.room(t)
