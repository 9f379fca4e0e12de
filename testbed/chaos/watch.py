"""Watches what a coordinator says, effect by effect as it leaves, and knows nothing of the engine's own state.

It holds invariants 1, 3 and 6 (docs/architecture.md) by its own books; ``engine.validate()`` does by the engine's.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.engine import effects as done
from coordinator.engine.engine import Engine
from coordinator.engine.events import TaskFinished
from coordinator.engine.ids import JobId, LeaseSeq, RequestId
from coordinator.engine.model import AttemptStatus, EngineSettings, LeaseEnd
from testbed.chaos.script import DevicePlan, JobPlan

Violated = Callable[[str, str], None]
_CLOSED = AttemptStatus.CLOSED
LATE_S = 1.0  # a timer may fire so much later


@dataclass(slots=True)
class Lease:
    """A lease that was offered."""

    offer: done.OfferLease
    end: LeaseEnd | None = None
    absent: bool = False


@dataclass(slots=True)
class Attempt:
    """An attempt as it was told."""

    opened_at: float
    places: int
    needed: int
    asynchronous: bool
    filled_at: float | None = None


@dataclass(slots=True)
class Watch:
    """One incarnation of the coordinator, over all its lives."""

    devices: dict[str, DevicePlan]
    jobs: dict[str, JobPlan]
    settings: EngineSettings
    violated: Violated
    leases: dict[LeaseSeq, Lease] = field(default_factory=dict)
    holding: dict[str, LeaseSeq] = field(default_factory=dict)  # by device: its live lease
    taken: Counter[RequestId] = field(default_factory=Counter)  # live leases, and counted responses that keep a place
    attempts: dict[tuple[JobId, int, int], Attempt] = field(default_factory=dict)
    requests: dict[RequestId, Attempt] = field(default_factory=dict)
    outcomes: dict[tuple[JobId, int, int], AttemptStatus] = field(default_factory=dict)
    ends: Counter[LeaseEnd] = field(default_factory=Counter)
    leases_granted: int = 0

    def effect(self, now: float, effect: done.Effect) -> None:
        """Hear an effect that has left."""
        match effect:
            case done.OfferLease():
                self._offered(effect)
            case done.MissLease(lease=lease):
                self._missed(lease)
            case done.ResumeLease(lease=lease):
                self._resumed(lease)
            case done.EndLease():
                self._ended(effect)
            case done.AcceptAttempt():
                self._opened(now, effect)
            case done.FillAttempt():
                self.requests[effect.request].filled_at = now
            case done.EndAttempt():
                self._attempt_ended(effect)
            case _:
                pass

    def finished(self, event: TaskFinished) -> None:
        """Hear that a device has its receipt: it is free, and the lease keeps its place until its driver has spoken."""
        lease = self.leases.get(event.lease)
        if lease is not None and self.holding.get(lease.offer.device) == event.lease:
            self.holding.pop(lease.offer.device)

    def overdue(self, now: float) -> None:
        """Check that no lease outlives its time by more than the engine's own grace."""
        most = self.settings.driver_grace_s + LATE_S
        for lease in self.holding.values():
            offer = self.leases[lease].offer
            if now > offer.ends_at + most:
                self.violated("LEASE_LEAKED", f"lease {lease} of {offer.device} was to end at {offer.ends_at:.1f} s")

    def _offered(self, offer: done.OfferLease) -> None:
        self.leases_granted += 1
        if offer.lease in self.leases:
            self.violated("OFFERED_TWICE", f"lease {offer.lease}")
        if offer.device in self.holding:
            self.violated("TWO_LEASES", f"{offer.device} holds {self.holding[offer.device]} and gets {offer.lease}")
        plan, device = self.jobs.get(offer.job.split("/")[1]), self.devices.get(offer.device)
        if plan is not None and device is not None and device.size < plan.size:
            self.violated("INELIGIBLE", f"{offer.device} gets a lease of {offer.job}")
        self.leases[offer.lease] = Lease(offer)
        self.holding[offer.device] = offer.lease
        self._take(offer.request)

    def _take(self, request: RequestId) -> None:
        self.taken[request] += 1
        places = self.requests[request].places if request in self.requests else None
        if places is not None and self.taken[request] > places:
            self.violated("TOO_MANY", f"request {request} holds {self.taken[request]} of {places} places")

    def _leave(self, lease: Lease, *, place: bool) -> None:
        self.holding.pop(lease.offer.device, None)
        if place:
            self.taken[lease.offer.request] -= 1

    def _missed(self, seq: LeaseSeq) -> None:
        lease = self.leases[seq]
        lease.absent = True
        self._leave(lease, place=True)

    def _resumed(self, seq: LeaseSeq) -> None:
        lease = self.leases[seq]
        lease.absent = False
        self.holding[lease.offer.device] = seq
        self._take(lease.offer.request)

    def _ended(self, effect: done.EndLease) -> None:
        lease = self.leases.get(effect.lease)
        if lease is None:
            return  # of another coordinator: revoked UNKNOWN, or counted by a driver that knew it
        if lease.end is not None and effect.reason is not LeaseEnd.COUNTED:
            self.violated("ENDED_TWICE", f"lease {effect.lease}: {lease.end}, and then {effect.reason}")
        if lease.end is None:
            self.ends[effect.reason] += 1
        held = lease.end is None and not lease.absent
        lease.end = effect.reason
        if held and self.holding.get(lease.offer.device) == effect.lease:
            self.holding.pop(lease.offer.device)
        request = self.requests.get(lease.offer.request)
        keeps = effect.reason is LeaseEnd.COUNTED and request is not None and not request.asynchronous
        self.taken[lease.offer.request] += int(keeps) - int(held)

    def _opened(self, now: float, effect: done.AcceptAttempt) -> None:
        key = effect.job, effect.round, effect.attempt
        if key in self.attempts or effect.status is not AttemptStatus.OPEN:
            return
        fresh = Attempt(now, effect.places, effect.responses_needed, effect.deadline_at is None)
        self.attempts[key] = fresh
        self.requests.setdefault(effect.request, fresh)

    def _attempt_ended(self, effect: done.EndAttempt) -> None:
        key = effect.job, effect.round, effect.attempt
        before = self.outcomes.setdefault(key, effect.status)
        if before is not effect.status:
            self.violated("TWO_OUTCOMES", f"{effect.job} {effect.round}/{effect.attempt}: {before}, {effect.status}")
        attempt = self.attempts.get(key)
        if attempt and effect.status is AttemptStatus.CLOSED and effect.responses < attempt.needed:
            text = f"{effect.job} {effect.round}/{effect.attempt}: {effect.responses} of {attempt.needed}"
            self.violated("CLOSED_EARLY", text)

    def check_restored(self, engine: Engine) -> None:
        """Check that a restarted coordinator knows what stood: live leases, open attempts and closed rounds."""
        live = {seq for seq, lease in self.leases.items() if lease.end is None}
        if live != set(engine.leases):
            self.violated("LEASES_FORGOTTEN", f"live were {sorted(live)}, and now {sorted(engine.leases)}")
        for job in {job for job, _, _ in self.attempts}:
            known = engine.jobs.get(job)
            closed = {round_ for (name, round_, _), how in self.outcomes.items() if (name, how) == (job, _CLOSED)}
            if known is None or known.closed_rounds < len(closed):
                self.violated("ROUNDS_FORGOTTEN", f"{job}: rounds {sorted(closed)} were closed")
            elif not known.ended:
                self._check_open(job, known.request is not None)

    def _check_open(self, job: JobId, open_: bool) -> None:
        latest = max(key for key in self.attempts if key[0] == job)
        if latest not in self.outcomes and not open_:
            self.violated("ATTEMPT_FORGOTTEN", f"{job}: attempt {latest[1]}/{latest[2]} was open")

    def add_up(self, live: int) -> None:
        """Check that leases add up: granted = ended + live (invariant 7)."""
        if self.leases_granted != sum(self.ends.values()) + live:
            text = f"{self.leases_granted} leases granted, {dict(self.ends)} ended, {live} live"
            self.violated("DO_NOT_ADD_UP", text)
