"""Random worlds: check-ins, losses, duplicates, late and out-of-order messages; the invariants hold after each one."""

import json

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

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
)
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, SessionSeq
from coordinator.engine.image import engine_of, image_of
from coordinator.engine.lifecycle import LeaseState
from coordinator.engine.model import (
    AttemptStatus,
    FailureReason,
    HeldLease,
    HeldPhase,
    JobEnd,
    JobSpec,
    Outcome,
    Phase,
    SessionEnd,
)
from coordinator.engine.record import text_of, texts_of
from coordinator.engine.requirements import Capabilities
from coordinator.engine.state import Job
from tests.property.random_engine import (
    CAPABILITIES,
    DEVICES,
    JOBS,
    POLICIES,
    SCORES,
    SETTINGS,
    RandomEngine,
    held,
    leases,
    outcomes,
    reasons,
    recent,
    specs,
)
from tests.unit.engine.snapshot import snapshot
from tests.unit.engine.tiny import Tiered


class World(RandomEngine):
    """Most events are about something that exists; the others are stale, doubled, or were never true."""

    @initialize(specs=st.lists(specs, min_size=2, max_size=3, unique_by=lambda spec: spec.job), data=st.data())
    def begin(self, specs: list[JobSpec], data: st.DataObject) -> None:
        """A world in which something can happen."""
        for spec in specs:
            self.handle(JobSubmitted(spec, 5))
            self.handle(DriverFollowed(spec.job, 5))
            self.handle(AttemptOpened(spec.job, 5, 1, 1, 3))
        for device in DEVICES[:4]:
            self.session += 1
            capabilities, score = data.draw(st.sampled_from(CAPABILITIES)), data.draw(SCORES)
            event = DeviceCheckedIn(SessionSeq(self.session), device, "i", 1, capabilities, reference_s=score)
            self.handle(event)
        if data.draw(st.booleans()):
            self.policy(Tiered.name)

    # -- devices

    @rule(
        device=st.sampled_from(DEVICES),
        instance=st.sampled_from(["i", "i", "i", "j"]),
        interval=st.integers(1, 9),
        capabilities=st.sampled_from(CAPABILITIES),
        back=st.lists(st.tuples(recent, held), max_size=2),
        honest=st.booleans(),
        per_session=st.sampled_from([0, 0, 0, 1, 2]),
        per_day=st.sampled_from([0, 0, 0, 3]),
        reference_s=SCORES,
    )
    def check_in(
        self,
        device: DeviceId,
        instance: str,
        interval: int,
        capabilities: Capabilities,
        back: list[tuple[int, HeldLease]],
        honest: bool,
        per_session: int,
        per_day: int,
        reference_s: float,
    ) -> None:
        self.session += 1
        named = tuple(one for _, one in back)
        known = self.engine.devices.get(device)
        if honest:  # it names what it has
            lease = known.lease if known is not None else None
            named = tuple(
                HeldLease(lease.seq, one.phase, one.outcome, one.failure) for _, one in back[:1] if lease is not None
            )
        foreign = tuple(LeaseSeq(90 + number) for number, _ in back[1:])
        self.handle(
            DeviceCheckedIn(
                SessionSeq(self.session),
                device,
                instance,
                interval,
                capabilities,
                named,
                foreign,
                per_session,
                per_day,
                reference_s,
            )
        )

    @rule(back=recent)
    def heartbeat(self, back: int) -> None:
        self.handle(DeviceHeard(self.some_session(back)))

    @rule()
    def all_beat(self) -> None:
        for session in list(self.engine.sessions):
            self.handle(DeviceHeard(session))

    @rule()
    def all_accept(self) -> None:
        for lease in list(self.engine.leases.values()):
            self.handle(LeaseAccepted(lease.session, lease.seq))

    @precondition(lambda self: self.engine.leases)
    @rule(back=recent, first=st.integers(0, 2), outcome=outcomes, finishes=st.booleans())
    def respond(self, back: int, first: int, outcome: Outcome, finishes: bool) -> None:
        """A lease as it should go, its three messages in any order."""
        live = list(self.engine.leases.values())
        lease = live[-1 - back % len(live)]
        steps = [
            lambda: self.handle(LeaseAccepted(lease.session, lease.seq)),
            lambda: self.tell(lease.request, [(lease.seq, outcome)]),
            lambda: self.handle(TaskFinished(lease.session, lease.seq, outcome)),
        ]
        for number in range(3 if finishes else 2):
            steps[(first + number) % 3]()

    @precondition(lambda self: self.engine.leases)
    @rule(back=recent, outcome=outcomes)
    def answer(self, back: int, outcome: Outcome) -> None:
        """A live lease, by its own device: accepted or finished."""
        live = list(self.engine.leases.values())
        lease = live[-1 - back % len(live)]
        self.handle(LeaseAccepted(lease.session, lease.seq))
        self.handle(TaskFinished(lease.session, lease.seq, outcome))

    @precondition(lambda self: self.granted)
    @rule(kind=st.integers(0, 5), session=recent, lease=recent, reason=reasons, retry=st.sampled_from([0.0, 3.0, 1e9]))
    def any_frame(self, kind: int, session: int, lease: int, reason: FailureReason, retry: float) -> None:
        """About a lease by a session that may have nothing to do with it."""
        who, what = self.some_session(session), self.newest(lease)
        events: list[Event] = [
            LeaseAccepted(who, what),
            TaskProgressed(who, what, 0.5),
            LeaseReleased(who, what),
            LeaseDeclined(who, what, reason, retry),
            TaskFailed(who, what, Phase.ON_DEVICE, reason, "Error: no"),
            TaskFinished(who, what, Outcome.COUNTED),
        ]
        self.handle(events[kind])

    @precondition(lambda self: any(one.device.lease or one.device.stopping for one in self.engine.sessions.values()))
    @rule(kind=st.integers(0, 4), back=recent, reason=reasons)
    def own_frame(self, kind: int, back: int, reason: FailureReason) -> None:
        """About a device's own lease, or one that it was told to stop."""
        sessions = [one for one in self.engine.sessions.values() if one.device.lease or one.device.stopping]
        session = sessions[back % len(sessions)]
        device = session.device
        seq = device.lease.seq if device.lease else next(iter(device.stopping))
        events: list[Event] = [
            TaskProgressed(session.seq, seq, 0.1),
            LeaseReleased(session.seq, seq),
            LeaseDeclined(session.seq, seq, reason, 2.0),
            TaskFailed(session.seq, seq, Phase.SUBMIT, reason, "Error: no"),
            TaskFinished(session.seq, seq, Outcome.STRAGGLER),
        ]
        self.handle(events[kind])

    @rule(back=recent, reason=st.sampled_from([SessionEnd.CONNECTION_ENDED, SessionEnd.GOODBYE_SESSION_OVER]))
    def session_ends(self, back: int, reason: SessionEnd) -> None:
        self.handle(SessionEnded(self.some_session(back), reason))

    @precondition(lambda self: any(one.state is LeaseState.RUNNING for one in self.engine.leases.values()))
    @rule(
        back=recent,
        other=st.sampled_from(DEVICES),
        capabilities=st.sampled_from(CAPABILITIES),
        phase=st.sampled_from(HeldPhase),
    )
    def vanish_and_return(self, back: int, other: DeviceId, capabilities: Capabilities, phase: HeldPhase) -> None:
        """A device is away for a moment, in which another may take its place."""
        running = [one for one in self.engine.leases.values() if one.state is LeaseState.RUNNING]
        lease = running[back % len(running)]
        device = lease.device
        self.handle(SessionEnded(lease.session, SessionEnd.CONNECTION_ENDED))
        for name, held_ in ((other, ()), (device.id, (HeldLease(lease.seq, phase, Outcome.COUNTED),))):
            self.session += 1
            known = self.engine.devices.get(name)
            instance, interval = (known.instance, known.interval) if known else ("i", 1)
            having = capabilities if name == other else device.capabilities
            self.handle(DeviceCheckedIn(SessionSeq(self.session), name, instance, interval, having, held_))

    # -- jobs

    @rule(spec=specs, off=st.integers(-1, 1))
    def submit(self, spec: JobSpec, off: int) -> None:
        known = self.engine.jobs.get(spec.job)
        if known is not None and off:
            spec = known.spec
        self.handle(JobSubmitted(spec, self.incarnation(spec.job, off)))
        self.handle(DriverFollowed(spec.job, self.incarnation(spec.job, 0)))

    @rule(job=st.sampled_from(JOBS), off=st.sampled_from([0, 0, -1, 1]), up=st.booleans())
    def driver(self, job: JobId, off: int, up: bool) -> None:
        incarnation = self.incarnation(job, off)
        self.handle(DriverFollowed(job, incarnation) if up else DriverLost(job, incarnation))

    @precondition(lambda self: self.engine.jobs)
    @rule(
        back=recent, off=st.sampled_from([0, 0, 0, 0, -1, 1]), skip=st.sampled_from([0, 0, 0, 1]), again=st.booleans()
    )
    def open_attempt(self, back: int, off: int, skip: int, again: bool) -> None:
        """Mostly as it should be: the next one, if none is open."""
        jobs = [job for job in self.engine.jobs.values() if not job.ended and _waits_for_its_driver(job)]
        if again or not jobs:
            jobs = list(self.engine.jobs.values())
        job = jobs[back % len(jobs)]
        round_, attempt = 1, 1 + skip
        if job.latest is not None:
            closed = job.latest.status is AttemptStatus.CLOSED
            round_, attempt = job.latest.round, job.latest.attempt
            if job.request is None or not (again or job.request.asynchronous):
                round_, attempt = (round_ + 1 + skip, 1) if closed else (round_, attempt + 1 + skip)
        known = job.attempts.get((round_, attempt))
        left = known.left_from(round_) if known is not None else 3
        self.handle(AttemptOpened(job.id, self.incarnation(job.id, off), round_, attempt, left))

    @precondition(lambda self: self.granted)
    @rule(
        back=recent,
        many=st.lists(
            st.tuples(recent, st.sampled_from([Outcome.COUNTED, Outcome.COUNTED, *Outcome])), min_size=1, max_size=4
        ),
        off=st.sampled_from([0, 0, 0, -1]),
    )
    def record(self, back: int, many: list[tuple[int, Outcome]], off: int) -> None:
        """About any leases of an attempt, live or not."""
        served = [request for request in self.engine.requests.values() if request.leases]
        if not served:
            return
        request = served[-1 - back % len(served)]
        mine = [seq for seq, (id_, _) in self.granted.items() if id_ == request.id]
        self.tell(request, [(mine[-1 - number % len(mine)], outcome) for number, outcome in many], off)

    @precondition(lambda self: self.engine.requests)
    @rule(back=recent, many=st.lists(st.tuples(leases, outcomes), min_size=1, max_size=3))
    def record_nonsense(self, back: int, many: list[tuple[LeaseSeq, Outcome]]) -> None:
        """Leases that are not of the attempt."""
        requests = list(self.engine.requests.values())
        request = requests[back % len(requests)]
        foreign = tuple((seq, word) for seq, word in many if self.granted.get(seq, (0,))[0] != request.id)
        job = request.job
        self.handle(ResponsesRecorded(job.id, job.incarnation, request.round, request.attempt, foreign))

    @rule(job=st.sampled_from(JOBS), end=st.sampled_from(list(JobEnd)), rarely=st.integers(0, 3))
    def end_job(self, job: JobId, end: JobEnd, rarely: int) -> None:
        if rarely == 0:
            self.handle(JobEnded(job, end, "enough"))

    # -- the coordinator

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 12.0, 45.0]))
    def time_passes(self, seconds: float) -> None:
        """With or without a call at each deadline: the engine catches up."""
        until = self.now + seconds
        if seconds > 3.0:
            for _ in range(200):
                due = self.engine.next_deadline()
                if due is None or due > until:
                    break
                self.now = max(due, self.now)
                self.handle(TimePassed())
        self.now = until
        self.handle(TimePassed())

    @rule()
    def the_same_again(self) -> None:
        self.handle(self.last)

    @rule(name=st.sampled_from(list(POLICIES)))
    def policy(self, name: str) -> None:
        self.policy_name = name
        self.engine.set_policy(POLICIES[name]())
        self.handle(PolicyChanged(name))

    @rule(rarely=st.integers(0, 2), after_s=st.sampled_from([0.0, 3.0, 45.0]))
    def restart(self, rarely: int, after_s: float) -> None:
        """The coordinator is killed, and comes back."""
        if rarely == 0:
            self.now += after_s
            self.handle(CoordinatorRestarted(stopped=False))

    @rule(rarely=st.integers(0, 1))
    def rotate(self, rarely: int) -> None:
        """The journal goes on in another segment; what follows must be the same from the image that it begins with."""
        if rarely == 0:
            effects = self.engine.handle(JournalRotated(), self.now)  # the turn goes on with the image
            self.journal.append((self.now, text_of(JournalRotated()), texts_of(effects)))
            image = json.loads(json.dumps(image_of(self.engine)))
            again = engine_of(image, SETTINGS, POLICIES[self.policy_name]())
            assert snapshot(again) == snapshot(self.engine)
            self.engine = again

    @rule(device=st.sampled_from(DEVICES), rarely=st.integers(0, 9))
    def drain(self, device: DeviceId, rarely: int) -> None:
        if rarely == 0:
            self.handle(DevicesDrained((device, device)))


def _waits_for_its_driver(job: Job) -> bool:
    request = job.request
    return request is None or request.offered < (request.round, request.attempt)


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=100, stateful_step_count=50, suppress_health_check=list(HealthCheck))
