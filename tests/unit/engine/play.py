"""A scripted world around one engine: short words for events, and the invariants checked after each."""

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from coordinator.engine.chance import Purpose, draw, index
from coordinator.engine.effects import Effect, OfferLease
from coordinator.engine.engine import Engine
from coordinator.engine.events import (
    AttemptOpened,
    DeviceCheckedIn,
    DeviceHeard,
    DriverFollowed,
    Event,
    JobSubmitted,
    LeaseAccepted,
    LeaseReleased,
    ResponsesRecorded,
    SessionEnded,
    TaskFailed,
    TaskFinished,
    TimePassed,
    TurnEnded,
)
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RegionId, RequestId, SessionSeq
from coordinator.engine.model import (
    AttemptStatus,
    EngineSettings,
    FailureReason,
    HeldLease,
    JobSpec,
    Outcome,
    Phase,
    SessionEnd,
    StragglerRule,
)
from coordinator.engine.plan import ANY_TIER, UNDECIDED, Mode, Plan, Policy, View
from coordinator.engine.record import effect_to_json, event_from_json, event_to_json
from coordinator.engine.requirements import AllDevices, Capabilities, Requirement
from coordinator.engine.state import Device, Job, Request

E = TypeVar("E", bound=Effect)


class Fifo:
    """By job arrival; one queue for all."""

    name = "tiny-fifo"

    def plan(self, view: View) -> Plan:
        return Plan(queues=(tuple(request.request for request in view.requests),))


class Tiered:
    """By job arrival. A request is for one tier, or all, by chance; 3 s before its deadline at the latest for all."""

    name = "tiny-tiered"

    def plan(self, view: View) -> Plan:
        tiers: dict[RequestId, int] = {}
        for request in view.requests:
            if request.tier == UNDECIDED:
                drawn = index(draw(view.seed, Purpose.TIER, request.request), view.tiers + 1)
                endless = request.deadline_at == math.inf
                tiers[request.request] = ANY_TIER if endless or drawn == view.tiers else drawn
            elif request.tier >= 0 and view.now >= request.deadline_at - 3.0:
                tiers[request.request] = ANY_TIER
        queue = tuple(request.request for request in view.requests)
        mode = Mode.UNIFORM if view.plan_number % 7 == 0 else Mode.ORDERED
        return Plan((queue,), mode=mode, tiers=tiers, review_at=view.now + 5.0 if queue else None)


class Uniform:
    """Any of them."""

    name = "tiny-uniform"

    def plan(self, view: View) -> Plan:
        return Plan(queues=(tuple(request.request for request in view.requests),), mode=Mode.UNIFORM)


class Standing:
    """A queue for each group, by job arrival, and the very same objects for whatever is as in a plan before."""

    name = "tiny-standing"

    def __init__(self) -> None:
        self.queues: dict[tuple[RequestId, ...], tuple[RequestId, ...]] = {}
        self.owners: dict[tuple[tuple[RegionId, int], ...], dict[RegionId, int]] = {}

    def plan(self, view: View) -> Plan:
        queues = [tuple(one.request for one in view.requests if one.group == each.group) for each in view.groups]
        owners = {region: number for number, group in enumerate(view.groups) for region in group.regions}
        return Plan(
            queues=tuple(self.queues.setdefault(queue, queue) for queue in queues),
            owner=self.owners.setdefault(tuple(owners.items()), owners),
            mode=Mode.UNIFORM if view.plan_number % 11 == 0 else Mode.ORDERED,
        )


def spec(name: str = "a", **changes: object) -> JobSpec:
    values: dict[str, object] = {
        "job": JobId(f"me/{name}/1"),
        "requirement": AllDevices(),
        "requirement_name": "any",
        "rounds": None,
        "demand": 2,
        "min_response": Fraction(1),
        "over_commit": Fraction(0),
        "deadline_s": 60.0,
        "lease_s": 40.0,
        "stragglers": StragglerRule.FINISH,
    }
    return JobSpec(**(values | changes))  # type: ignore[arg-type]


