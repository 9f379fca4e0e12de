"""What a policy sees (the view) and what it returns (the plan).

A policy never sees a device. Matching a check-in is a look-up: for the device's region, try the queue that owns it and
then the others in their order, each request by request, and take the first that is open, unfilled, not paused and whose
group the region is in (``ORDERED``); or draw one uniformly from all such requests, sorted by (job arrival, job id)
(``UNIFORM``). So no device is turned away while a queued request could use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Protocol

from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId


class RequestView(NamedTuple):
    """An open request with unmet demand, of a job that may be served. (A tuple: a plan may see thousands.)"""

    request: RequestId
    job: JobId
    arrival: float  # of the job, engine time
    group: GroupId
    remaining: int  # places still to be leased, >= 1
    remaining_all_rounds: int | None  # over all rounds left, this one's remaining included; None: unknown
    attained: float  # device-seconds leased to the job so far


@dataclass(frozen=True)
class GroupView:
    """A job group with an unfinished job; its requests may be none."""

    group: GroupId
    regions: tuple[RegionId, ...]  # its eligible set, ascending

    @cached_property
    def bits(self) -> int:
        """Its regions as the bits of one number: two groups share devices where ``a.bits & b.bits`` is not 0."""
        bits = bytearray(self.regions[-1] // 8 + 1 if self.regions else 0)
        for region in self.regions:
            bits[region >> 3] |= 1 << (region & 7)
        return int.from_bytes(bits, "little")


@dataclass(frozen=True, slots=True)
class View:
    """Read-only, at one instant.

    While nothing in them has changed ``groups`` and ``supply`` are the very objects of the view before, so that a
    policy can keep what it derived from them.
    """

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
    """Who gets the next device."""

    queues: tuple[tuple[RequestId, ...], ...] = ()  # in the order in which they are tried; a request is in one, once
    owner: Mapping[RegionId, int] = field(default_factory=dict)  # region -> the queue that its devices try first
    mode: Mode = Mode.ORDERED
    reasons: tuple[tuple[JobId, str], ...] = ()  # why a job's request waits, beyond a lack of devices


class Policy(Protocol):
    """Made once per engine. ``plan`` is a pure function of the view."""

    name: str

    def plan(self, view: View) -> Plan: ...
