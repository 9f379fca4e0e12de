"""Effects: what is to be done, and what has changed. Imperatives go to a device or a driver; the rest is told to
followers of a job and kept in the record. The order within one ``handle`` is the order in which they took effect."""

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
    value,
)

# -- to devices


@value
class OpenSession:
    """Answer the check-in with Welcome."""

    session: SessionSeq
    device: DeviceId


@value
class CloseSession:
    """End this stream, or refuse its check-in: SILENT, SUPERSEDED, DUPLICATE_DEVICE, DRAINED."""

    session: SessionSeq
    device: DeviceId
    reason: SessionEnd
    retry_after_s: float = 0.0  # of DUPLICATE_DEVICE


@value
class OfferLease:
    """Offer a lease to a device. It is granted (OFFERED), and its place is taken from now."""

    session: SessionSeq
    device: DeviceId
    lease: LeaseSeq
    request: RequestId
    job: JobId
    round: int
    attempt: int
    ends_at: float  # engine time


@value
class RevokeLease:
    """Tell the device to stop. Also the answer to a late frame about a lease that has ended."""

    session: SessionSeq
    lease: LeaseSeq
    reason: LeaseEnd


@value
class SendAway:
    """Tell an idle device to leave (ComeBack). ``after_s``: None until its own next availability interval."""

    session: SessionSeq
    device: DeviceId
    reason: ComeBackReason
    after_s: float | None


# -- to a job's driver, and the record


@value
class AcceptJob:
    """Answer that JobSubmitted stands, now or already. ``open_request`` is its open attempt, if any."""

    job: JobId
    open_request: RequestId | None


@value
class RefuseJob:
    """Answer that an event of a driver does not stand: KEY_REUSED, SUPERSEDED, UNKNOWN_JOB, JOB_ENDED, OUT_OF_ORDER."""

    job: JobId
    reason: str
    message: str


@value
class AcceptAttempt:
    """Answer that AttemptOpened stands, now or already (then ``status`` may be CLOSED or ABORTED). All rounds of an
    asynchronous request have its number."""

    request: RequestId
    job: JobId
    round: int
    attempt: int
    status: AttemptStatus
    responses_needed: int  # K
    places: int  # C
    deadline_at: float | None  # engine time; None: asynchronous


@value
class FillAttempt:
    """The attempt is full: live leases + counted responses reached C for the first time. The scheduling delay ends."""

    request: RequestId
    job: JobId
    round: int
    attempt: int


@value
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


@value
class AnswerResponses:
    """Answer a ResponsesRecorded that was handled: how the attempt stands now."""

    job: JobId
    round: int
    attempt: int
    status: AttemptStatus
    responses: int


@value
class RunLease:
    """The lease is RUNNING: its device has accepted it."""

    lease: LeaseSeq
    device: DeviceId


@value
class MissLease:
    """The lease is ABSENT, and its place free: its session ended while it was RUNNING."""

    lease: LeaseSeq
    device: DeviceId


@value
class ResumeLease:
    """The lease is RUNNING again: its device returned in time."""

    lease: LeaseSeq
    device: DeviceId
    session: SessionSeq


@value
class EndLease:
    """The lease is over, which was offered with this round and attempt. A second one, COUNTED, corrects the first: its
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


@value
class EndSession:
    """The session is over, for this reason, once; ``in_task`` if a lease of it was RUNNING then."""

    session: SessionSeq
    device: DeviceId
    reason: SessionEnd
    in_task: bool


@value
class PauseJob:
    """The job gets no leases until its driver does something: JOB_CRASHES, DRIVER_AWAY."""

    job: JobId
    reason: str
    message: str


@value
class ResumeJob:
    """The job is paused no longer."""

    job: JobId


@value
class EndJob:
    """The job is over; it stays so."""

    job: JobId
    end: JobEnd
    message: str


@value
class AdoptPlan:
    """The plan was made anew."""

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
