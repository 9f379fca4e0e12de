"""What a comparison takes from one run: from a live run's summary.json, or from the file of a simulated one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from testbed.runfolder.jsonlines import Row, integer, maybe, number, rows_in, text


@dataclass(frozen=True, slots=True)
class JobResult:
    name: str
    finished: bool
    jct_s: float | None
    delay_s: float
    collect_s: float
    aborts: int
    wasted_device_s: float
    stragglers: int | None  # None: not counted by job
    accuracy: float | None
    alone_s: float | None  # its JCT with nothing else running; None: not known


@dataclass(frozen=True, slots=True)
class RunResult:
    policy: str
    seed: int
    folder: str  # or the file
    devices: int
    backend: str
    mean_jct_s: float | None  # None: a job did not finish, so it is no sample
    jobs: tuple[JobResult, ...]
    saturated: tuple[str, ...]  # why the host was too busy; empty: it was not
    expectations_missed: tuple[str, ...]
    digest: str = ""  # of all decisions
    check_ins: int = 0  # simulated
    wall_s: float = 0.0  # that its simulation took
    path: str = ""  # "events" or "bulk"
    why: str = ""  # it was not simulated in bulk
    wanted: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    # by requirement: devices that unfilled requests ask for, in the mean, by hour of the day


def read_run(summary: Row, folder: str) -> RunResult:
    """From the object of a summary.json, or of a cell's file."""
    jobs = tuple(_job(row) for row in rows_in(summary.get("jobs")))
    jcts = [job.jct_s for job in jobs if job.jct_s is not None]
    host = summary.get("host")
    reasons = host.get("reasons", []) if isinstance(host, Mapping) and host.get("saturated") else []
    wanted = summary.get("wanted")
    return RunResult(
        policy=text(summary, "policy"),
        seed=integer(summary, "seed"),
        folder=folder,
        devices=integer(summary, "devices"),
        backend=text(summary, "backend"),
        mean_jct_s=math.fsum(jcts) / len(jcts) if jcts and not integer(summary, "unfinished_jobs") else None,
        jobs=jobs,
        saturated=tuple(str(reason) for reason in reasons),
        expectations_missed=tuple(
            text(row, "expect") for row in rows_in(summary.get("expectations")) if not row.get("held")
        ),
        digest=text(summary, "digest"),
        check_ins=integer(summary, "check_ins"),
        wall_s=number(summary, "wall_s"),
        path=text(summary, "path"),
        why=text(summary, "why"),
        wanted={str(name): _hours(values) for name, values in wanted.items()} if isinstance(wanted, dict) else {},
    )


def _job(row: Row) -> JobResult:
    return JobResult(
        name=text(row, "name"),
        finished=bool(row.get("finished")),
        jct_s=maybe(row.get("jct_s")),
        delay_s=number(row, "delay_s"),
        collect_s=number(row, "collect_s"),
        aborts=integer(row, "aborts"),
        wasted_device_s=number(row, "wasted_device_s"),
        stragglers=integer(row, "stragglers") if "stragglers" in row else None,
        accuracy=maybe(row.get("accuracy")),
        alone_s=maybe(row.get("alone_s")),
    )


def _hours(values: object) -> tuple[float | None, ...]:
    return tuple(maybe(value) for value in values) if isinstance(values, list) else ()
