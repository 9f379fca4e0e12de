"""The values that events, effects and states are made of. Times are seconds of engine time, durations seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar, dataclass_transform

from coordinator.engine.ids import JobId, LeaseSeq
from coordinator.engine.requirements import Requirement

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(kind: type[T]) -> type[T]:
    """Make a class a frozen dataclass, equal and hashed by its fields, that is as fast to make as one that is not.

    To type checkers it is frozen. At run time nothing holds that: a dataclass that does sets its fields one call each,
    and events and effects are made by the thousand.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)


class LeaseEnd(StrEnum):
    """Why a lease ended. Every lease ends with exactly one of these."""

    COUNTED = "counted"  # its response is in the round
    STRAGGLER = "straggler"  # its response came after the close
    REJECTED = "rejected"  # its response was refused by the driver
    FAILED = "failed"  # the device said so
    DECLINED = "declined"  # the device did not take it
    UNACCEPTED = "unaccepted"  # not accepted in time
    LOST = "lost"  # its session ended and the device did not return before the lease's expiry
    REPLACED = "replaced"  # the device returned, and its place was taken
    EXPIRED = "expired"
    REVOKED = "revoked"  # the attempt or the job ended and does not want it
    UNKNOWN = "unknown"  # named by a device, not known to this coordinator


class Phase(StrEnum):
    """The part of a task in which it failed."""

    FETCH = "fetch"
    IMPORT = "import"
    ON_DEVICE = "on_device"
    SUBMIT = "submit"


class FailureReason(StrEnum):
    """Why a task failed or was declined."""

    DRIVER_UNREACHABLE = "driver_unreachable"
    TASK_CRASHED = "task_crashed"
    CODE_NOT_ALLOWED = "code_not_allowed"
    DATA_MISSING = "data_missing"
    RESPONSE_REJECTED = "response_rejected"
    TRANSFER_FAILED = "transfer_failed"
    OUT_OF_SPACE = "out_of_space"
    BUSY = "busy"
    CANCELLED = "cancelled"
    RECEIPT_FORGED = "receipt_forged"  # the device said that the driver answered, and has not the driver's receipt


class SessionEnd(StrEnum):
    """Why a session ended, as the coordinator observed it."""

    GOODBYE_SESSION_OVER = "goodbye_session_over"
    GOODBYE_STOPPED = "goodbye_stopped"
    GOODBYE_TOLD_TO = "goodbye_told_to"
    CONNECTION_ENDED = "connection_ended"  # the stream ended without a Goodbye
    SILENT = "silent"  # nothing heard for the liveness interval
    SLOW_READER = "slow_reader"  # its outbox overflowed
    SUPERSEDED = "superseded"  # a newer stream of the same instance
    DUPLICATE_DEVICE = "duplicate_device"  # refused: another instance of the same id is alive
    SENT_AWAY = "sent_away"  # after ComeBack
    DRAINED = "drained"
    BAD_FRAME = "bad_frame"  # the device broke the protocol
    COORDINATOR_RESTARTED = "coordinator_restarted"  # its stream ended with the coordinator, which came back


class AttemptStatus(StrEnum):
    """How an attempt stands."""

    OPEN = "open"
    CLOSED = "closed"
    ABORTED = "aborted"


class AttemptEndReason(StrEnum):
    """Why an attempt ended."""

    ENOUGH = "enough"
    DEADLINE = "deadline"
    DRIVER_AWAY = "driver_away"
    CANCELLED = "cancelled"
    GIVEN_UP = "given_up"  # its driver opened the next attempt in its place
    UNKNOWN = "unknown"  # its coordinator was restarted, and does not know it


class JobEnd(StrEnum):
    """How a job ended."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Outcome(StrEnum):
    """What the driver decided about a response."""

    COUNTED = "counted"
    STRAGGLER = "straggler"
    REJECTED = "rejected"


class HeldPhase(StrEnum):
    """How far a device that comes back is with a lease."""

    FETCHING = "fetching"
    WORKING = "working"
    SUBMITTING = "submitting"
    DONE = "done"  # the driver has answered; the answer is its receipt
    BROKEN = "broken"  # the task failed while the device was away


class StragglerRule(StrEnum):
    """What becomes of leases that run when their round closes."""

    FINISH = "finish"
    REVOKE = "revoke"


class Repeat(StrEnum):
    """How often a device may count in one round, whatever attempts it takes; asynchronously in one buffer."""

    ONCE = "once"
    ALLOW = "allow"  # without limit


class ComeBackReason(StrEnum):
    """Why a device was sent away."""

    LIMIT = "limit"
    NO_WORK = "no_work"
    OVERLOAD = "overload"


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease that a device names at its check-in, granted by this coordinator's incarnation."""

    lease: LeaseSeq
    phase: HeldPhase
    outcome: Outcome | None = None  # of DONE
    failure: FailureReason | None = None  # of BROKEN
    message: str = ""  # of BROKEN


