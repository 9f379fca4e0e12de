"""Jobs as the service knows them beside the engine: key, tasks, driver's address, follower, metrics, and the offers."""

import asyncio
import hashlib
from base64 import b64decode
from collections import OrderedDict, deque
from collections.abc import Container, Iterator, Mapping
from dataclasses import InitVar, dataclass, field, replace
from hashlib import sha256

from coordinator.engine.effects import EndLease, OfferLease, ResumeLease
from coordinator.engine.ids import JobId, LeaseSeq
from coordinator.engine.model import EngineSettings
from coordinator.engine.state import Lease
from coordinator.service.convert.devices import offer_bytes, offer_template
from coordinator.service.convert.jobs import attempt_key
from coordinator.service.facts import ROUNDS_KEPT, DriverAt, DriverCertified, DriverVerified, RoundReported, TaskOpened
from coordinator.service.host import Host
from coordinator.service.secret import Secret
from venn.v1 import common_pb2, device_pb2, job_pb2
from venn.wire.admission import FORMAT, is_genuine, mac_of

KEPT_BYTES = 1 << 20  # of a job's history that was sent, for a follower that comes back: some 9,000 frames
MOST_BYTES = 16 << 20  # of a job's history: some 140,000 frames
FRAME_OVERHEAD_BYTES = 48  # of a frame in memory, beside its bytes
MOST_ATTEMPTS = 64  # whose bodies are remembered, as many as the engine does
KEY_ID_BYTES = 8
TICKET_SPARE_MS = 60_000  # a ticket outlives its lease by this, however late that ends
GATHER_S = 0.1  # a frame that can wait leaves at most so much later, with those that come meanwhile


@dataclass(frozen=True, slots=True)
class Template:
    """The common part of an attempt's offers. What differs is filled in for each offer, which is serialised at once."""

    offer: device_pb2.ConnectResponse
    ticket: common_pb2.TicketPayload


class History:
    """A job's numbered frames, serialised; its follower reads them at its own pace, and so needs no queue.

    Kept is what the follower has not been sent yet, at most ``most`` bytes, and ``kept`` bytes before that, for one
    whose connection broke. Beside the ends of all leases that there can be, ``most`` still holds that of their attempt.
    """

    def __init__(self, kept: int = KEPT_BYTES, most: int = MOST_BYTES, *, last: int = 0) -> None:
        self._kept, self._most = kept, most
        self._frames: deque[bytes] = deque()
        self._sent = last  # seq of the last frame that a follower was sent
        self.bytes = 0  # of memory
        self.last = last  # seq of the newest frame; none of them is kept at first

    def append(self, frame: job_pb2.FollowJobResponse) -> None:
        self.last += 1
        frame.seq = self.last
        raw = frame.SerializeToString()
        self._frames.append(raw)
        self.bytes += len(raw) + FRAME_OVERHEAD_BYTES
        if self.bytes > self._kept:
            self._trim()

    @property
    def first(self) -> int:
        """Number of the oldest frame that is still here."""
        return self.last - len(self._frames) + 1

    def after(self, seq: int, most: int) -> list[bytes]:
        """The next frames after ``seq``, which is at least ``first - 1``."""
        start = seq - self.first + 1
        return [self._frames[place] for place in range(start, min(start + most, len(self._frames)))]

    def told(self, seq: int) -> None:
        """Note that the follower was sent all frames through this one."""
        self._sent = max(self._sent, seq)
        self._trim()

    def end(self) -> None:
        """Drop what the follower has been sent: the job has ended, and nobody needs it any more."""
        self._kept = 0
        self._trim()

    def _trim(self) -> None:
        while self.bytes > self._kept and self._frames and (self.first <= self._sent or self.bytes > self._most):
            self.bytes -= len(self._frames.popleft()) + FRAME_OVERHEAD_BYTES


