"""``venn bench scheduler``, in miniature."""

import pytest

from testbed.bench import scheduler


def test_it_measures_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("JOBS", 30), ("GROUPS", 5), ("REGIONS", 16), ("RE_PLANS", 22), ("TICKS", 3), ("LOOKUPS", 100)):
        monkeypatch.setattr(scheduler, name, value)
    said: list[str] = []
    measured = scheduler.BENCHMARK.run(said.append)
    assert measured.name == scheduler.BENCHMARK.name == "scheduler"
    assert set(measured.figures) == set(measured.baseline)
    assert {"replan_p99_ms", "replan_skewed_p99_ms", "lookups_per_s"} <= set(measured.figures)
    assert all(value > 0 for value in (*measured.figures.values(), *measured.baseline.values()))
    assert said


def test_skewed_queues_are_longest_where_devices_abound() -> None:
    even, skewed = (scheduler._group_of_each_job(skewed) for skewed in (False, True))
    assert len(even) == len(skewed) == scheduler.JOBS
    assert {even.count(group) for group in range(scheduler.GROUPS)} == {scheduler.JOBS // scheduler.GROUPS}
    lengths = [skewed.count(group) for group in range(scheduler.GROUPS)]
    assert lengths == sorted(lengths)
    assert lengths[0] >= 1
    assert lengths[-1] > 10 * lengths[0]
