"""The first section of a page: the parts of the time of jobs, and why they waited."""

from pathlib import Path

import pytest

from testbed.report.job_figures import job_figures, sum_attempts
from testbed.report.record import load_run
from testbed.report.summary import summarise
from testbed.report.times import BETWEEN, DEVICES, MOST_JOBS, RESPONSES, job_times, whole_sentence
from testbed.runfolder.summary import JobFigures
from tests.unit.report.crowd import Crowd


def figures(name: str, delay_s: float, *, finished: bool = True) -> JobFigures:
    """A job of two attempts, the second of which aborted; it arrived at 1 s, and 5 s passed between them."""
    attempts = {"opened_s": [1.0, 16.0], "filled_s": [1.0 + delay_s, 16.0], "ended_s": [11.0, 26.0]}
    [sums] = sum_attempts(1, [0, 0], **attempts, closed=[True, False], aborted=[False, True])
    completed_s = 26.0 if finished else None
    return job_figures(name, "any", sums, arrived_s=1.0, completed_s=completed_s, wasted_device_s=0.0)


def test_attempts_are_summed_by_job() -> None:
    sums = sum_attempts(
        3, [0, 2, 0], opened_s=[0, 1, 9], filled_s=[4, 1, 9], ended_s=[6, 8, 12], closed=[1, 0, 0], aborted=[0, 1, 0]
    )
    assert [(one.rounds, one.aborts, one.delay_s, one.collect_s) for one in sums] == [
        (1, 0, 4.0, 5.0),  # the second one is still open
        (0, 0, 0.0, 0.0),
        (0, 1, 0.0, 7.0),
    ]


def test_the_figures_of_a_job_add_up() -> None:
    job = figures("one", 4.0)
    assert (job.rounds, job.aborts, job.jct_s, job.delay_s, job.collect_s, job.gaps_s) == (1, 1, 25.0, 4.0, 16.0, 5.0)
    unfinished = figures("one", 4.0, finished=False)
    assert (unfinished.finished, unfinished.jct_s, unfinished.gaps_s) == (False, None, None)


def test_shares_are_of_the_completion_time() -> None:
    [found] = job_times([figures("one", 5.0)])
    assert found.sentence == "25.0 s, of which 5.0 s (20 %) waiting for devices."
    assert [(part.text, part.share, part.amount) for part in found.parts] == [
        (DEVICES, 0.2, "5.0 s"),
        (RESPONSES, 0.6, "15.0 s"),
        (BETWEEN, 0.2, "5.0 s"),
    ]
    [unfinished] = job_times([figures("one", 5.0, finished=False)])
    assert unfinished.sentence == "Not finished: 5.0 s (25 %) waiting for devices so far."


def test_reasons_are_parts_of_the_delay(tmp_path: Path) -> None:
    found = summarise(load_run(Crowd().run().write(tmp_path)))
    for job, times in zip(found.jobs, job_times(found.jobs), strict=True):
        assert times.name == job.name
        assert sum(part.share for part in times.parts) == pytest.approx(1.0, abs=0.01)
        assert {part.text for part in times.parts} > {RESPONSES}
    assert "The largest reason, " in whole_sentence(found.jobs)


def test_of_many_jobs_those_that_waited_longest_are_told() -> None:
    jobs = [figures(f"job-{number}", 0.1 * number) for number in range(MOST_JOBS + 3)]
    assert [times.name for times in job_times(jobs)] == [f"job-{number}" for number in range(3, MOST_JOBS + 3)]
    assert whole_sentence([]) == ""
