"""What a comparison reads: each run, from its summary.json or its cell's file, and the facts of simulated worlds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from testbed.report.job_figures import mean_jct, read_figures
from testbed.runfolder.jsonlines import Row, integer, maybe, number, rows_in, text
from testbed.runfolder.summary import JobFigures


@dataclass(frozen=True, slots=True)
class RunResult:
    policy: str
    seed: int
    folder: str  # or the file
    devices: int
    backend: str
    mean_jct_s: float | None  # None: a job did not finish, so it is no sample
    jobs: tuple[JobFigures, ...]
    alone_s: Mapping[str, float | None]  # by job: its JCT with nothing else running; None: not known
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
    """Makes a result from the object of a summary.json, or of a cell's file."""
    rows = rows_in(summary.get("jobs"))
    jobs = tuple(read_figures(row) for row in rows)
    host = summary.get("host")
    reasons = host.get("reasons", []) if isinstance(host, Mapping) and host.get("saturated") else []
    wanted = summary.get("wanted")
    return RunResult(
        policy=text(summary, "policy"),
        seed=integer(summary, "seed"),
        folder=folder,
        devices=integer(summary, "devices"),
        backend=text(summary, "backend"),
        mean_jct_s=None if integer(summary, "unfinished_jobs") else mean_jct(jobs),
        jobs=jobs,
        alone_s={text(row, "name"): maybe(row.get("alone_s")) for row in rows},
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


HOURS = 24  # of the day


@dataclass(frozen=True, slots=True)
class GroupSupply:
    """The devices that the jobs with one requirement may use."""

    name: str  # of the requirement
    per_hour: tuple[float | None, ...]  # check-ins an hour, by hour of the day; None: no such hour in the sample


@dataclass(frozen=True, slots=True)
class TierTimes:
    """Response times on one tier of the devices: a task of the jobs' mean workload, without noise, seconds."""

    tier: int  # from 1, the fastest
    p5_s: float
    p25_s: float
    p50_s: float
    p75_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """Facts from the first sessions of a trace: a day of them, or what there is."""

    seed: int
    sampled: int  # sessions
    groups: tuple[GroupSupply, ...]
    tiers: tuple[TierTimes, ...]
    alone_s: Mapping[str, float | None]  # by job: its JCT with nothing else running; None: it would not finish a round

    def row(self) -> Row:
        return asdict(self)


def read_facts(row: Row) -> TraceFacts:
    """Makes facts from the object of a world's file."""
    alone = row.get("alone_s")
    return TraceFacts(
        integer(row, "seed"),
        integer(row, "sampled"),
        tuple(GroupSupply(text(each, "name"), _hours(each.get("per_hour"))) for each in rows_in(row.get("groups"))),
        tuple(_tier(each) for each in rows_in(row.get("tiers"))),
        {str(job): maybe(value) for job, value in alone.items()} if isinstance(alone, dict) else {},
    )


def _tier(row: Row) -> TierTimes:
    times = [number(row, f"p{percent}_s") for percent in (5, 25, 50, 75, 95)]
    return TierTimes(integer(row, "tier"), *times)


def _hours(value: object) -> tuple[float | None, ...]:
    return tuple(maybe(one) for one in value) if isinstance(value, list) else ()
