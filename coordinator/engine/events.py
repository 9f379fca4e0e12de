"""Events: what happened, in the past tense. ``Engine.handle(event, now)`` turns each into effects.

Every event can arrive late, twice or out of order; what no longer makes sense is answered, never raised. Events come in
turns: plans are made and devices matched at ``TurnEnded`` alone.
"""

from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, SessionSeq
from coordinator.engine.model import (
    FailureReason,
    HeldLease,
    JobEnd,
    JobSpec,
    Outcome,
    Phase,
    SessionEnd,
    value,
)
from coordinator.engine.requirements import Capabilities

# -- devices


@value
class DeviceCheckedIn:
    """A device checked in, on a stream that the host has numbered. The engine answers OpenSession or CloseSession."""

    session: SessionSeq
    device: DeviceId
    instance: str  # hex of 16 bytes
    interval: int  # number of the availability interval: a reconnect within one keeps it
    capabilities: Capabilities
    held: tuple[HeldLease, ...] = ()  # of this incarnation
    foreign: tuple[LeaseSeq, ...] = ()  # held leases of another incarnation: unknown here
    tasks_per_session: int = 0  # 0: no limit
    tasks_per_day: int = 0  # 0: no limit
    reference_s: float = 0.0  # modelled time of a reference task, > 0: its tier goes by that; 0: unknown


@value
class DeviceHeard:
    """A heartbeat, or any sign of life that has no event of its own. One that changes nothing need not be handled."""

    session: SessionSeq


@value
class LeaseAccepted:
    """The device has accepted an offer."""

    session: SessionSeq
    lease: LeaseSeq


@value
class LeaseDeclined:
    """The device does not take an offer."""

    session: SessionSeq
    lease: LeaseSeq
    reason: FailureReason
    retry_after_s: float = 0.0
    message: str = ""


@value
class TaskProgressed:
    """The device works on a task; ``fraction`` of it is done, 0 to 1."""

    session: SessionSeq
    lease: LeaseSeq
    fraction: float


@value
class TaskFinished:
    """The device has its receipt; it frees the device and nothing else."""

    session: SessionSeq
    lease: LeaseSeq
    outcome: Outcome
    compute_s: float = 0.0  # as measured on the device
    late_s: float = 0.0  # beyond the modelled time
    compute_cpu_s: float = 0.0  # of it, processor time
    held_back: int = 0  # times that the device's processor limit was used up meanwhile


@value
class TaskFailed:
    """The task has failed on the device."""

    session: SessionSeq
    lease: LeaseSeq
    phase: Phase
    reason: FailureReason
    message: str = ""


@value
class LeaseReleased:
    """The device has stopped with a lease that was revoked."""

    session: SessionSeq
    lease: LeaseSeq


@value
class SessionEnded:
    """The device said Goodbye, its stream ended (CONNECTION_ENDED, SLOW_READER, BAD_FRAME), or it was SILENT.

    Who is silent is the host's to find out, so that heartbeats need be neither handled nor recorded.
    """

    session: SessionSeq
    reason: SessionEnd


# -- jobs


@value
class JobSubmitted:
    """A job arrives; or, with a higher incarnation, its restarted driver takes it up again."""

    spec: JobSpec
    incarnation: int


@value
class DriverFollowed:
    """The driver's follow stream is up and its address was verified: its job may be offered devices."""

    job: JobId
    incarnation: int


@value
class DriverLost:
    """The driver's follow stream ended."""

    job: JobId
    incarnation: int


@value
class AttemptOpened:
    """The driver asks for devices; or, after the close of an asynchronous round, has the next model for them."""

    job: JobId
    incarnation: int
    round: int  # from 1
    attempt: int  # from 1 in each round
    rounds_left: int | None  # with this one; None: unknown


@value
class ResponsesRecorded:
    """The driver's decisions, in its order. Idempotent per lease."""

    job: JobId
    incarnation: int
    round: int
    attempt: int
    responses: tuple[tuple[LeaseSeq, Outcome], ...]


@value
class JobEnded:
    """The driver finished it, or somebody cancelled it, or its driver gave up."""

    job: JobId
    end: JobEnd
    message: str = ""
    incarnation: int | None = None  # of the driver that says so; None: a person does


# -- the coordinator


@value
class PolicyChanged:
    """The host has given the engine another policy (``Engine.set_policy`` is not an event: this is its record)."""

    policy: str


@value
class CoordinatorRestarted:
    """The coordinator was killed or stopped, and this is the same one again: all streams are gone."""

    stopped: bool  # cleanly: it had drained all devices to stop, which is over


@value
class JournalRotated:
    """The host begins another segment of its journal, with an image of the state: the plan is forgotten, and made anew
    at the end of the turn.
    """


@value
class DevicesDrained:
    """Somebody drains these devices (None: all): no new leases; idle ones are sent away, busy ones after their task."""

    devices: tuple[DeviceId, ...] | None


@value
class TimePassed:
    """A deadline is due: ``next_deadline() <= now``."""


@value
class TurnEnded:
    """The turn is over: now one plan is made for all that came at once, and devices are matched.

    The host says it at the end of each turn of its loop in which the engine is left ``unsettled``.
    """


Event = (
    DeviceCheckedIn
    | DeviceHeard
    | LeaseAccepted
    | LeaseDeclined
    | TaskProgressed
    | TaskFinished
    | TaskFailed
    | LeaseReleased
    | SessionEnded
    | JobSubmitted
    | DriverFollowed
    | DriverLost
    | AttemptOpened
    | ResponsesRecorded
    | JobEnded
    | PolicyChanged
    | CoordinatorRestarted
    | JournalRotated
    | DevicesDrained
    | TimePassed
    | TurnEnded
)
