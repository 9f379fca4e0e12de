"""What is to be done, and what has changed. Imperatives go to a device or a driver; the rest is told to followers
of a job and kept in the record. The order within one ``handle`` is the order in which they took effect."""

from dataclasses import dataclass

from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    ComeBackReason,
    FailureReason,
    JobEnd,
    LeaseEnd,
    Phase,
    SessionEnd,
)

# -- to devices


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Answer the check-in with Welcome."""

    session: SessionSeq
    device: DeviceId


@dataclass(frozen=True, slots=True)
class CloseSession:
    """End this stream, or refuse its check-in: SILENT, SUPERSEDED, DUPLICATE_DEVICE, DRAINED."""

    session: SessionSeq
    device: DeviceId
    reason: SessionEnd
    retry_after_s: float = 0.0  # of DUPLICATE_DEVICE


@dataclass(frozen=True, slots=True)
class OfferLease:
    """A lease is granted (OFFERED) and offered; its place is taken from now."""

    session: SessionSeq
    device: DeviceId
    lease: LeaseSeq
    request: RequestId
    job: JobId
    round: int
    attempt: int
    ends_at: float  # engine time


@dataclass(frozen=True, slots=True)
class RevokeLease:
    """Tell the device to stop. Also the answer to a late frame about a lease that has ended."""

    session: SessionSeq
    lease: LeaseSeq
    reason: LeaseEnd


@dataclass(frozen=True, slots=True)
class SendAway:
    """ComeBack. ``after_s`` is None at a limit per interval: the device's own next availability interval."""

    session: SessionSeq
    device: DeviceId
    reason: ComeBackReason
    after_s: float | None


# -- to a job's driver, and the record


@dataclass(frozen=True, slots=True)
class AcceptJob:
    """JobSubmitted stands, now or already. ``open_request`` is its open attempt, if any."""

    job: JobId
    open_request: RequestId | None


@dataclass(frozen=True, slots=True)
class RefuseJob:
    """JobSubmitted, AttemptOpened, ... do not stand: KEY_REUSED, SUPERSEDED, UNKNOWN_JOB, JOB_ENDED, OUT_OF_ORDER."""

    job: JobId
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AcceptAttempt:
    """AttemptOpened stands, now or already (then ``status`` may be CLOSED or ABORTED). All rounds of an asynchronous
    request have its number."""

    request: RequestId
    job: JobId
    round: int
    attempt: int
    status: AttemptStatus
    responses_needed: int  # K
    places: int  # C
    deadline_at: float | None  # engine time; None: asynchronous


@dataclass(frozen=True, slots=True)
class FillAttempt:
    """Live leases + counted responses reached C for the first time: the scheduling delay ends."""

    request: RequestId
    job: JobId
    round: int
    attempt: int


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """The one outcome of an attempt: CLOSED or ABORTED. An asynchronous request goes on with its next round after it,
    unless it was the last one."""

    request: RequestId
    job: JobId
    round: int
    attempt: int
    status: AttemptStatus
    reason: AttemptEndReason
    responses: int  # counted


@dataclass(frozen=True, slots=True)
class AnswerResponses:
    """ResponsesRecorded was handled: how the attempt stands now."""

    job: JobId
    round: int
    attempt: int
    status: AttemptStatus
    responses: int


@dataclass(frozen=True, slots=True)
class RunLease:
    """The device accepted: the lease is RUNNING."""

    lease: LeaseSeq
    device: DeviceId


@dataclass(frozen=True, slots=True)
class MissLease:
    """Its session ended while RUNNING: the lease is ABSENT and its place is free."""

    lease: LeaseSeq
    device: DeviceId


@dataclass(frozen=True, slots=True)
class ResumeLease:
    """Its device returned in time: RUNNING again."""

    lease: LeaseSeq
    device: DeviceId
    session: SessionSeq


@dataclass(frozen=True, slots=True)
class EndLease:
    """A lease is over, which was offered with this round and attempt. A second one, COUNTED, corrects the first: its
    driver had counted it before it heard."""

    lease: LeaseSeq
    device: DeviceId
    request: RequestId
    job: JobId
    round: int
    attempt: int
    reason: LeaseEnd
    phase: Phase | None = None  # of FAILED
    failure: FailureReason | None = None  # of FAILED, DECLINED
    message: str = ""


@dataclass(frozen=True, slots=True)
class EndSession:
    """A session is over, for this reason, once; ``in_task`` if a lease of it was RUNNING then."""

    session: SessionSeq
    device: DeviceId
    reason: SessionEnd
    in_task: bool


@dataclass(frozen=True, slots=True)
class PauseJob:
    """No leases for it until its driver does something: JOB_CRASHES, DRIVER_AWAY."""

    job: JobId
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ResumeJob:
    job: JobId


@dataclass(frozen=True, slots=True)
class EndJob:
    job: JobId
    end: JobEnd
    message: str


@dataclass(frozen=True, slots=True)
class AdoptPlan:
    """The plan was remade."""

    number: int  # of the plan, from 1


Effect = (
    OpenSession
    | CloseSession
    | OfferLease
    | RevokeLease
    | SendAway
    | AcceptJob
    | RefuseJob
    | AcceptAttempt
    | FillAttempt
    | EndAttempt
    | AnswerResponses
    | RunLease
    | MissLease
    | ResumeLease
    | EndLease
    | EndSession
    | PauseJob
    | ResumeJob
    | EndJob
    | AdoptPlan
)
