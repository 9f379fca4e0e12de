"""Drawing jobs."""

from collections import Counter
from fractions import Fraction
from statistics import fmean

import pytest

from testbed.world.jobs import JobSize, draw_jobs, job_names
from venn.wire.notation import Constant, Exponential

TABLE = tuple(JobSize(10 * number, number, 60.0) for number in range(1, 6))
MANY = 20_000
PARTS = {"any": Fraction(7, 10), "roomy": Fraction(1, 10), "fast": Fraction(1, 5)}
GAP = Exponential(1800.0, "duration")


def test_jobs_follow_the_seed_and_their_number_only() -> None:
    few, more = (draw_jobs(count, TABLE, PARTS, GAP, seed=7) for count in (20, 90))
    assert more[:20] == few
    assert draw_jobs(20, TABLE, PARTS, GAP, seed=8) != few
    # Another table, other requirements or other gaps change nothing else.
    other = draw_jobs(20, TABLE, {"any": Fraction(1)}, Constant(1.0, "duration"), seed=7)
    assert [job.size for job in other] == [job.size for job in few]
    assert [job.arrives_s for job in other] == pytest.approx(list(range(1, 21)))


def test_each_row_and_each_requirement_is_as_likely_as_said() -> None:
    jobs = draw_jobs(MANY, TABLE, PARTS, GAP, seed=1)
    sizes, asked = Counter(job.size for job in jobs), Counter(job.requirement for job in jobs)
    assert sizes.keys() == set(TABLE)
    for size in TABLE:
        assert sizes[size] == pytest.approx(MANY / 5, rel=0.05)
    for name, part in PARTS.items():
        assert asked[name] == pytest.approx(MANY * float(part), rel=0.05)


def test_a_requirement_is_independent_of_the_size() -> None:
    pairs = Counter((job.size, job.requirement) for job in draw_jobs(MANY, TABLE, PARTS, GAP, seed=1))
    for (_, name), times in pairs.items():
        assert times == pytest.approx(MANY / 5 * float(PARTS[name]), rel=0.15)


def test_arrivals_are_a_poisson_process() -> None:
    arrivals = [job.arrives_s for job in draw_jobs(MANY, TABLE, PARTS, GAP, seed=1)]
    gaps = [later - earlier for earlier, later in zip([0.0, *arrivals], arrivals, strict=False)]
    assert min(gaps) > 0
    assert fmean(gaps) == pytest.approx(1800, rel=0.03)
    assert sum(gap > 1800 for gap in gaps) / MANY == pytest.approx(0.3679, abs=0.015)


def test_names() -> None:
    assert job_names(3) == ["job-01", "job-02", "job-03"]
    assert job_names(100)[6] == "job-007"


def test_parts_that_are_no_whole() -> None:
    with pytest.raises(ValueError, match="add up to 1/4294967296, not to 1"):
        draw_jobs(1, TABLE, {"any": Fraction(1, 2**32)}, GAP, seed=1)
