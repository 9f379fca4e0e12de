"""Drawn jobs among the others, and everything multiplied."""

from fractions import Fraction
from pathlib import Path

import pytest

from testbed.scenario import Fleet, Job, Scenario
from testbed.scenario.population import DrawnJobs
from testbed.scenario.unfold import drawn, scaled, unfolded
from venn.wire.notation import Exponential

HOUR = Exponential(3600.0, "duration")
DRAWN = DrawnJobs(
    count=40, requirement={"roomy": Fraction(1, 4), "all": Fraction(3, 4)}, arrives=HOUR, compute=30.0, which="low"
)
SCENARIO = Scenario(
    version=1,
    name="some",
    seed=3,
    requirements={"roomy": "memory >= 4 GB"},
    jobs={"count": Job(demand=25, rounds=5, deadline=60.0, arrives=50.0)},
    drawn_jobs=DRAWN,
    fleets={"phones": Fleet(count=45)},
)


@pytest.mark.parametrize(
    ("count", "scale", "result"),
    [(25, 0.1, 3), (24, 0.1, 2), (35, 0.1, 4), (4, 0.1, 1), (1, 1e-9, 1), (7, 1.0, 7), (3, 2.5, 8), (145, 0.7, 102)],
)
def test_a_scale_rounds_half_up_as_it_is_written(count: int, scale: float, result: int) -> None:
    """145 x 0.7 is 101.5; in floats it is 101.49999999999999."""
    assert scaled(count, scale) == result


def test_without_a_scale_the_drawn_jobs_come_after_the_stated_ones() -> None:
    found = unfolded(SCENARIO)
    assert list(found.jobs) == ["count", *(f"job-{number:02}" for number in range(1, 41))]
    assert found.jobs["count"] == SCENARIO.jobs["count"]
    assert found.drawn_jobs is None
    assert {job.requirement for job in drawn(SCENARIO).values()} == {"roomy", "all"}
    for job in drawn(SCENARIO).values():
        assert job.demand <= 200
        assert job.workload.compute == 30.0
        assert (job.min_response, job.file) == (Fraction(4, 5), None)


def test_scales_multiply_devices_demands_rounds_and_arrivals() -> None:
    small = unfolded(SCENARIO.model_copy(update={"scale": 0.1, "rounds_scale": 0.01}))
    assert (small.scale, small.rounds_scale, small.fleets["phones"].count) == (1.0, 1.0, 5)
    assert (small.jobs["count"].demand, small.jobs["count"].rounds, small.jobs["count"].arrives) == (3, 1, 0.5)
    for name, job in drawn(SCENARIO).items():
        other = small.jobs[name]
        assert other.demand == scaled(job.demand, 0.1)
        assert other.rounds == scaled(job.rounds or 0, 0.01)
        assert other.arrives == pytest.approx(job.arrives / 100)
        assert (other.deadline, other.requirement) == (job.deadline, job.requirement)


def test_unfolded_it_loads_again(tmp_path: Path) -> None:
    found = unfolded(SCENARIO)
    assert unfolded(found) == found
    assert Scenario.model_validate(found.model_dump(exclude_none=True)) == found


def test_jobs_do_not_follow_the_policy() -> None:
    assert drawn(SCENARIO.model_copy(update={"policy": "fifo"})) == drawn(SCENARIO)
    assert drawn(SCENARIO.model_copy(update={"seed": 4})) != drawn(SCENARIO)
