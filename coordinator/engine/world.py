"""The whole state of the engine, and the effects of the event in hand. No rule of the protocol is here."""

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field

from coordinator.engine.deadlines import Deadlines, Truth
from coordinator.engine.effects import Effect
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.lifecycle import DEVICE, DeviceState, DeviceStep, advance
from coordinator.engine.model import EngineSettings, LeaseEnd
from coordinator.engine.plan import Plan
from coordinator.engine.regions import Regions
from coordinator.engine.state import Device, Job, Lease, Request, Session
from coordinator.engine.supply import Supply
from coordinator.engine.tiers import Tiers

_after = DEVICE.get


@dataclass(slots=True, eq=False)
class World:
    """The state of one engine."""

    settings: EngineSettings
    truth: InitVar[Truth]
    now: float = 0.0  # of the last event
    started: float | None = None  # of the first event
    devices: dict[DeviceId, Device] = field(default_factory=dict)  # known ones
    sessions: dict[SessionSeq, Session] = field(default_factory=dict)  # open ones
    jobs: dict[JobId, Job] = field(default_factory=dict)  # by arrival
    requests: dict[RequestId, Request] = field(default_factory=dict)  # of unfinished jobs; the last one of ended ones
    open_requests: dict[RequestId, Request] = field(default_factory=dict)
    leases: dict[LeaseSeq, Lease] = field(default_factory=dict)  # not ended
    ended: dict[LeaseSeq, Lease] = field(default_factory=dict)  # ended, their attempts not purged
    idle: dict[int, dict[SessionSeq, Session]] = field(default_factory=dict)  # class -> IDLE devices' sessions, if any
    gone: dict[DeviceId, None] = field(default_factory=dict)  # devices without a session, by when they left
    over: dict[JobId, None] = field(default_factory=dict)  # ended jobs, by when they ended
    draining: bool = False
    recovering_until: float | None = None  # after a restart: devices that hold leases may come back until then
    regions: Regions = field(init=False)
    supply: Supply = field(init=False)
    tiers: Tiers = field(init=False)
    deadlines: Deadlines = field(init=False)
    plan: Plan = field(default_factory=Plan)
    plan_number: int = 0
    policy: str = field(init=False)  # the name of the one in force
    changed: dict[RequestId, Request] = field(default_factory=dict)  # views show something else of them: ``views``
    dirty: bool = False  # the plan is to be remade at the end of this turn
    fresh: list[Session] = field(default_factory=list)  # became matchable in this turn
    vacant: bool = False  # a full asynchronous request has a place again: idle devices are matched, by the same plan
    effects: list[Effect] = field(default_factory=list)  # that follow from the event in hand
    leases_granted: int = 0
    requests_opened: int = 0
    ends: dict[LeaseEnd, int] = field(default_factory=lambda: dict.fromkeys(LeaseEnd, 0))  # leases ended, by reason
    device_bytes: int = 0  # memory of all devices' capabilities, about
    device_counts: dict[DeviceState, int] = field(default_factory=lambda: dict.fromkeys(DeviceState, 0))
    responses_late: int = 0  # COUNTED after their lease had ended otherwise

    def __post_init__(self, truth: Truth) -> None:
        self.policy = self.settings.policy
        self.regions = Regions(self.settings.most_regions)
        self.supply = Supply(self.settings, 0.0)
        self.tiers = Tiers(self.settings, 0.0)
        self.deadlines = Deadlines(truth)

    def is_unsettled(self) -> bool:
        """Whether a plan is to be made, or devices are to be matched."""
        return bool(self.fresh) or self.dirty or self.vacant

    def change(self, job: Job) -> None:
        """Note that a job may be served from here on, or may not: the plan's inputs have changed."""
        self.dirty = True
        if job.request is not None:
            self.changed[job.request.id] = job.request

    def move(self, device: Device, step: DeviceStep) -> None:
        """Take a step of a device's life."""
        before = device.state
        after = _after((before, step)) or advance(DEVICE, before, step, device.id, device.history)
        if after is not before:
            counts = self.device_counts
            counts[before] -= 1
            counts[after] += 1
            device.state = after

    def make_idle(self, session: Session) -> None:
        """Put a session into the pool of those that can be matched."""
        self.idle.setdefault(session.device.capability_class, {})[session.seq] = session
        session.waits_since = self.now
        self.fresh.append(session)

    def leave_idle(self, session: Session) -> None:
        """Take a session out of the pool, if it is there."""
        alike = self.idle.get(session.device.capability_class)
        if alike is not None and alike.pop(session.seq, None) is not None and not alike:
            del self.idle[session.device.capability_class]  # what is listed is worth a look
        session.wake_at = None

    def idle_sessions(self) -> Iterator[Session]:
        """The sessions of all idle devices, in order of session."""
        everyone = {seq: session for sessions in self.idle.values() for seq, session in sessions.items()}
        return (everyone[seq] for seq in sorted(everyone))

    def note(self, subject: Device | Job, kind: str, text: str = "") -> None:
        """Add to the history of a device or a job."""
        subject.history.append((self.now, kind, text))
