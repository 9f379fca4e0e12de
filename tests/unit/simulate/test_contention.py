"""What is asked of devices, against how many there are."""

import json

import pytest

from testbed.cli.main import main
from testbed.simulate.bound import DAY_S, Contention, contention
from testbed.testing.worlds import Session, has, job, needs, world

KINDS = (has(""), has("a"), has("ab"))


def test_by_requirement_and_in_all() -> None:
    sessions = [Session(start, start + 1, number, number % 3) for number, start in enumerate(range(0, 86_400, 3600))]
    later = [Session(DAY_S + 10, DAY_S + 20, 30, 1)]  # beyond the first day
    jobs = [job("one", 5, needs("a"), rounds=2), job("two", 3, needs("a", "b")), job("three", 2, needs("a"))]
    a, b, both = contention(world(jobs, sessions + later, kinds=KINDS))
    assert a == Contention(str(needs("a")), jobs=2, rounds=3, demand=12, supply_per_day=16.0)
    assert b == Contention(str(needs("a", "b")), jobs=1, rounds=1, demand=3, supply_per_day=8.0)
    assert both == Contention("all jobs", jobs=3, rounds=4, demand=15, supply_per_day=16.0)
    assert both.days == pytest.approx(15 / 16)


def test_check_says_what_a_workload_will_draw(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "scale=0.01", "--set", "rounds_scale=0.01"]
    assert main(["scenario", "check", "even", *small]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("even is right: policy venn, 1407 devices")
    assert lines[2].startswith("REQUIREMENT           JOBS    ROUNDS  DEVICES ASKED")
    rows = {line[:20].strip(): line[20:].split() for line in lines[3:8]}
    assert rows.keys() == {"general", "compute-rich", "memory-rich", "high-performance", "all jobs"}
    assert sum(int(row[0]) for name, row in rows.items() if name != "all jobs") == 50
    assert lines[-1] == "The last job comes after 0.2 hours."
    assert main(["scenario", "check", "even", "--json", *small]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["devices"], len(facts["jobs"])) == (1407, 50)
    assert facts["groups"][-1]["demand"] == sum(one["demand"] * one["rounds"] for one in facts["jobs"])
