"""What a policy sees (the view) and what it returns (the plan).

A policy never sees a device. Matching a check-in is a look-up: for the device's region, try ``plan.orders[region]``
queue by queue, each request by request, and take the first that is open, unfilled, not paused and whose group the
region is in (``ORDERED``); or draw one uniformly from all such requests, sorted by (job arrival, job id) (``UNIFORM``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId


@dataclass(frozen=True, slots=True)
class RequestView:
    """An open request with unmet demand, of a job that may be served."""

    request: RequestId
    job: JobId
    arrival: float  # of the job, engine time
    group: GroupId
    remaining: int  # places still to be leased, >= 1
    remaining_all_rounds: int | None  # over all rounds left, this one's remaining included; None: unknown
    attained: float  # device-seconds leased to the job so far


@dataclass(frozen=True, slots=True)
class GroupView:
    """A job group with an unfinished job; its requests may be none."""

    group: GroupId
    regions: tuple[RegionId, ...]  # its eligible set, ascending


@dataclass(frozen=True, slots=True)
class View:
    """Read-only, at one instant."""

    now: float
    seed: int
    plan_number: int  # of the plan that is being made, from 1
    groups: tuple[GroupView, ...]  # by group id
    requests: tuple[RequestView, ...]  # by (job arrival, job id, request)
    supply: Mapping[RegionId, int]  # check-ins counted over the window; absent: none
    supply_span_s: float  # that the counts cover, > 0: rate = count / span


class Mode(StrEnum):
    ORDERED = "ordered"
    UNIFORM = "uniform"


@dataclass(frozen=True, slots=True)
class Plan:
    """Who gets the next device of each region. Regions that appear later use ``default``."""

    queues: tuple[tuple[RequestId, ...], ...] = ()
    orders: Mapping[RegionId, tuple[int, ...]] = field(default_factory=dict)  # region -> queue indexes, tried in turn
    default: tuple[int, ...] = ()  # for a region that is not in orders
    mode: Mode = Mode.ORDERED
    reasons: tuple[tuple[JobId, str], ...] = ()  # why a job's request waits, beyond a lack of devices


class Policy(Protocol):
    """Made once per engine. ``plan`` is a pure function of the view."""

    name: str

    def plan(self, view: View) -> Plan: ...
