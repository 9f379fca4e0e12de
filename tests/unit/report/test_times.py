"""The first section of a page: the parts of the time of jobs, and why they waited."""

from pathlib import Path

import pytest

from testbed.report.page import BETWEEN, FOR_DEVICES, FOR_RESPONSES, MOST_JOBS, job_times, whole_sentence
from testbed.report.record import load_run
from testbed.report.summary import summarise
from testbed.runfolder.attempts import Attempts, JobFacts, job_figures
from testbed.runfolder.summary import JobFigures
from tests.unit.report.contended import ContendedRun


def figures(name: str, delay_s: float, *, finished: bool = True) -> JobFigures:
    """A job of two attempts, the second of which aborted; it arrived at 1 s, and 5 s passed between them."""
    attempts = [(0, 1, 1, 1.0, 1.0 + delay_s, 11.0, True, 5), (0, 2, 1, 16.0, 16.0, 26.0, False, 0)]
    [found] = job_figures([JobFacts(name, "any", 1.0, 26.0 if finished else None, 0.0)], Attempts.of_rows(attempts))
    return found


def test_attempts_are_summed_by_job() -> None:
    jobs = [JobFacts(name, "any", 0.0, None, 0.0) for name in ("one", "none", "two")]
    attempts = [
        (0, 1, 1, 0.0, 4.0, 6.0, True, 3),
        (2, 1, 1, 1.0, 1.0, 8.0, False, 0),
        (0, 2, 1, 9.0, 9.0, 12.0, True, 3),
    ]
    found = job_figures(jobs, Attempts.of_rows(attempts))
    assert [(one.rounds, one.aborts, one.delay_s, one.collect_s) for one in found] == [
        (2, 0, 4.0, 5.0),
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
        (FOR_DEVICES, 0.2, "5.0 s"),
        (FOR_RESPONSES, 0.6, "15.0 s"),
        (BETWEEN, 0.2, "5.0 s"),
    ]
    [unfinished] = job_times([figures("one", 5.0, finished=False)])
    assert unfinished.sentence == "Not finished: 5.0 s (25 %) waiting for devices so far."


def test_reasons_are_parts_of_the_delay(tmp_path: Path) -> None:
    found = summarise(load_run(ContendedRun().run().write(tmp_path)))
    for job, times in zip(found.jobs, job_times(found.jobs), strict=True):
        assert times.name == job.name
        assert sum(part.share for part in times.parts) == pytest.approx(1.0, abs=0.01)
        assert {part.text for part in times.parts} > {FOR_RESPONSES}
    assert "The largest reason, " in whole_sentence(found.jobs)


def test_of_many_jobs_those_that_waited_longest_are_told() -> None:
    jobs = [figures(f"job-{number}", 0.1 * number) for number in range(MOST_JOBS + 3)]
    assert [times.name for times in job_times(jobs)] == [f"job-{number}" for number in range(3, MOST_JOBS + 3)]
    assert whole_sentence([]) == ""
