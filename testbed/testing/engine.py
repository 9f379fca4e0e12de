"""One engine that does what a script says: a method for each thing that devices, drivers and time do to it.

Events and effects go through their JSON, as in a replay, and every invariant is checked after each event.
"""

import json
from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import TypeVar

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
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, SessionSeq
from coordinator.engine.model import (
    AttemptStatus,
    EngineSettings,
    FailureReason,
    HeldLease,
    HeldPhase,
    JobSpec,
    Outcome,
    Phase,
    SessionEnd,
    StragglerRule,
)
from coordinator.engine.plan import Policy
from coordinator.engine.record import event_from_json, text_of, texts_of
from coordinator.engine.requirements import AllDevices, Capabilities, Comparison, Requirement
from coordinator.engine.state import Device, Job, Request
from coordinator.policies.fifo import Fifo

E = TypeVar("E", bound=Effect)


def spec(name: str = "a", **changes: object) -> JobSpec:
    """The job ``me/NAME/1``: two places, open to all devices, deadline 60 s. ``changes``: fields of JobSpec."""
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


class ScriptedEngine:
    """An engine with seed 7 at time 0, and the time and the effects that it has reached.

    ``policy``: fifo unless given. ``settings``: fields of EngineSettings. Any method raises InvariantError when an
    invariant does not hold after its events, and PlanError when the policy returns a plan with a flaw.
    """

    def __init__(self, policy: Policy | None = None, **settings: object) -> None:
        policy = policy or Fifo()
        self.engine = Engine(EngineSettings(seed=7, policy=policy.name, **settings), policy)  # type: ignore[arg-type]
        self.now = 0.0  # engine seconds
        self.effects: list[Effect] = []  # of the last event
        self.all: list[Effect] = []  # since the start
        self.journal: list[tuple[float, str, str]] = []  # time, event and effects as JSON
        self._session = 0

    # -- time and events

    def handle(self, event: Event) -> list[Effect]:
        """Handle an event in a turn of its own. Returns its effects and those of the turn's end."""
        return self.turn(event)

    def turn(self, *events: Event) -> list[Effect]:
        """Handle several events in one turn. Returns their effects and those of the turn's end."""
        self.effects = [effect for event in events for effect in self._hear(event)]
        if self.engine.unsettled:
            self.effects += self._hear(TurnEnded())
        return self.effects

    def _hear(self, event: Event) -> list[Effect]:
        """Handle an event through the record, as a replay would."""
        text = text_of(event)
        event = event_from_json(json.loads(text))
        effects = self.engine.handle(event, self.now)
        self.engine.validate()
        self.all.extend(effects)
        self.journal.append((self.now, text, texts_of(effects)))
        return effects

    def wait(self, seconds: float) -> list[Effect]:
        """Let time pass in s, and handle what becomes due when it does. Returns all effects."""
        until, effects = self.now + seconds, []
        while (due := self.engine.next_deadline()) is not None and due <= until:
            self.now = max(due, self.now)
            effects.extend(self.handle(TimePassed()))
        self.now = until
        effects.extend(self.handle(TimePassed()))
        self.effects = effects
        return effects

    def beat(self, seconds: int) -> list[Effect]:
        """Let whole seconds pass, with a heartbeat of every connected device each second. Returns all effects."""
        effects: list[Effect] = []
        for _ in range(seconds):
            effects += self.wait(1.0)
            for session in list(self.engine.sessions):
                effects += self.handle(DeviceHeard(session))
        self.effects = effects
        return effects

    def got(self, kind: type[E]) -> list[E]:
        """The effects of this kind, of the last call."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def one(self, kind: type[E]) -> E:
        """The only effect of this kind, of the last call. Raises ValueError if there are none or several."""
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
        """Open a session of a device with these capabilities. The other arguments are fields of DeviceCheckedIn."""
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
        """The engine's own record of a device."""
        return self.engine.devices[DeviceId(name)]

    def session(self, name: str) -> SessionSeq:
        """The open session of a device."""
        session = self.device(name).session
        assert session is not None
        return session.seq

    def lease(self, name: str) -> LeaseSeq:
        """The lease that a device has in hand."""
        lease = self.device(name).lease
        assert lease is not None
        return lease.seq

    def offer(self, name: str, **check_in: object) -> LeaseSeq:
        """Check in, and be offered a lease at once. Returns the lease."""
        self.check_in(name, **check_in)  # type: ignore[arg-type]
        return self.one(OfferLease).lease

    def run(self, name: str, **check_in: object) -> LeaseSeq:
        """Check in, be offered a lease and accept it. Returns the lease."""
        lease = self.offer(name, **check_in)
        self.accept(name)
        return lease

    def accept(self, name: str) -> list[Effect]:
        """A device accepts the lease that it was offered."""
        return self.handle(LeaseAccepted(self.session(name), self.lease(name)))

    def finish(self, name: str, lease: LeaseSeq | None = None, outcome: Outcome = Outcome.COUNTED) -> list[Effect]:
        """A device says how its response was received; ``lease``: the one in hand unless given."""
        return self.handle(TaskFinished(self.session(name), lease or self.lease(name), outcome))

    def fail(
        self, name: str, reason: FailureReason = FailureReason.TASK_CRASHED, lease: LeaseSeq | None = None
    ) -> list[Effect]:
        """A task fails on its device; ``lease``: the one in hand unless given."""
        seq = lease or self.lease(name)
        return self.handle(TaskFailed(self.session(name), seq, Phase.ON_DEVICE, reason, "ValueError: no"))

    def release(self, name: str, lease: LeaseSeq) -> list[Effect]:
        """A device gives a revoked lease back."""
        return self.handle(LeaseReleased(self.session(name), lease))

    def leave(self, name: str, reason: SessionEnd = SessionEnd.CONNECTION_ENDED) -> list[Effect]:
        """The open session of a device ends."""
        return self.handle(SessionEnded(self.session(name), reason))

    # -- jobs

    def job(self, name: str = "a", **changes: object) -> Job:
        """A job that is submitted and followed by its driver, without an attempt. ``changes``: fields of JobSpec."""
        one = spec(name, **changes)
        self.handle(JobSubmitted(one, 1))
        self.handle(DriverFollowed(one.job, 1))
        return self.engine.jobs[one.job]

    def open(self, job: Job, round_: int = 1, attempt: int = 1, rounds_left: int | None = None) -> Request:
        """The driver of a job opens an attempt, which must stand. Returns its request."""
        self.handle(AttemptOpened(job.id, job.incarnation, round_, attempt, rounds_left))
        request = job.attempts[round_, attempt]
        assert request.status is AttemptStatus.OPEN
        return request

    def request(self, name: str = "a", **changes: object) -> Request:
        """The request of a new job with its first attempt open. ``changes``: fields of JobSpec."""
        return self.open(self.job(name, **changes))

    def record(self, request: Request, *leases: int, outcome: Outcome = Outcome.COUNTED) -> list[Effect]:
        """The driver of a request says that it has decided about the responses of these leases."""
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
    """The fields of JobSpec that say which devices a job asks for."""
    return {"requirement": requirement, "requirement_name": name}


