"""Figures of a job: its completion time and its parts, and what it learned.

What jobs learned: each metric over rounds and time, and when it reached what was expected of it.

Computes the figures of a job from its attempts: live, simulated with a journal or without, and in a comparison.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from coordinator.engine.model import AttemptStatus
from testbed.report.history import History
from testbed.report.record import RunRecord
from testbed.runfolder.jsonlines import Row, integer, maybe, metrics, number, text
from testbed.runfolder.summary import Expected, JobFigures
from testbed.scenario.expect import parse_expectation
from venn.wire.notation import parse_number


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric of one job, a point per closed round."""

    job: str
    metric: str
    rounds: tuple[int, ...]
    arrived_s: float
    times_s: tuple[float, ...]  # when each round closed
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A metric that was to reach a value, and when it first did."""

    job: str
    metric: str
    value: float
    reached_s: float | None  # since the job arrived
    reached_round: int | None


def curves(record: RunRecord, history: History) -> tuple[Curve, ...]:
    found = []
    for job in history.jobs.values():
        closed = {attempt.round: attempt.ended_at for attempt in job.closed() if attempt.ended_at is not None}
        driver = record.drivers.get(job.name)
        points: dict[str, list[tuple[int, float, float]]] = {}
        for row in driver.rounds if driver else ():
            number = integer(row, "round")
            if row.get("status") == AttemptStatus.CLOSED and number in closed:
                for name, value in metrics(row).items():
                    points.setdefault(name, []).append((number, closed[number], value))
        for name, values in sorted(points.items()):
            numbers, times, heights = zip(*values, strict=True)
            found.append(Curve(job.name, name, numbers, job.arrived_at, times, heights))
    return tuple(found)


def targets(expectations: Sequence[Expected], found: Sequence[Curve]) -> tuple[Target, ...]:
    """A target for each expectation that a metric of a job reaches a value."""
    wanted = []
    for one in expectations:
        asked = parse_expectation(one.expect)
        if len(asked.path) < 3 or asked.path[0] != "jobs" or asked.operator not in (">=", ">"):
            continue
        job, metric, value = asked.path[1], asked.path[-1], parse_number(asked.number)
        curve = next((curve for curve in found if (curve.job, curve.metric) == (job, metric)), None)
        if curve is None:
            continue
        first = next((index for index, height in enumerate(curve.values) if height >= value), None)
        reached = (None, None) if first is None else (curve.times_s[first] - curve.arrived_s, curve.rounds[first])
        wanted.append(Target(job, metric, value, *reached))
    return tuple(wanted)


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
