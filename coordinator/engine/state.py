"""What the engine remembers: devices, sessions, leases, requests, jobs. Values without behaviour of their own.

Compared by identity. Each attribute has its invariant beside it.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.lifecycle import (
    ENDED,
    GONE,
    OFFERED,
    PLACED,
    DeviceState,
    History,
    JobState,
    LeaseState,
    RequestState,
    new_history,
)
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    FailureReason,
    JobSpec,
    LeaseEnd,
    Outcome,
    Repeat,
    SessionEnd,
)
from coordinator.engine.plan import LIFTED, UNDECIDED
from coordinator.engine.profiles import Profiles
from coordinator.engine.regions import Group
from coordinator.engine.requirements import Capabilities
from coordinator.engine.tiers import NO_TIER

DAY_S = 86_400.0
_OPEN = AttemptStatus.OPEN


@dataclass(slots=True)
class Cooling:
    """A (device, job) pair after failures, or after places that it held in vain."""

    until: float  # no lease of the job for the device before
    failures: int  # since its last response
    vain_s: float = 0.0  # for so long it held places in vain since then, without a long break
    vain_at: float = 0.0  # when it gave back the last of these


NOT_COOLING: Mapping[JobId, Cooling] = {}  # one for all: look-ups read it, and next to no device has another


@dataclass(slots=True)
class Stopping:
    """A lease that has ended while its device may still work on it."""

    until: float  # the device counts as free from here
    reason: LeaseEnd


@dataclass(slots=True, eq=False)
class Device:
    """A device that has checked in, now or before."""

    id: DeviceId
    capabilities: Capabilities  # as of its last check-in
    capability_class: int  # OVERFLOW: none, it is checked one by one
    memory_bytes: int = 0  # of its capabilities
    state: DeviceState = GONE
    instance: str = ""  # of its last session
    session: "Session | None" = None  # open; None in GONE
    last_session: int = -1  # greatest that was opened; an older one is never opened
    interval: int = -1  # of its last session
    check_ins: int = 0  # availability intervals seen: its weight when past supply is shared
    tasks_per_session: int = 0  # 0: no limit
    tasks_per_day: int = 0  # 0: no limit
    tasks_in_interval: int = 0  # accepted leases
    day: int = -1  # of engine time, that tasks_today is about
    tasks_today: int = 0  # accepted leases
    tasks: int = 0  # leases it brought to a receipt, ever
    tier: int = NO_TIER  # as of its last check-in
    lease: "Lease | None" = None  # in hand: OFFERED, RUNNING or ABSENT
    stopping: dict[LeaseSeq, Stopping] = field(default_factory=dict)  # it is BUSY while one is left
    cooling: Mapping[JobId, Cooling] = field(
        default_factory=lambda: NOT_COOLING
    )  # of unfinished jobs, or not swept yet
    resting_until: float = 0.0  # it said it was busy: no lease before
    quiet: bool = False  # let an offer lapse, and has not spoken since
    drained: bool = False  # no more leases, no more sessions
    left: SessionEnd | None = None  # why its last session ended
    history: History = field(default_factory=new_history)

    @property
    def limited_in_interval(self) -> bool:
        """Whether it has reached its limit per availability interval."""
        return 0 < self.tasks_per_session <= self.tasks_in_interval

    def limited(self, now: float) -> bool:
        """Whether it has reached a limit of its own."""
        if 0 < self.tasks_per_session <= self.tasks_in_interval:
            return True
        return 0 < self.tasks_per_day <= self.tasks_today and self.day == day_of(now)


@dataclass(slots=True, eq=False)
class Session:
    """An open session of a device."""

    seq: SessionSeq
    device: Device
    opened_at: float
    waits_since: float  # IDLE since then, or since the last job for it ended
    draws: int = 0  # times that it was matched by chance
    wake_at: float | None = None  # while IDLE: when it is to be looked at again
    leave_by: float | None = None  # sent away: must have left by then
    unheard: bool = False  # its stream ended with the coordinator before this restart; its device holds a lease


@dataclass(slots=True, eq=False)
class Lease:
    """A lease, live or ended."""

    seq: LeaseSeq
    device: Device
    request: "Request"
    capabilities: Capabilities  # that made the device eligible
    granted_at: float
    accept_by: float
    ends_at: float  # its expiry; moved by outages of the driver only
    session: SessionSeq  # that it is OFFERED to or RUNNING in
    round: int  # of its request when it was granted; asynchronously the one whose model it was given
    attempt: int
    state: LeaseState = OFFERED
    extended_s: float = 0.0  # by outages, at most the driver grace
    ended_at: float | None = None  # in ENDED
    reason: LeaseEnd | None = None  # in ENDED
    receipt: Outcome | None = None  # from DELIVERED on: what its device was told
    recorded: Outcome | None = None  # the driver's word, its first one
    counts_in: int = 0  # the round that its response counts in; 0: none
    placed_at: float = field(init=False)  # when it took its place: at its grant, or when its device had returned

    def __post_init__(self) -> None:
        self.placed_at = self.granted_at

    def __str__(self) -> str:
        return f"lease {self.seq}"


@dataclass(slots=True, eq=False, kw_only=True)
class Places:
    """The part of a request that every look-up reads: slots of their own, which lie side by side."""

    places: int  # C, fixed; placed + counted never exceed it
    placed: int = 0  # leases in PLACED states
    counted: int = 0  # responses COUNTED while it was open, which keep their places
    ended_at: float | None = None
    tier: int = UNDECIDED  # whose devices alone may be leased to it, if >= 0; or UNDECIDED, ANY_TIER, LIFTED
    used: dict[DeviceId, LeaseSeq] = field(default_factory=dict)  # once a round: devices that are not leased to it now,
    # for their response under this lease counts in the round on offer, or has a receipt that says so


@dataclass(slots=True, eq=False, kw_only=True)
class Request(Places):
    """One attempt at one round; of an asynchronous job at all rounds that are left, one after the other (``rounds``).

    So an asynchronous request's round and attempt are those of the buffer that is being filled.
    """

    id: RequestId
    job: "Job"
    round: int
    attempt: int
    rounds_left: int | None  # with this one
    needed: int  # K, fixed
    opened_at: float
    deadline_at: float  # inf: asynchronous
    offered: tuple[int, int]  # round and attempt that leases are granted under: the latest that its driver opened
    asynchronous: bool = False  # as its job is
    state: RequestState = RequestState.FILLING
    held: int = 0  # the same of an asynchronous request, in its present round; they have given their places back
    filled_at: float | None = None  # when placed + counted first reached C; at the latest when it ended
    reason: AttemptEndReason | None = None  # once ended
    leases: dict[LeaseSeq, Lease] = field(default_factory=dict)  # all of its leases, until it is purged
    over: deque[Lease] = field(default_factory=deque)  # asynchronous: those of its leases that ended, the latest
    flushed_at: float = 0.0  # when its last round closed, asynchronously
    purged: bool = False  # forgets leases when they end
    target: int = field(init=False)  # by the present plan: with so many places taken it comes after those with fewer

    def __post_init__(self) -> None:
        self.target = self.places

    @property
    def responses(self) -> int:
        """The counted responses in its present round."""
        return self.counted + self.held

    @property
    def open(self) -> bool:
        return self.ended_at is None

    @property
    def unmet(self) -> int:
        """Places still to be leased."""
        return self.places - self.placed - self.counted

    @property
    def chosen(self) -> bool:
        """Whether it is or was for one tier."""
        return self.tier >= 0 or self.tier == LIFTED

    @property
    def at_target(self) -> bool:
        """Whether only spare places are left: it comes after those that are below their target."""
        return self.placed + self.counted >= self.target < self.places

    @property
    def status(self) -> AttemptStatus:
        if self.ended_at is None:
            return _OPEN
        return AttemptStatus.CLOSED if self.state is RequestState.CLOSED else AttemptStatus.ABORTED

    def status_of(self, round_: int) -> AttemptStatus:
        """The status of one of its rounds: those before the present one have closed."""
        return AttemptStatus.CLOSED if round_ < self.round else self.status

    def left_from(self, round_: int) -> int | None:
        """Rounds left, counted from one of its rounds."""
        return None if self.rounds_left is None else self.rounds_left + self.round - round_

    @property
    def once(self) -> bool:
        """Whether a device counts at most once in a round."""
        return self.job.spec.repeat is Repeat.ONCE

    @property
    def eligible(self) -> int:
        """How many known devices the job may use, at most."""
        return self.job.group.devices

    @property
    def left(self) -> int:
        """How many eligible devices do not count in the round on offer yet, and may."""
        return self.eligible - len(self.used)

    def counts(self, device: Device) -> bool:
        """Whether the device counts in the present round; known where a device counts once a round."""
        lease = self.leases.get(self.used.get(device.id, LeaseSeq(0)))
        return lease is not None and lease.counts_in == self.round

    def uses(self, lease: Lease) -> bool:
        """Whether its device is not leased to it again in the round on offer, because of this lease; once a round."""
        delivered = lease.state is not ENDED and lease.receipt is Outcome.COUNTED
        return self.once and (delivered or lease.counts_in >= self.offered[0])

    def live(self) -> Iterator[Lease]:
        """Its leases that have not ended, by number."""
        return (lease for lease in self.leases.values() if lease.state is not ENDED)

    def counted_leases(self) -> Iterator[Lease]:
        """Leases whose responses are recorded COUNTED."""
        return (lease for lease in self.leases.values() if lease.recorded is Outcome.COUNTED)

    def recount(self) -> int:
        """Count ``placed`` the slow way."""
        return sum(lease.state in PLACED for lease in self.leases.values())

    def __str__(self) -> str:
        return f"{self.job.id} round {self.round} attempt {self.attempt}"


@dataclass(slots=True, eq=False)
class Job:
    """A job, from its arrival until it is forgotten."""

    spec: JobSpec
    group: Group
    arrival: float
    incarnation: int  # the greatest that its driver has named
    state: JobState = JobState.ARRIVING
    followed: bool = False  # its driver's follow stream is up
    away_since: float | None = None  # while not followed
    pauses: dict[str, str] = field(default_factory=dict)  # reason -> message; nothing is leased while there is one
    request: Request | None = None  # its open attempt
    latest: Request | None = None  # its last attempt, open or not
    previous: Request | None = None  # the one before; those before that are purged
    attempts: dict[tuple[int, int], Request] = field(default_factory=dict)  # by (round, attempt), while unfinished;
    # an asynchronous request stands there under each of its rounds
    aborts: int = 0
    closed_rounds: int = 0
    crashed: dict[DeviceId, tuple[FailureReason, str]] = field(default_factory=dict)  # in the present round
    live: int = 0  # leases not ended
    live_granted_sum: float = 0.0  # of their granted_at
    attained_s: float = 0.0  # device-seconds of ended leases
    profiles: Profiles | None = None  # of its responses; None before the first, and once it has ended
    ended_at: float | None = None
    message: str = ""  # why it ended
    history: History = field(default_factory=new_history)
    id: JobId = field(init=False)
    needed: int = field(init=False)  # K and C of its attempts: its spec works them out, and is asked once
    places: int = field(init=False)

    def __post_init__(self) -> None:
        self.id, self.needed, self.places = self.spec.job, self.spec.responses_needed, self.spec.places

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def servable(self) -> bool:
        """Whether it may be offered devices."""
        return self.followed and not self.pauses

    def requests(self) -> list[Request]:
        """Its attempts, each once, in the order in which they were opened."""
        return list({request.id: request for request in self.attempts.values()}.values())

    def attained(self, now: float) -> float:
        """Device-seconds leased so far."""
        return self.attained_s + self.live * now - self.live_granted_sum


def day_of(now: float) -> int:
    """The number of the day, counted in engine time."""
    return int(now // DAY_S)
