"""The actions that a session asks of the device around it."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from venn.v1 import common_pb2, device_pb2


class LeaseKey(NamedTuple):
    """The name of a lease: its number is unique in one incarnation of the coordinator only."""

    incarnation: int
    lease: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to an offer that the device declines."""

    reason: common_pb2.FailureReason.ValueType
    message: str  # one line
    retry_after_s: float


@dataclass(frozen=True, slots=True)
class Send:
    frame: device_pb2.ConnectRequest


@dataclass(frozen=True, slots=True)
class StartTask:
    key: LeaseKey
    offer: device_pb2.Offer
    ends_at: float  # the lease's end, in the caller's time
    grace_s: float  # it may end so much later, if its driver is away meanwhile


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop a task, and call ``Session.stopped`` when it has stopped."""

    key: LeaseKey
    why: str  # for the log


@dataclass(frozen=True, slots=True)
class MoveDriver:
    key: LeaseKey
    address: str


class CloseReason(Enum):
    """Why a stream is to be closed."""

    SILENT = "nothing was heard from the coordinator"
    LIMIT = "a limit is reached: served until the next interval"
    COME_BACK = "the coordinator has nothing to do for this device"
    DRAINED = "the coordinator is shutting down"


@dataclass(frozen=True, slots=True)
class CloseStream:
    """Close this stream. ``after_s`` of COME_BACK: dial again so many seconds later."""

    why: CloseReason
    after_s: float = 0.0


Action = Send | StartTask | StopTask | MoveDriver | CloseStream
