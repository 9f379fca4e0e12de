"""An engine under random events: what is sent to it, what it says, and what must hold after each event."""

import json
from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from coordinator.engine.counts import device_counts, device_line, job_counts, lease_counts, region_counts
from coordinator.engine.effects import AcceptAttempt, Effect, EndAttempt, EndLease, OfferLease, OpenSession
from coordinator.engine.engine import Engine
from coordinator.engine.events import (
    Event,
    PolicyChanged,
    ResponsesRecorded,
    TimePassed,
    TurnEnded,
)
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import (
    Asynchronous,
    AttemptStatus,
    EngineSettings,
    FailureReason,
    HeldLease,
    HeldPhase,
    JobSpec,
    LeaseEnd,
    Outcome,
    Repeat,
    StragglerRule,
)
from coordinator.engine.plan import Policy
from coordinator.engine.record import event_from_json, text_of, texts_of
from coordinator.engine.requirements import AllDevices, Any, Capabilities, Comparison, Every, Ids, Not
from coordinator.engine.state import Request
from coordinator.policies.fifo import Fifo
from tests.unit.engine.snapshot import snapshot
from tests.unit.engine.tiny import Standing, Tiered, Uniform

SETTINGS = EngineSettings(
    seed=3,
    policy="tiny-fifo",
    supply_window_s=40.0,
    supply_buckets=8,
    most_regions=3,
    most_sessions=5,
    most_devices=7,
    most_device_bytes=2_500,
    most_jobs=3,
    most_attempts=2,
    most_over=1,
    crashes_to_pause=2,
    no_work_patience_s=5.0,
)
ROOMY, FAST = Comparison("memory", ">=", 4.0), Comparison("cpu", ">", 6.0)
REQUIREMENTS = [
    AllDevices(),
    ROOMY,
    Every((ROOMY, FAST)),
    Any((Not(ROOMY), FAST)),
    Ids((DeviceId("d1"), DeviceId("d4"))),
    Comparison("site", "=", "lab"),
    Comparison("cpu", "<=", 3.0),
]
CAPABILITIES = [
    Capabilities({"memory": memory, "cpu": cpu}, labels)
    for memory, cpu in ((2.0, 1.0), (4.0, 5.0), (8.0, 9.0), (2.0, 9.0))
    for labels in ({}, {"site": frozenset({"lab", "home"})})
]
DEVICES = [DeviceId(f"d{number}") for number in range(9)]
JOBS = [JobId(f"me/{name}/1") for name in "abcd"]
SCORES = st.sampled_from([0.0, 0.2, 1.0, 1.0, 5.0])
POLICIES: dict[str, type[Policy]] = {one.name: one for one in (Fifo, Uniform, Tiered, Standing)}
leases = st.integers(1, 60).map(LeaseSeq)
recent = st.integers(0, 6)  # so many back from the newest
outcomes = st.sampled_from(list(Outcome))
reasons = st.sampled_from(list(FailureReason))
held = st.builds(
    HeldLease,
    leases,
    st.sampled_from(list(HeldPhase)),
    st.one_of(st.none(), outcomes),
    st.one_of(st.none(), reasons),
    st.just("gone wrong"),
)
synchronous = st.builds(
    JobSpec,
    job=st.sampled_from(JOBS),
    requirement=st.sampled_from(REQUIREMENTS),
    requirement_name=st.just("some"),
    rounds=st.just(None),
    demand=st.sampled_from([1, 1, 2, 4]),
    min_response=st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(4, 5)]),
    over_commit=st.sampled_from([Fraction(0), Fraction(1, 2)]),
    deadline_s=st.sampled_from([5.0, 30.0]),
    lease_s=st.sampled_from([4.0, 20.0, 60.0]),
    stragglers=st.sampled_from(list(StragglerRule)),
    repeat=st.sampled_from([Repeat.ONCE, Repeat.ONCE, Repeat.ALLOW]),
)
asynchronous = st.builds(Asynchronous, st.sampled_from([1, 2, 3]), st.sampled_from([None, 0, 2]))
specs = st.one_of(
    synchronous,
    st.builds(lambda spec, part: replace(spec, over_commit=Fraction(0), asynchronous=part), synchronous, asynchronous),
)


