"""The whole state of the engine, and what is being said about the event in hand. No rule of the protocol is here."""

from collections.abc import Callable, Iterator

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


class World:
    def __init__(self, settings: EngineSettings, truth: Truth) -> None:
        self.settings = settings
        self.now = 0.0  # of the last event
        self.started: float | None = None  # of the first event
        self.devices: dict[DeviceId, Device] = {}  # known ones
        self.sessions: dict[SessionSeq, Session] = {}  # open ones
        self.jobs: dict[JobId, Job] = {}  # by arrival
        self.requests: dict[RequestId, Request] = {}  # of unfinished jobs; the last one of those that ended
        self.open_requests: dict[RequestId, Request] = {}
        self.leases: dict[LeaseSeq, Lease] = {}  # not ended
        self.ended: dict[LeaseSeq, Lease] = {}  # ended, their attempts not purged
        self.idle: dict[int, dict[SessionSeq, Session]] = {}  # class -> its IDLE devices' sessions, if any
        self.gone: dict[DeviceId, None] = {}  # devices without a session, by when they left
        self.over: dict[JobId, None] = {}  # ended jobs, by when they ended
        self.draining = False
        self.regions = Regions(settings.most_regions)
        self.supply = Supply(settings, 0.0)
        self.tiers = Tiers(settings, 0.0)
        self.deadlines = Deadlines(truth)
        self.plan = Plan()
        self.plan_number = 0
        self.policy = settings.policy  # the name of the one in force
        self.changed: dict[RequestId, Request] = {}  # views are to show something else of them (see ``openings``)
        self.dirty = False  # the plan is to be remade at the end of this turn
        self.fresh: list[Session] = []  # became matchable in this turn
        self.vacant = False  # a full asynchronous request has a place again: idle devices are matched, by the same plan
        self.emit: Callable[[Effect], None]  # as what follows from this event
        self.leases_granted = 0
        self.requests_opened = 0
        self.ends: dict[LeaseEnd, int] = dict.fromkeys(LeaseEnd, 0)  # leases ended, by reason
        self.device_counts: dict[DeviceState, int] = dict.fromkeys(DeviceState, 0)
        self.responses_late = 0  # COUNTED after their lease had ended otherwise

    @property
    def unsettled(self) -> bool:
        """A plan is to be made, or devices are to be matched."""
        return self.dirty or self.vacant or bool(self.fresh)

    def change(self, job: Job) -> None:
        """It may be served from here on, or may not: the plan's inputs have changed."""
        self.dirty = True
        if job.request is not None:
            self.changed[job.request.id] = job.request

    def move(self, device: Device, step: DeviceStep) -> None:
        """A step of a device's life."""
        before = device.state
        after = DEVICE.get((before, step)) or advance(DEVICE, before, step, device.id, device.story)
        if after is not before:
            counts = self.device_counts
            counts[before] -= 1
            counts[after] += 1
            device.state = after

    def make_idle(self, session: Session) -> None:
        """Into the pool of those that can be matched."""
        self.idle.setdefault(session.device.capability_class, {})[session.seq] = session
        session.waits_since = self.now
        self.fresh.append(session)

    def leave_idle(self, session: Session) -> None:
        """Out of the pool, if it is there."""
        alike = self.idle.get(session.device.capability_class)
        if alike is not None and alike.pop(session.seq, None) is not None and not alike:
            del self.idle[session.device.capability_class]  # what is listed is worth a look
        session.wake_at = None

    def idle_sessions(self) -> Iterator[Session]:
        """All of them, in order of session."""
        everyone = {seq: session for sessions in self.idle.values() for seq, session in sessions.items()}
        return (everyone[seq] for seq in sorted(everyone))

    def note_job(self, job: Job, kind: str, text: str = "") -> None:
        job.story.append((self.now, kind, text))

    def note(self, device: Device, kind: str, text: str = "") -> None:
        device.story.append((self.now, kind, text))