@dataclass(frozen=True, slots=True)
class Workload:
    """What a task costs where time is modelled."""

    compute_s: float = 0.0  # on a device whose cpu score is 1; >= 0
    download_bytes: int = 0
    upload_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Asynchronous:
    """A job whose rounds overlap (FedBuff): its demand is a concurrency, and a round is a buffer of responses."""

    buffer: int  # a round closes at so many counted responses, >= 1
    max_staleness: int | None = None  # in rounds, >= 0; its driver takes an older response for a straggler. None: never


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as the scheduler knows it. Fractions are exact decimals (``engine`` rule: no float rounds a count)."""

    job: JobId
    requirement: Requirement
    requirement_name: str  # for people
    rounds: int | None  # exact, >= 1; None: unknown
    demand: int  # D, devices per round, >= 1; asynchronously the leases that are live at a time
    min_response: Fraction  # in (0, 1]; K = ceil(min_response x D); asynchronously K is the buffer
    over_commit: Fraction  # >= 0; C = ceil((1 + over_commit) x D); asynchronously 0
    deadline_s: float  # from an attempt's opening, > 0; asynchronously there is none
    lease_s: float  # a lease's length, > 0
    stragglers: StragglerRule = StragglerRule.FINISH
    workload: Workload = Workload()
    asynchronous: Asynchronous | None = None  # None: rounds one after the other
    repeat: Repeat = Repeat.ONCE

    @property
    def requirement_label(self) -> str:
        """The name of its requirement, else its text."""
        return self.requirement_name or str(self.requirement)

    @property
    def responses_needed(self) -> int:
        """K: a round closes at so many responses."""
        if self.asynchronous is not None:
            return self.asynchronous.buffer
        return _of(self.min_response, self.demand)

    @property
    def places(self) -> int:
        """C: live leases and counted responses together never exceed it; asynchronously, live leases alone."""
        return self.demand + _of(self.over_commit, self.demand)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings of an engine: fixed for an incarnation, recorded with its first event."""

    seed: int
    policy: str  # its name, for the record
    heartbeat_s: float = 3.0
    liveness_s: float = 10.0  # max(3 heartbeats, 10 s) unless told otherwise; the host ends sessions that are silent
    accept_timeout_s: float = 10.0
    driver_grace_s: float = 30.0
    recovery_grace_s: float = 20.0  # 2 liveness intervals; after a restart so long ends no silence a session or lease
    cooling_first_s: float = 30.0  # doubles with each failure of the same (device, job)
    cooling_most_s: float = 3600.0
    crashes_to_pause: int = 5  # distinct devices on which one round failed, at least, before the job is paused
    supply_window_s: float = 86_400.0
    supply_buckets: int = 288
    most_regions: int = 4096
    no_work_patience_s: float = 30.0  # a device without a job to serve waits so long before it is sent away
    come_back_per_s: float = 100.0  # wanted check-in rate of devices that were sent away, > 0
    most_sessions: int = 50_000  # open at once; beyond it a device that no request takes is sent away
    most_devices: int = 1_000_000  # remembered; beyond it those that left first are forgotten
    most_jobs: int = 10_000  # remembered; beyond it those that ended first are forgotten
    most_attempts: int = 64  # of a job that are remembered; older ones are forgotten once their last lease has ended
    most_over: int = 100  # jobs that ended whose last leases are remembered; beyond it those that ended first lose them
    tiers: int = 3  # of devices by speed, in equal numbers, >= 1; 1: none
    most_device_bytes: int = 2**40  # memory for devices' capabilities, about; beyond it those that left first go
    vain_leases: float = 1.5  # a device that held places of a job for longer than so many leases, in vain, cools for it


def _of(fraction: Fraction, count: int) -> int:
    """A fraction of a count, rounded up; in integers, for it is asked for often."""
    return -(-fraction.numerator * count // fraction.denominator)


SUMMED_AS = {  # each end counts under one word, by who or what ended the lease
    LeaseEnd.COUNTED: "responses",
    LeaseEnd.STRAGGLER: "stragglers",
    LeaseEnd.LOST: "lost",  # its device was away
    LeaseEnd.REPLACED: "lost",  # its device was away, and came back after its place was taken
    LeaseEnd.FAILED: "failed",  # the device or the driver said no
    LeaseEnd.REJECTED: "failed",
    LeaseEnd.DECLINED: "failed",
    LeaseEnd.EXPIRED: "expired",  # a time ran out
    LeaseEnd.UNACCEPTED: "expired",
    LeaseEnd.REVOKED: "revoked",  # the attempt or the job ended and did not want it
    LeaseEnd.UNKNOWN: "revoked",  # its coordinator was killed
}


@dataclass(frozen=True, slots=True)
class LeaseSum:
    """How leases ended: granted = responses + stragglers + lost + failed + expired + revoked + live."""

    granted: int
    responses: int
    stragglers: int
    lost: int
    failed: int
    expired: int
    revoked: int
    live: int  # not ended

    @property
    def adds_up(self) -> bool:
        ended = self.responses + self.stragglers + self.lost + self.failed + self.expired + self.revoked
        return self.granted == ended + self.live


def sum_leases(ends: Mapping[LeaseEnd, int], *, granted: int, live: int) -> LeaseSum:
    """Sum leases by how they ended: ``ends`` is by reason; ``granted`` and ``live`` were counted apart."""
    words = dict.fromkeys(SUMMED_AS.values(), 0)
    for end, count in ends.items():
        words[SUMMED_AS[end]] += count
    return LeaseSum(granted=granted, live=live, **words)
