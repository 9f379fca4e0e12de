"""The engine: events in, effects out. It reads no clock, keeps no generator of chance and does no I/O.

``handle`` first lets happen what was due before the event, then the event. At the end of a turn (``TurnEnded``), which
may have had many events, devices that became matchable are matched, by a new plan if the inputs of the plan have
changed: so a turn makes one plan, and one more for each request that it fills. A response or a failure, and what a
device or a driver says at once when it hears of an effect, goes before what is due at the very same time; everything
else goes after it. An event that comes late, twice or out of order is answered, never raised.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from coordinator.engine import devices, explain, invariants, jobs, recovery
from coordinator.engine.deadlines import Kind
from coordinator.engine.due import DUE_AT, ON_DUE
from coordinator.engine.effects import Effect
from coordinator.engine.events import (
    AttemptOpened,
    CoordinatorRestarted,
    DeviceCheckedIn,
    DeviceHeard,
    DevicesDrained,
    DriverFollowed,
    DriverLost,
    Event,
    JobEnded,
    JobSubmitted,
    JournalRotated,
    LeaseAccepted,
    LeaseDeclined,
    LeaseReleased,
    PolicyChanged,
    ResponsesRecorded,
    SessionEnded,
    TaskFailed,
    TaskFinished,
    TaskProgressed,
    TimePassed,
    TurnEnded,
)
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.lifecycle import InvariantError, tell
from coordinator.engine.matching import Matcher
from coordinator.engine.model import EngineSettings
from coordinator.engine.plan import Plan, Policy
from coordinator.engine.regions import Regions
from coordinator.engine.state import Device, Job, Lease, Request, Session
from coordinator.engine.supply import Supply
from coordinator.engine.tiers import Tiers
from coordinator.engine.world import World

# A response at its deadline counts; and reactions at once, to one response, do not put the next one after the deadline.
_BEFORE_TIES = frozenset(
    {
        ResponsesRecorded,
        TaskFinished,
        TaskFailed,
        AttemptOpened,
        JobEnded,
        LeaseAccepted,
        LeaseReleased,
        SessionEnded,
        TurnEnded,
    }
)


def _nothing(*_: object) -> None:
    """Handle an event that has no effect of its own: a sign of life, as every frame is, or time that has passed."""


# What follows from an event, by its class: looked up, for this runs for every event.
_ON_FRAME: Mapping[type, Callable[[World, Any, Session], None]] = {
    LeaseAccepted: devices.accepted,
    TaskFinished: devices.finished,
    DeviceHeard: _nothing,
    TaskProgressed: devices.progressed,
    LeaseReleased: devices.released,
    SessionEnded: devices.session_ended,
    TaskFailed: devices.failed,
    LeaseDeclined: devices.declined,
}
_ON_EVENT: Mapping[type, Callable[[World, Any], None]] = {
    ResponsesRecorded: jobs.record_responses,
    DeviceCheckedIn: devices.check_in,
    TimePassed: _nothing,
    AttemptOpened: jobs.open_,
    JobSubmitted: jobs.submit,
    DriverFollowed: jobs.follow,
    DriverLost: jobs.lose_driver,
    JobEnded: jobs.end_job,
    DevicesDrained: devices.drain,
    CoordinatorRestarted: recovery.restart,
}


class Engine:
    """The engine of a coordinator. No call within a call. The mappings that it shows are its own: only read them."""

    def __init__(
        self, settings: EngineSettings, policy: Policy, fill: Callable[[World], None] = lambda world: None
    ) -> None:
        """``fill`` gives the world a state to begin with (``image``)."""
        self.world = World(settings, lambda kind, key: DUE_AT[kind](self.world, key))
        fill(self.world)
        self.matcher = Matcher(self.world, policy)
        self.settings = settings
        self.devices: Mapping[DeviceId, Device] = self.world.devices  # known ones, connected or not
        self.sessions: Mapping[SessionSeq, Session] = self.world.sessions  # open ones
        self.jobs: Mapping[JobId, Job] = self.world.jobs  # by arrival, ended ones included
        self.requests: Mapping[RequestId, Request] = self.world.requests  # of unfinished jobs; the last of ended ones
        self.leases: Mapping[LeaseSeq, Lease] = self.world.leases  # live ones
        self.regions: Regions = self.world.regions
        own = {TurnEnded: self._turn_ended, PolicyChanged: self._policy_changed, JournalRotated: self._rotated}
        self._on_event: Mapping[type, Callable[[World, Any], None]] = {**_ON_EVENT, **own}

    # -- the life of the engine

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle an event; returns the effects in order. ``now`` never decreases. Raises InvariantError: our bug."""
        world = self.world
        if world.started is None:
            self._start(now)
        elif now < world.now:
            raise InvariantError(f"time went back from {world.now} to {now}")
        world.now = now
        out: list[Effect] = []
        world.effects = out
        kind = event.__class__
        due = world.deadlines.soonest <= now
        on_frame = _ON_FRAME.get(kind)
        if on_frame is None:
            if due and kind is not CoordinatorRestarted:  # it puts off what fell into the time without a coordinator
                self._let_pass(inclusive=kind not in _BEFORE_TIES)
            self._on_event[kind](world, event)
            return out
        session = world.sessions.get(event.session)  # type: ignore[union-attr]  # a frame has one
        if session is None:  # a late frame of a session that is over
            if due:
                self._let_pass(inclusive=kind not in _BEFORE_TIES)
            return out
        if session.device.quiet:
            devices.heard(world, session)
        if due:
            self._let_pass(inclusive=kind not in _BEFORE_TIES)
            if session.seq not in world.sessions:
                return out
        on_frame(world, event, session)
        return out

    @property
    def unsettled(self) -> bool:
        """Whether TurnEnded is still to be handled: the plan's inputs have changed, or devices became matchable."""
        return self.world.is_unsettled()

    def is_news(self, event: DeviceHeard | TaskProgressed) -> bool:
        """Whether a sign of life would change anything. One that would not need not be handled."""
        session = self.world.sessions.get(event.session)
        return session is not None and devices.is_news(session, event)

    def next_deadline(self, until: float = math.inf) -> float | None:
        """When TimePassed is to be handled at the latest, in engine time; None before the first event.

        ``until``: one after that is of no interest, and may be None.
        """
        return self.world.deadlines.next() if self.world.deadlines.soonest <= until else None

    def set_policy(self, policy: Policy) -> None:
        """Replace the policy. It takes effect with the event PolicyChanged, which is to follow."""
        self.matcher.policy = policy

    def validate(self) -> None:
        """Check every invariant, between events. Raises InvariantError naming what does not hold. O(state)."""
        invariants.check(self.world, self.matcher)

    # -- read-only views

    @property
    def now(self) -> float:
        """Engine time of the last event, in seconds."""
        return self.world.now

    @property
    def plan(self) -> Plan:
        return self.world.plan

    @property
    def plan_number(self) -> int:
        """The number of the plan in force, from 1; 0 before the first plan."""
        return self.world.plan_number

    @property
    def supply(self) -> Supply:
        return self.world.supply

    def explain_job(self, job: JobId) -> list[str]:
        """Say why a job waits now, then its recent history, a line each. Raises KeyError."""
        known = self.world.jobs[job]
        return [*explain.job_reasons(self.world, known), *tell(known.history)]

    def explain_device(self, device: DeviceId) -> list[str]:
        """Say why a device idles now, then its recent history, a line each. Raises KeyError."""
        known = self.world.devices[device]
        return [*explain.device_reasons(self.world, self.matcher, known), *tell(known.history)]

    # -- events

    def _turn_ended(self, _: World, __: Event) -> None:
        self.matcher.settle()

    def _policy_changed(self, world: World, event: PolicyChanged) -> None:
        world.policy = event.policy
        self.matcher.lift_all()
        world.dirty = True

    def _rotated(self, _: World, __: Event) -> None:
        self.matcher = self.matcher.without_plan()

    # -- time

    def _start(self, now: float) -> None:
        world = self.world
        world.started = now
        world.supply = Supply(world.settings, now)
        world.tiers = Tiers(world.settings, now)
        world.deadlines.set(Kind.TICK, 0, world.supply.next_tick)

    def _let_pass(self, *, inclusive: bool) -> None:
        """What was due before now happens now, in the order of its times."""
        take, now = self.world.deadlines.take, self.world.now
        while (due := take(now, inclusive=inclusive)) is not None:
            kind, key = due
            ON_DUE[kind](self.world, key)