class RandomEngine(RuleBasedStateMachine):
    """The engine, the journal of what it did, and an honest driver for its jobs.

    ``testbed.testing.engine`` is not used: its methods expect their events to stand.
    """

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(SETTINGS, Fifo())
        self.policy_name = Fifo.name
        self.now = 0.0
        self.session = 0
        self.journal: list[tuple[float, str, str]] = []
        self.last: Event = TimePassed()
        self.counted: dict[tuple[RequestId, int], set[LeaseSeq]] = {}  # acknowledged by drivers, by request and round
        self.said: dict[LeaseSeq, Outcome] = {}  # the driver's first word on each lease
        self.granted: dict[LeaseSeq, tuple[RequestId, JobId]] = {}
        self.ends: dict[LeaseSeq, LeaseEnd] = {}
        self.outcomes: dict[RequestId, AttemptStatus] = {}

    def handle(self, event: Event) -> list[Effect]:
        self.last = event
        effects = self.engine.handle(event, self.now)
        text = text_of(event)
        assert event_from_json(json.loads(text)) == event
        self.journal.append((self.now, text, texts_of(effects)))
        for effect in effects:
            self.watch(effect)
        if self.engine.unsettled and len(self.journal) % 4:  # else the turn goes on
            effects += self.handle(TurnEnded())
        return effects

    def watch(self, effect: Effect) -> None:
        """What must hold over the whole history."""
        match effect:
            case OfferLease():
                assert effect.lease not in self.granted
                self.granted[effect.lease] = (effect.request, effect.job)
                assert effect.request not in self.outcomes or self.outcomes[effect.request] is AttemptStatus.OPEN
            case EndLease():
                before = self.ends.get(effect.lease)
                assert before is None or (effect.reason is LeaseEnd.COUNTED and before is not LeaseEnd.COUNTED)
                self.ends[effect.lease] = effect.reason
            case AcceptAttempt() if effect.request not in self.outcomes:
                self.outcomes[effect.request] = AttemptStatus.OPEN
            case EndAttempt():
                assert self.outcomes[effect.request] is AttemptStatus.OPEN
                request = self.engine.world.requests.get(effect.request)
                goes_on = request is not None and request.asynchronous and request.open
                self.outcomes[effect.request] = AttemptStatus.OPEN if goes_on else effect.status
                enough = request is None or effect.responses >= request.needed
                assert effect.status is not AttemptStatus.CLOSED or enough
            case OpenSession():
                assert self.engine.devices[effect.device].last_session >= effect.session
            case _:
                pass

    def some_session(self, back: int) -> SessionSeq:
        return SessionSeq(max(self.session - back, 0))

    def newest(self, back: int) -> LeaseSeq:
        return LeaseSeq(max(self.engine.world.leases_granted - back, 1))

    def incarnation(self, job: JobId, off: int) -> int:
        known = self.engine.jobs.get(job)
        return max((known.incarnation if known else 5) + off, 0)

    def tell(self, request: Request, wishes: list[tuple[LeaseSeq, Outcome]], off: int = 0) -> None:
        """An honest driver: COUNTED for the first K distinct leases of its round, STRAGGLER after; each once, and each
        device once a round unless its job allows more.
        """
        round_, attempt = request.round, request.attempt
        counted, words = self.counted.setdefault((request.id, round_), set()), []
        for seq, wish in wishes:
            word = wish
            if off == 0 and seq in request.leases:
                devices = {request.leases[one].device for one in counted if one in request.leases}
                full = wish is Outcome.COUNTED and len(counted) >= request.needed
                full = full or (request.once and request.leases[seq].device in devices)
                new = seq not in self.said
                word = self.said.setdefault(seq, Outcome.STRAGGLER if full else wish)
                if new and word is Outcome.COUNTED:
                    counted.add(seq)
            words.append((seq, word))
        incarnation = max(request.job.incarnation + off, 0)
        self.handle(ResponsesRecorded(request.job.id, incarnation, round_, attempt, tuple(words)))

    # -- what must hold

    @invariant()
    def holds(self) -> None:
        self.engine.validate()

    @invariant()
    def adds_up(self) -> None:
        leases_, devices = lease_counts(self.engine), device_counts(self.engine)
        assert leases_.granted == sum(getattr(leases_, name) for name in leases_.__slots__ if name != "granted")
        assert leases_.granted == len(self.granted) == len(self.ends) + leases_.live
        assert (
            devices.known == devices.waiting + devices.busy + devices.served + devices.gone == len(self.engine.devices)
        )
        regions, more = region_counts(self.engine)
        assert more == 0
        assert region_counts(self.engine, 1) == (regions[:1], max(0, len(regions) - 1))
        assert sum(region.devices for region in regions) == devices.known
        assert sum(region.waiting for region in regions) == devices.waiting
        for job in job_counts(self.engine):
            assert job.leased <= job.places
            self.engine.explain_job(job.job)
        for device in self.engine.devices.values():
            assert device_line(self.engine, device).state != "waiting" or self.engine.explain_device(device.id)

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        """An acknowledged response is in its closed round, or in an attempt that is open or was aborted."""
        for request in self.engine.requests.values():
            acknowledged = self.counted.get((request.id, request.round), set())
            if request.status is not AttemptStatus.ABORTED:
                assert request.responses == len(acknowledged)
            for round_ in range(1, request.round):
                assert len(self.counted.get((request.id, round_), range(request.needed))) == request.needed
            if not request.purged:
                assert all(self.ends[seq] is LeaseEnd.COUNTED for seq in acknowledged)

    def teardown(self) -> None:
        """The state can be rebuilt from the recorded events, with the same effects."""
        again = Engine(SETTINGS, Fifo())
        for now, event_text, effects_text in self.journal:
            event = event_from_json(json.loads(event_text))
            if isinstance(event, PolicyChanged):
                again.set_policy(POLICIES[event.policy]())
            effects = again.handle(event, now)
            assert texts_of(effects) == effects_text
        assert snapshot(again) == snapshot(self.engine)
