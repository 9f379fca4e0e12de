"""What is true of a simulated world under every policy: who comes when, how fast they are, what a job takes alone."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from testbed.runfolder.jsonlines import Row, integer, maybe, number, rows_in, text

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
    """From the first sessions of a trace: a day of them, or what there is."""

    seed: int
    sampled: int  # sessions
    groups: tuple[GroupSupply, ...]
    tiers: tuple[TierTimes, ...]
    alone_s: Mapping[str, float | None]  # by job: its JCT with nothing else running; None: it would not finish a round

    def row(self) -> Row:
        return asdict(self)


def read_facts(row: Row) -> TraceFacts:
    """From the object of a world's file."""
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
