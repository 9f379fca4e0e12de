"""The workloads of the evaluation of Venn, as they come with the testbed."""

from collections import Counter
from fractions import Fraction

import pytest

from testbed.scenario import Scenario, load
from testbed.scenario.packaged import named, packaged_scenarios
from testbed.scenario.unfold import unfolded
from testbed.world.arrays import Matching
from testbed.world.jobs import PAPER, Which, read_table, subset

ALIKE = dict.fromkeys(("general", "compute-rich", "memory-rich", "high-performance"), Fraction(1, 4))
WHICH = {"even": Which.ALL, "small": Which.SMALL, "large": Which.LARGE, "low": Which.LOW, "high": Which.HIGH}
BIASED = {
    "biased-general": "general",
    "biased-compute": "compute-rich",
    "biased-memory": "memory-rich",
    "biased-resource": "high-performance",
}


def loaded(name: str, *overrides: str) -> Scenario:
    return load(named(name), overrides)


def test_they_go_by_their_names() -> None:
    assert {*WHICH, *BIASED} <= packaged_scenarios().keys()


@pytest.mark.parametrize("name", [*WHICH, *BIASED])
def test_each_is_the_evaluation_with_other_jobs(name: str) -> None:
    scenario, even = loaded(name), loaded("even")
    assert scenario.drawn_jobs is not None
    assert even.drawn_jobs is not None
    assert scenario.model_copy(update={"name": even.name, "drawn_jobs": even.drawn_jobs}) == even
    if name in BIASED:
        wanted = {key: Fraction(7 if key == BIASED[name] else 1, 10) for key in ALIKE}
        changes = {"requirement": wanted}
    else:
        changes = {"which": WHICH[name]}
    assert scenario.drawn_jobs == even.drawn_jobs.model_copy(update=changes)


def test_the_evaluation() -> None:
    even = loaded("even")
    asked, devices = even.drawn_jobs, even.population
    assert asked is not None
    assert devices is not None
    assert (asked.count, asked.table, asked.requirement) == (50, PAPER, ALIKE)
    assert (str(asked.arrives), asked.compute, asked.min_response) == ("exp(30m)", 30.0, Fraction(4, 5))
    assert (devices.check_ins_per_day, devices.replay) == (7e6 / 5, 5 * 86_400)
    assert (even.match, devices.tasks_per_session, devices.tasks_per_day) == (Matching.AT_CHECK_IN, 1, 0)


@pytest.mark.parametrize("name", WHICH)
def test_the_jobs_are_rows_of_the_subset(name: str) -> None:
    rows = subset(read_table(PAPER), WHICH[name])
    jobs = unfolded(loaded(name)).jobs
    assert len(jobs) == 50
    assert {(job.demand, job.rounds, job.deadline) for job in jobs.values()} <= {
        (row.participants, row.rounds, row.deadline_s) for row in rows
    }


@pytest.mark.parametrize("name", BIASED)
def test_seven_in_ten_jobs_want_the_same(name: str) -> None:
    jobs = unfolded(loaded(name, "drawn_jobs.count=2000")).jobs
    counts = Counter(job.requirement for job in jobs.values())
    assert counts[BIASED[name]] / 2000 == pytest.approx(0.7, abs=0.03)


def test_another_seed_draws_other_jobs_and_the_policy_none() -> None:
    assert unfolded(loaded("even", "policy=fifo")).jobs == unfolded(loaded("even")).jobs
    assert unfolded(loaded("even", "seed=2")).jobs != unfolded(loaded("even")).jobs


def test_a_scale_leaves_the_contention() -> None:
    whole, part = unfolded(loaded("even")), unfolded(loaded("even", "scale=0.1", "rounds_scale=0.1"))
    assert whole.population is not None
    assert part.population is not None
    demand, less = (sum(job.demand * (job.rounds or 0) for job in one.jobs.values()) for one in (whole, part))
    assert less == pytest.approx(demand / 100, rel=0.01)
    assert part.population.check_ins_per_day == pytest.approx((whole.population.check_ins_per_day or 0) / 10)
    arrivals, sooner = ([job.arrives for job in one.jobs.values()] for one in (whole, part))
    assert sooner == pytest.approx([arrival / 10 for arrival in arrivals])