@dataclass(slots=True, eq=False)
class Job:
    """One job, from its first SubmitJob on."""

    job: JobId
    address: str  # literal host:port that its driver says its TaskService has
    incarnation: int  # of its driver: the highest that was accepted
    asynchronous: bool = False  # its driver hears of every lease: it keeps a model as long as one on it lives
    secret: InitVar[Secret | None] = None  # of the coordinator; None: one for this job alone
    ticket_key: bytes = field(init=False)
    key_id: str = field(init=False)
    verified: str = ""  # the last address that proved to hold the key, which offers name; empty: none yet
    certificate: bytes = b""  # DER, that its driver says its TaskService has; empty: none
    trusted: bytes = b""  # the certificate of the verified address, which offers carry
    moved: int = 0  # the newest lease whose offer names an earlier address
    problem: str = ""  # why the address is not verified; empty: it is
    ended: bool = False
    history: History = field(default_factory=History)
    templates: dict[tuple[int, int], Template] = field(default_factory=dict)  # (round, attempt): what is offered
    bodies: "OrderedDict[tuple[int, int], bytes]" = field(default_factory=OrderedDict)  # digests of attempts' bodies
    metrics: deque[tuple[int, Mapping[str, float]]] = field(default_factory=lambda: deque(maxlen=ROUNDS_KEPT))
    follower: "asyncio.Task[object] | None" = None  # the one stream of its driver
    last_status: job_pb2.JobStatus | None = None  # of a job that has ended: it changes no more
    heard_at: float = 0.0  # engine time of its driver's last call
    _changed: asyncio.Event | None = None  # somebody waits for a change, or is about to
    _later: asyncio.TimerHandle | None = None  # frames gather until then

    def __post_init__(self, secret: Secret | None) -> None:
        secret = secret or Secret()
        self.ticket_key = secret.derive("ticket", self.job)
        self.key_id = secret.derive("ticket key id", self.job)[:KEY_ID_BYTES].hex()

    def changed(self) -> asyncio.Event:
        """The event that is set at the next change. Take it before you look, so that no change is missed."""
        if self._changed is None:
            self._changed = asyncio.Event()
        return self._changed

    def wake(self) -> None:
        """Wake those who wait for a change."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def tell(self, frame: job_pb2.FollowJobResponse, *, can_wait: bool = False) -> None:
        """Append to the history, and wake the followers: at once, unless it ``can_wait`` for others."""
        self.history.append(frame)
        if not can_wait:
            self.wake()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(GATHER_S, self.wake)

    def report(self, round_: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics of a closed round, in place of those that were told of it before."""
        kept = [entry for entry in self.metrics if entry[0] != round_]
        self.metrics.clear()
        self.metrics.extend(sorted([*kept, (round_, metrics)], key=lambda entry: entry[0]))
        self.last_status = None
        self.wake()

    def same_body(self, round_: int, attempt: int, task: bytes, rounds_left: int = 0) -> bool:
        """Whether an attempt's body is what it was when its key was first used; remembers it if it is new."""
        digest = hashlib.blake2b(task + rounds_left.to_bytes(8, "little"), digest_size=16).digest()
        known = self.bodies.setdefault((round_, attempt), digest)
        if len(self.bodies) > MOST_ATTEMPTS:
            self.bodies.popitem(last=False)
        return known == digest

    def forget(self, round_: int, attempt: int) -> None:
        """Forget an attempt that was refused: its key was not used."""
        self.bodies.pop((round_, attempt), None)
        self.templates.pop((round_, attempt), None)


class Jobs:
    """All jobs by id; the services share it. Begins with the jobs that the engine knows, by the facts that stand."""

    def __init__(self, host: Host, secret: Secret) -> None:
        self._jobs: dict[JobId, Job] = {}
        engine, facts = host.engine, host.facts
        for name, known in engine.jobs.items():
            job = Job(name, "", known.incarnation, known.spec.asynchronous is not None, secret, ended=known.ended)
            # The numbers of frames go on behind all that were told: there was less than one in each microsecond.
            job.history = History(last=int(engine.now * 1e6))
            self._jobs[name] = job
        for driver in facts.of(DriverAt):
            if found := self.get(driver.job):
                found.address = driver.address
        for certified in facts.of(DriverCertified):
            if found := self.get(certified.job):
                found.certificate = found.trusted = bytes.fromhex(certified.certificate)
        for verified in facts.of(DriverVerified):
            if found := self.get(verified.job):
                found.verified, found.moved = verified.address, verified.moved
        for reported in facts.of(RoundReported):
            if found := self.get(reported.job):
                found.report(reported.round, reported.metrics)

    def get(self, job: JobId) -> Job | None:
        return self._jobs.get(job)

    def add(self, job: Job, known: Container[JobId]) -> list[JobId]:
        """Add a job; those that the engine no longer knows are forgotten here as well. Returns their ids."""
        forgotten = [name for name in self._jobs if name not in known]
        for name in forgotten:
            del self._jobs[name]
        self._jobs[job.job] = job
        return forgotten

    def __iter__(self) -> Iterator[Job]:
        """All jobs, by arrival."""
        return iter(self._jobs.values())

    def __reversed__(self) -> Iterator[Job]:
        return reversed(self._jobs.values())


