"""``venn bench scheduler``, in miniature."""

import pytest

from coordinator.engine.plan import Plan, View
from coordinator.policies.venn.policy import Venn
from testbed.bench import scheduler


def test_it_measures_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("JOBS", 30), ("GROUPS", 5), ("REGIONS", 16), ("RE_PLANS", 22), ("TICKS", 3), ("LOOKUPS", 100)):
        monkeypatch.setattr(scheduler, name, value)
    for name, value in (("DENSE", 5), ("DENSE_LOOKUPS", 50), ("OPENINGS", (10, 20)), ("OPENING_REGIONS", 8)):
        monkeypatch.setattr(scheduler, name, value)
    said: list[str] = []
    measured = scheduler.run(said.append)
    assert measured.name == "scheduler"
    assert set(measured.figures) == set(measured.baseline)
    assert {"replan_p99_ms", "replan_median_sorts", "lookups_per_s", "dense_lookups_ratio", "open_ratio"} <= set(
        measured.figures
    )
    assert all(value > 0 for value in (*measured.figures.values(), *measured.baseline.values()))
    assert said


def test_requests_that_open_in_one_turn_make_one_plan_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Counting(Venn):
        def plan(self, view: View) -> Plan:
            made.append(len(view.requests))
            return super().plan(view)

    monkeypatch.setattr(scheduler, "GROUPS", 5)
    monkeypatch.setattr(scheduler, "OPENING_REGIONS", 8)
    monkeypatch.setattr(scheduler, "load_policy", lambda _: Counting())
    for requests in (10, 40):
        made.clear()
        assert scheduler.opening_s(requests, "venn") > 0
        assert made == [0, requests]  # the policy's first, before any is open, and one for all


def test_plans_are_as_dense_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "GROUPS", 5)
    world = scheduler._world(skewed=False, jobs=10, regions=8)
    scheduler._under(world, "venn")
    before = world.engine.plan_number
    assert scheduler._lookups_per_s(world, 100, 5) > 0
    assert world.engine.plan_number - before == 20


def test_skewed_queues_are_longest_where_devices_abound() -> None:
    even, skewed = (scheduler._group_of_each_job(skewed, scheduler.JOBS) for skewed in (False, True))
    assert len(even) == len(skewed) == scheduler.JOBS
    assert {even.count(group) for group in range(scheduler.GROUPS)} == {scheduler.JOBS // scheduler.GROUPS}
    lengths = [skewed.count(group) for group in range(scheduler.GROUPS)]
    assert lengths == sorted(lengths)
    assert lengths[0] >= 1
    assert lengths[-1] > 10 * lengths[0]
