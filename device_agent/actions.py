"""The messages between a session and the work for its leases: actions, refusals of offers, failures of tasks."""

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
    """Send a frame."""

    frame: device_pb2.ConnectRequest


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start the work for a lease."""

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
    """Go on with the driver of a lease at another address."""

    key: LeaseKey
    address: str
    certificate: bytes  # DER; empty: it does not encrypt


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


class TaskFailed(Exception):
    """The failure of a task. The coordinator is told where, why, and the last lines of the task's output."""

    def __init__(
        self,
        phase: common_pb2.Phase.ValueType,
        reason: common_pb2.FailureReason.ValueType,
        message: str,
        output_tail: str = "",
    ) -> None:
        super().__init__(message)
        self.phase, self.reason, self.message, self.output_tail = phase, reason, message, output_tail


class LeaseOver(Exception):
    """The end of a lease's time. The coordinator knows that as well, so it is told nothing."""

    def __init__(self, phase: common_pb2.Phase.ValueType) -> None:
        super().__init__(f"in {common_pb2.Phase.Name(phase)}")
        self.phase = phase