class Play:
    def __init__(self, policy: Policy | None = None, **settings: object) -> None:
        self.engine = Engine(EngineSettings(seed=7, policy="test", **settings), policy or Fifo())  # type: ignore[arg-type]
        self.now = 0.0
        self.effects: list[Effect] = []  # of the last event
        self.all: list[Effect] = []
        self.journal: list[tuple[float, str, str]] = []  # time, event and effects as JSON
        self._session = 0

    # -- time and events

    def handle(self, event: Event) -> list[Effect]:
        """In a turn of its own."""
        return self.turn(event)

    def turn(self, *events: Event) -> list[Effect]:
        """Several events at once."""
        self.effects = [effect for event in events for effect in self._hear(event)]
        if self.engine.unsettled:
            self.effects += self._hear(TurnEnded())
        return self.effects

    def _hear(self, event: Event) -> list[Effect]:
        """Through the record, as a replay would."""
        text = json.dumps(event_to_json(event))
        event = event_from_json(json.loads(text))
        effects = self.engine.handle(event, self.now)
        self.engine.validate()
        self.all.extend(effects)
        self.journal.append((self.now, text, json.dumps([effect_to_json(effect) for effect in effects])))
        return effects

    def wait(self, seconds: float) -> list[Effect]:
        """Let time pass, handling what becomes due when it does. Returns all effects."""
        until, effects = self.now + seconds, []
        while (due := self.engine.next_deadline()) is not None and due <= until:
            self.now = max(due, self.now)
            effects.extend(self.handle(TimePassed()))
        self.now = until
        effects.extend(self.handle(TimePassed()))
        self.effects = effects
        return effects

    def beat(self, seconds: int) -> list[Effect]:
        """The same, with a heartbeat of every connected device each second."""
        effects: list[Effect] = []
        for _ in range(seconds):
            effects += self.wait(1.0)
            for session in list(self.engine.sessions):
                effects += self.handle(DeviceHeard(session))
        self.effects = effects
        return effects

    def got(self, kind: type[E]) -> list[E]:
        """The effects of this kind among the last."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def one(self, kind: type[E]) -> E:
        (effect,) = self.got(kind)
        return effect

    # -- devices

    def check_in(
        self,
        name: str,
        *,
        instance: str = "i",
        interval: int = 1,
        numbers: Mapping[str, float] | None = None,
        labels: Mapping[str, frozenset[str]] | None = None,
        held: tuple[HeldLease, ...] = (),
        foreign: tuple[int, ...] = (),
        per_session: int = 0,
        per_day: int = 0,
        reference_s: float = 0.0,
    ) -> SessionSeq:
        self._session += 1
        session = SessionSeq(self._session)
        self.handle(
            DeviceCheckedIn(
                session,
                DeviceId(name),
                instance,
                interval,
                Capabilities(dict(numbers or {}), dict(labels or {})),
                held,
                tuple(LeaseSeq(seq) for seq in foreign),
                per_session,
                per_day,
                reference_s,
            )
        )
        return session

    def device(self, name: str) -> Device:
        return self.engine.devices[DeviceId(name)]

    def session(self, name: str) -> SessionSeq:
        session = self.device(name).session
        assert session is not None
        return session.seq

    def lease(self, name: str) -> LeaseSeq:
        """That the device has in hand."""
        lease = self.device(name).lease
        assert lease is not None
        return lease.seq

    def offer(self, name: str, **check_in: object) -> LeaseSeq:
        """Check in, and be offered a lease at once."""
        self.check_in(name, **check_in)  # type: ignore[arg-type]
        return self.one(OfferLease).lease

    def run(self, name: str, **check_in: object) -> LeaseSeq:
        """Check in, be offered a lease, accept it."""
        lease = self.offer(name, **check_in)
        self.accept(name)
        return lease

    def accept(self, name: str) -> list[Effect]:
        return self.handle(LeaseAccepted(self.session(name), self.lease(name)))

    def finish(self, name: str, lease: LeaseSeq | None = None, outcome: Outcome = Outcome.COUNTED) -> list[Effect]:
        return self.handle(TaskFinished(self.session(name), lease or self.lease(name), outcome))

    def fail(
        self, name: str, reason: FailureReason = FailureReason.TASK_CRASHED, lease: LeaseSeq | None = None
    ) -> list[Effect]:
        seq = lease or self.lease(name)
        return self.handle(TaskFailed(self.session(name), seq, Phase.ON_DEVICE, reason, "ValueError: no"))

    def release(self, name: str, lease: LeaseSeq) -> list[Effect]:
        return self.handle(LeaseReleased(self.session(name), lease))

    def leave(self, name: str, reason: SessionEnd = SessionEnd.CONNECTION_ENDED) -> list[Effect]:
        return self.handle(SessionEnded(self.session(name), reason))

    # -- jobs

    def job(self, name: str = "a", **changes: object) -> Job:
        """Submitted and followed; no attempt yet."""
        one = spec(name, **changes)
        self.handle(JobSubmitted(one, 1))
        self.handle(DriverFollowed(one.job, 1))
        return self.engine.jobs[one.job]

    def open(self, job: Job, round_: int = 1, attempt: int = 1, rounds_left: int | None = None) -> Request:
        self.handle(AttemptOpened(job.id, job.incarnation, round_, attempt, rounds_left))
        request = job.attempts[round_, attempt]
        assert request.status is AttemptStatus.OPEN
        return request

    def request(self, name: str = "a", **changes: object) -> Request:
        """A job with its first attempt open."""
        return self.open(self.job(name, **changes))

    def record(self, request: Request, *leases: int, outcome: Outcome = Outcome.COUNTED) -> list[Effect]:
        return self.handle(
            ResponsesRecorded(
                request.job.id,
                request.job.incarnation,
                request.round,
                request.attempt,
                tuple((LeaseSeq(seq), outcome) for seq in leases),
            )
        )


def needs(requirement: Requirement, name: str) -> dict[str, object]:
    return {"requirement": requirement, "requirement_name": name}


def ids(requests: list[Request]) -> list[RequestId]:
    return [request.id for request in requests]