class Offers:
    """Builds the offers of leases, from the jobs' templates; and knows a receipt for what was offered."""

    def __init__(self, host: Host, jobs: Jobs, settings: EngineSettings) -> None:
        self._host, self._jobs, self._settings = host, jobs, settings
        for opened in host.facts.of(TaskOpened):
            if job := jobs.get(opened.job):
                task = common_pb2.Task.FromString(b64decode(opened.task))
                self.prepare(job, attempt_key(opened.job, opened.round, opened.attempt), task)
                raw = task.SerializeToString(deterministic=True)
                job.same_body(opened.round, opened.attempt, raw, opened.rounds_left)

    def prepare(self, job: Job, attempt: common_pb2.AttemptKey, task: common_pb2.Task) -> None:
        """Build what the offers of an attempt share, as it opens."""
        offer = offer_template(attempt, task, job.key_id, self._settings)
        ticket = common_pb2.TicketPayload(version=FORMAT, attempt=attempt)
        job.templates[(attempt.round, attempt.attempt)] = Template(offer, ticket)

    def offer(self, effect: OfferLease, now: float, key_id: bytes) -> bytes | None:
        """The offer of a lease to the holder of a key, serialised; None if the attempt's task is not known any more:
        then the lease is not accepted, and ends.
        """
        job = self._jobs.get(effect.job)
        template = job.templates.get((effect.round, effect.attempt)) if job else None
        if job is None or template is None:
            return None
        ticket = template.ticket
        ticket.device, ticket.lease, ticket.device_key = effect.device, effect.lease, key_id
        ticket.not_after_ms = self._host.wall_ms(effect.ends_at + self._settings.driver_grace_s) + TICKET_SPARE_MS
        ticket.driver_certificate = sha256(job.trusted).digest() if job.trusted else b""
        payload = ticket.SerializeToString()
        return offer_bytes(
            template.offer,
            effect.lease,
            payload=payload,
            mac=mac_of(payload, job.ticket_key),
            address=job.verified,
            certificate=job.trusted,
            remaining_s=effect.ends_at - now,
        )

    def proves(self, receipt: common_pb2.Receipt) -> bool:
        """Whether a receipt is of the driver that its lease is for. Of a lease that is over it need not be: whatever
        its device says then, it has stopped.
        """
        lease = self._host.engine.leases.get(LeaseSeq(receipt.lease))
        job = self._jobs.get(lease.request.job.id) if lease is not None else None
        return lease is None or (job is not None and is_genuine(receipt, job.ticket_key))


class Ledger:
    """The live leases from offer to end, each with the session that holds it (after a resume another one)."""

    def __init__(self, host: Host) -> None:
        self.offers = {seq: _offer_of(lease) for seq, lease in host.engine.leases.items()}
        host.listen(OfferLease, self._offered)
        host.listen(ResumeLease, self._resumed)
        host.listen(EndLease, self._ended)

    def of_job(self, job: JobId) -> Iterator[OfferLease]:
        return (offer for offer in self.offers.values() if offer.job == job)

    def _offered(self, now: float, effect: OfferLease) -> None:
        self.offers[effect.lease] = effect

    def _resumed(self, now: float, effect: ResumeLease) -> None:
        if offer := self.offers.get(effect.lease):
            self.offers[effect.lease] = replace(offer, session=effect.session)

    def _ended(self, now: float, effect: EndLease) -> None:
        self.offers.pop(effect.lease, None)


def _offer_of(lease: Lease) -> OfferLease:
    """The offer of a lease that lives."""
    request = lease.request
    where = lease.session, lease.device.id, lease.seq, request.id, request.job.id
    return OfferLease(*where, lease.round, lease.attempt, lease.ends_at)