def random_script(seed: int, policy: Policy | None = None, *, steps: int = 400) -> ScriptedEngine:
    """Three jobs and twelve devices that come, go, fail and answer, drawn from a seed; a few events in a step."""
    rng, play = Random(seed), ScriptedEngine(policy, supply_window_s=100.0, supply_buckets=10)
    play.request("any", demand=4, min_response=Fraction(1, 2), over_commit=Fraction(1, 4), deadline_s=30.0)
    play.request("roomy", demand=3, deadline_s=25.0, **needs(Comparison("memory", ">=", 4.0), "roomy"))
    play.request("fast", demand=3, deadline_s=25.0, **needs(Comparison("cpu", ">", 2.5), "fast"))
    for _ in range(steps):
        play.wait(rng.random())
        name = f"d{rng.randrange(12)}"
        known = play.engine.devices.get(DeviceId(name))
        if known is None or known.session is None:
            held = () if known is None or known.lease is None else (HeldLease(known.lease.seq, HeldPhase.WORKING),)
            kind = int(name[1:])
            play.check_in(
                name,
                interval=rng.randrange(3),
                numbers={"memory": float(kind % 5), "cpu": float(kind % 4)},
                labels={"data": frozenset({"x", "y", f"z{kind}"})},
                held=held,
                per_session=rng.randrange(4),
            )
        elif known.lease is None or rng.random() < 0.1:
            play.leave(name, SessionEnd.CONNECTION_ENDED)
        elif rng.random() < 0.1:
            play.accept(name)
            play.fail(name)
        else:
            lease, request = known.lease.seq, known.lease.request
            play.accept(name)
            play.record(request, lease, outcome=Outcome.COUNTED if request.open else Outcome.STRAGGLER)
            play.finish(name, lease)
        for job in play.engine.jobs.values():
            if job.request is None and job.latest is not None:
                closed = job.latest.status is AttemptStatus.CLOSED
                play.open(job, job.latest.round + closed, 1 if closed else job.latest.attempt + 1, rounds_left=5)
    return play
