"""What jobs learned: each metric over rounds and time, and when it reached what was expected of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.engine.model import AttemptStatus
from testbed.report.history import History
from testbed.report.record import RunRecord
from testbed.runfolder.jsonlines import integer, metrics
from testbed.runfolder.summary import Expected
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
