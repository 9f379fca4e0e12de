"""The order of requests in plans that the compiled loop makes itself, one policy at a time."""

import numpy as np
import pytest

from testbed.simulate.compiled import kernel_match, kernel_plan
from testbed.simulate.compiled.kernel_plan import (
    FIFO,
    LAS,
    RANDOM,
    SRSF,
    SRSF_JOB,
    VENN_NOMATCH,
    VENN_PLUS_NOMATCH,
)
from testbed.simulate.compiled.kernel_tiers import LAST
from testbed.simulate.compiled.layout import GROUND, NONE
from testbed.simulate.compiled.tables import Tables
from testbed.testing.worlds import job
from tests.unit.simulate.kernels import queues, small, uncompiled

PLAN, MATCH = uncompiled(kernel_plan), uncompiled(kernel_match)


def planned(t: Tables, planner: int) -> list[list[int]]:
    t.run.planner = planner
    t.run.plans += 1
    assert PLAN.make_plan(t)
    return queues(t)


def three() -> Tables:
    """Jobs that no two policies order alike: b needs the fewest devices now, and c over all its rounds."""
    t = small([job("a", 5), job("b", 3, rounds=4), job("c", 4)], [0, 1, 1], serves=[[0], [1]])
    t.group_rates[:] = 2.0, 10.0  # devices for a are scarce
    t.run.scarcity, t.run.now = 1, 100.0
    t.jobs["attained"] = 30.0, 26.0, 20.0
    return t


@pytest.mark.parametrize(
    ("planner", "order"),
    [(FIFO, [0, 1, 2]), (SRSF, [1, 2, 0]), (SRSF_JOB, [2, 0, 1]), (LAS, [2, 1, 0]), (VENN_PLUS_NOMATCH, [0, 2, 1])],
    ids=["fifo", "srsf", "srsf-job", "las", "venn-plus"],
)
def test_the_order_is_that_of_the_policy(planner: int, order: list[int]) -> None:
    assert planned(three(), planner) == [order]


def test_las_counts_leases_that_go_on_up_to_now() -> None:
    t = three()
    t.jobs[2].live, t.jobs[2].granted_sum = 1, 85.0  # 20 + 15 device-seconds
    assert planned(t, LAS) == [[1, 0, 2]]


@pytest.mark.parametrize(("nearness", "order"), [(0, [0, 1]), (1, [1, 0])])
def test_under_venn_plus_a_request_that_is_nearly_full_comes_forward(nearness: int, order: list[int]) -> None:
    t = small([job("a", 4), job("b", 8)])
    t.group_rates[:], t.run.nearness, t.jobs[1].placed = 1.0, nearness, 4  # both lack four
    assert planned(t, VENN_PLUS_NOMATCH) == [order]


@pytest.mark.parametrize("full", ["placed", "responses"])
def test_a_request_that_lacks_no_device_is_in_no_plan(full: str) -> None:
    t = three()
    t.jobs[0][full] = 5
    t.jobs[1].open = 0
    assert planned(t, SRSF) == [[2]]


def test_random_leaves_the_order_to_the_draw_at_each_device() -> None:
    t = three()
    planned(t, RANDOM)
    assert t.run.uniform == 1
    planned(t, FIFO)
    assert t.run.uniform == 0


def test_those_at_their_target_go_last_in_the_same_order() -> None:
    t = small([job("a", 3, min_response="1/3"), job("b", 3, min_response="1/3"), job("c", 3, min_response="2/3")])
    t.run.spares, t.run.aimed, t.jobs["placed"] = LAST, 1, 1
    assert planned(t, FIFO) == [[0, 1, 2]]
    assert t.jobs["target"].tolist() == [1, 1, 2]
    assert MATCH.choose(t, 0, 0, 1, 0) == 2
    assert t.candidates[0].tolist() == [2, 0, 1]


def test_under_venn_groups_are_queues_with_the_least_left_first_and_those_at_their_target_a_last_one() -> None:
    jobs = [job("a", 5), job("b", 3), job("c", 3, min_response="1/3"), job("d", 4)]
    t = small(jobs, [0, 0, 0, 1], serves=[[0], [0, 1]])
    t.merged_of[:], t.run.merged = (1, 0), 2  # the second group is scarcer
    t = t.with_(ground=np.zeros(2, GROUND), usable=np.array([[0, 1], [1, 1]]), rates=np.array([2, 4]))
    t.ground["supply"], t.ground["owner"] = (4, 2), (1, 0)
    t.jobs[2].placed = 1
    assert planned(t, VENN_NOMATCH) == [[3], [2, 1, 0]]
    t.run.spares = LAST
    assert planned(t, VENN_NOMATCH) == [[3], [1, 0], [2]]


def test_a_plan_that_is_python_s_to_make_is_shown_every_request() -> None:
    t = three()
    t.run.planner = NONE
    assert not PLAN.make_plan(t)
    assert (t.run.asking, t.run.again, t.queued[:3].tolist()) == (3, 0, [0, 1, 2])
    assert t.requests["remaining"].tolist() == [5, 3, 4]
    assert t.requests["left"].tolist() == [5, 12, 4]
