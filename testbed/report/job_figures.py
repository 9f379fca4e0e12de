"""Computes the figures of a job from its attempts: live, simulated with a journal or without, and in a comparison."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from testbed.runfolder.jsonlines import Row, integer, maybe, number, text
from testbed.runfolder.summary import JobFigures


@dataclass(frozen=True, slots=True)
class AttemptSums:
    """The attempts of one job together."""

    rounds: int  # closed
    aborts: int
    delay_s: float
    collect_s: float


def sum_attempts(
    jobs: int,
    job: ArrayLike,
    *,
    opened_s: ArrayLike,
    filled_s: ArrayLike,
    ended_s: ArrayLike,
    closed: ArrayLike,
    aborted: ArrayLike,
) -> list[AttemptSums]:
    """The sums of ``jobs`` jobs. Every column has a value per attempt, which belongs to the ``job``-th of them.

    An attempt that is still open is neither closed nor aborted, and filled and ended at the end of the record at the
    latest.
    """
    of = np.asarray(job, np.int64)
    opened, filled, ended = (np.asarray(times, np.float64) for times in (opened_s, filled_s, ended_s))

    counts = (np.bincount(of[np.asarray(which, np.bool_)], minlength=jobs).tolist() for which in (closed, aborted))
    times = (np.bincount(of, weights=spent, minlength=jobs).tolist() for spent in (filled - opened, ended - filled))
    return [AttemptSums(*sums) for sums in zip(*counts, *times, strict=True)]


def job_figures(
    name: str,
    requirement: str,
    sums: AttemptSums,
    *,
    arrived_s: float,
    completed_s: float | None,
    wasted_device_s: float,
) -> JobFigures:
    """The figures that follow from a job's attempts; ``completed_s`` is None if it did not finish."""
    jct = None if completed_s is None else completed_s - arrived_s
    return JobFigures(
        name=name,
        requirement=requirement,
        finished=jct is not None,
        rounds=sums.rounds,
        aborts=sums.aborts,
        arrived_s=arrived_s,
        jct_s=jct,
        delay_s=sums.delay_s,
        collect_s=sums.collect_s,
        gaps_s=None if jct is None else jct - sums.delay_s - sums.collect_s,
        wasted_device_s=wasted_device_s,
    )


def figure_row(figures: JobFigures) -> Row:
    """The object of a cell's file: what is known."""
    return {key: value for key, value in asdict(figures).items() if value not in (None, "", (), {})}


def read_figures(row: Row) -> JobFigures:
    """The numbers of an object in a summary.json or in a cell's file."""
    stragglers, leases = maybe(row.get("stragglers")), maybe(row.get("leases"))
    return JobFigures(
        name=text(row, "name"),
        requirement=text(row, "requirement"),
        finished=bool(row.get("finished")),
        rounds=integer(row, "rounds"),
        aborts=integer(row, "aborts"),
        arrived_s=number(row, "arrived_s"),
        jct_s=maybe(row.get("jct_s")),
        delay_s=number(row, "delay_s"),
        collect_s=number(row, "collect_s"),
        gaps_s=maybe(row.get("gaps_s")),
        wasted_device_s=number(row, "wasted_device_s"),
        accuracy=maybe(row.get("accuracy")),
        overhead_s=maybe(row.get("overhead_s")),
        leases=None if leases is None else int(leases),
        stragglers=None if stragglers is None else int(stragglers),
    )


def mean_jct(jobs: Iterable[JobFigures]) -> float | None:
    """Over finished jobs, seconds; None if there is none."""
    jcts = [job.jct_s for job in jobs if job.jct_s is not None]
    return math.fsum(jcts) / len(jcts) if jcts else None
