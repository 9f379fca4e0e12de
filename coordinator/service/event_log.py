"""The log of the live view: what happened, for people. (The history of a single job or device is the engine's.)"""

import logging
from collections import defaultdict, deque
from dataclasses import dataclass

from coordinator.engine import effects
from coordinator.engine.ids import JobId, RequestId, job_name
from coordinator.engine.lifecycle import ABSENT
from coordinator.engine.model import AttemptEndReason, AttemptStatus, JobEnd, LeaseEnd, SessionEnd
from coordinator.engine.state import Request
from coordinator.service.convert.devices import duration
from coordinator.service.durability import FULL
from coordinator.service.host import Host
from coordinator.service.jobs import Ledger
from venn.v1 import admin_pb2
from venn.wire.logs import log

MOST_ENTRIES = 50
MOST_PLACES = 64  # lost places per request whose next holder is still to be named
logger = logging.getLogger(__name__)

GONE = {
    SessionEnd.GOODBYE_SESSION_OVER: "said goodbye, its session was over",
    SessionEnd.GOODBYE_STOPPED: "said goodbye, its owner stopped it",
    SessionEnd.GOODBYE_TOLD_TO: "said goodbye, as the coordinator asked",
    SessionEnd.CONNECTION_ENDED: "connection ended without goodbye",
    SessionEnd.SILENT: "nothing was heard from it",
    SessionEnd.SLOW_READER: "it did not read what it was sent",
    SessionEnd.SUPERSEDED: "a newer stream of it took over",
    SessionEnd.DUPLICATE_DEVICE: "another device uses the same id",
    SessionEnd.SENT_AWAY: "was sent away",
    SessionEnd.DRAINED: "was drained",
    SessionEnd.BAD_FRAME: "it broke the protocol",
    SessionEnd.COORDINATOR_RESTARTED: "its coordinator was restarted",
}
LEASE_ENDS = {  # that are worth a line; the others are a round's daily life
    LeaseEnd.FAILED: ("FAILED", ""),
    LeaseEnd.DECLINED: ("DECLINED", "it does not take the task"),
    LeaseEnd.UNACCEPTED: ("EXPIRED", "it did not answer the offer"),
    LeaseEnd.EXPIRED: ("EXPIRED", "its lease ran out"),
    LeaseEnd.REJECTED: ("REJECTED", "the driver refused its response"),
    LeaseEnd.REPLACED: ("REPLACED", "it came back after its place was taken"),
}
JOB_ENDS = {JobEnd.FINISHED: "DONE", JobEnd.CANCELLED: "CANCELLED", JobEnd.FAILED: "FAILED"}


@dataclass(slots=True)
class Entry:
    """A line of the log; what becomes known later is added to it."""

    at: float  # engine time
    kind: str
    text: str

    def to_wire(self) -> admin_pb2.LogEntry:
        return admin_pb2.LogEntry(at=duration(self.at), kind=self.kind, text=self.text)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open attempt."""

    responses_needed: int
    deadline_s: float | None  # None: it is asynchronous


class EventLog:
    """The lines of the log, made from all effects. Bounded in every direction."""

    def __init__(self, host: Host, ledger: Ledger) -> None:
        self._ledger = ledger
        self._entries: deque[Entry] = deque(maxlen=MOST_ENTRIES)
        self._gone = ("", SessionEnd.CONNECTION_ENDED)  # the device that left last, and why: its lease's loss follows
        leases, requests = host.engine.leases.values(), host.engine.requests.values()
        self._missed = {lease.seq for lease in leases if lease.state is ABSENT}  # which were told of already
        self._places: defaultdict[RequestId, deque[Entry]] = defaultdict(lambda: deque(maxlen=MOST_PLACES))
        self._opened = {request.id: _opened(request) for request in requests if request.open}
        self._aborted: dict[tuple[JobId, int], Entry] = {}  # by job and round: to be opened again
        self._jobs = {job.id for job in host.engine.jobs.values() if not job.ended}  # unfinished ones
        self._listen(host)
        host.watch_space(lambda full: self._space_changed(host.latest, full=full))

    def _listen(self, host: Host) -> None:
        host.listen(effects.EndSession, self._session_ended)
        host.listen(effects.CloseSession, self._session_closed)
        host.listen(effects.OfferLease, self._offered)
        host.listen(effects.MissLease, self._lease_missed)
        host.listen(effects.ResumeLease, self._lease_resumed)
        host.listen(effects.EndLease, self._lease_ended)
        host.listen(effects.AcceptAttempt, self._attempt_opened)
        host.listen(effects.EndAttempt, self._attempt_ended)
        host.listen(effects.AcceptJob, self._job_accepted)
        host.listen(effects.PauseJob, self._job_paused)
        host.listen(effects.ResumeJob, self._job_resumed)
        host.listen(effects.EndJob, self._job_ended)

    # -- told

    def latest(self) -> list[admin_pb2.LogEntry]:
        """The latest lines, the newest first."""
        return [entry.to_wire() for entry in reversed(self._entries)]

    @property
    def awaited(self) -> int:
        """The number of attempts with a lost place whose next holder is still to be named."""
        return len(self._places)

    def add(self, at: float, kind: str, text: str, **fields: object) -> Entry:
        """Add a line to this log and to the program's own."""
        entry = Entry(at, kind, text)
        self._entries.append(entry)
        log(logger, logging.INFO, f"{kind} {text}", **fields)
        return entry

    def _space_changed(self, now: float, *, full: bool) -> None:
        self.add(now, "DISK FULL" if full else "SPACE", FULL if full else "the coordinator's disk has space again")

    # -- devices

    def _session_ended(self, now: float, effect: effects.EndSession) -> None:
        self._gone = (effect.device, effect.reason)
        if not effect.in_task and effect.reason in (SessionEnd.BAD_FRAME, SessionEnd.SLOW_READER):
            self.add(now, "CUT OFF", f"{effect.device}: {GONE[effect.reason]}", device=effect.device)

    def _session_closed(self, now: float, effect: effects.CloseSession) -> None:
        if effect.reason is SessionEnd.DUPLICATE_DEVICE:
            self.add(now, "DUPLICATE", f"{effect.device}: {GONE[effect.reason]}", device=effect.device)

    # -- leases

    def _offered(self, now: float, effect: effects.OfferLease) -> None:
        places = self._places.get(effect.request)
        if places:
            places.popleft().text += f"; its place went to {effect.device}"

    def _lease_missed(self, now: float, effect: effects.MissLease) -> None:
        offer = self._ledger.offers.get(effect.lease)
        if offer is not None:
            self._missed.add(effect.lease)
            self._lost(now, offer)

    def _lost(self, now: float, lease: effects.OfferLease | effects.EndLease) -> None:
        device, reason = self._gone
        why = GONE[reason] if device == lease.device else "it did not come back"
        entry = self.add(now, "LOST", f"{_place(lease)}, {why}", device=lease.device, job=lease.job, lease=lease.lease)
        self._place_lost(lease.request, entry)

    def _place_lost(self, request: RequestId, entry: Entry) -> None:
        """Note a lost place, which another device may get while the attempt is open."""
        if request in self._opened:
            self._places[request].append(entry)

    def _lease_resumed(self, now: float, effect: effects.ResumeLease) -> None:
        self._missed.discard(effect.lease)
        if offer := self._ledger.offers.get(effect.lease):
            self.add(now, "BACK", f"{_place(offer)}, goes on", device=effect.device, job=offer.job)

    def _lease_ended(self, now: float, effect: effects.EndLease) -> None:
        told_of = effect.lease in self._missed
        self._missed.discard(effect.lease)
        if effect.reason is LeaseEnd.LOST and not told_of:
            self._lost(now, effect)
        elif effect.reason in LEASE_ENDS and not told_of:
            kind, why = LEASE_ENDS[effect.reason]
            where = f", {effect.phase}" if effect.phase else ""
            said = (
                ": ".join(part for part in (str(effect.failure or ""), effect.message.partition("\n")[0]) if part)
                or why
            )
            text = f"{_place(effect)}{where}: {said}"
            entry = self.add(now, kind, text, device=effect.device, job=effect.job, lease=effect.lease)
            self._place_lost(effect.request, entry)

    # -- attempts and jobs

    def _attempt_opened(self, now: float, effect: effects.AcceptAttempt) -> None:
        if effect.status is not AttemptStatus.OPEN or effect.request in self._opened:
            return
        deadline_s = None if effect.deadline_at is None else effect.deadline_at - now
        self._opened[effect.request] = Opened(effect.responses_needed, deadline_s)
        if entry := self._aborted.pop((effect.job, effect.round), None):
            entry.text += "; opened again"

    def _attempt_ended(self, now: float, effect: effects.EndAttempt) -> None:
        self._places.pop(effect.request, None)
        opened = self._opened.pop(effect.request, None)
        if effect.status is not AttemptStatus.ABORTED or effect.reason is AttemptEndReason.CANCELLED:
            return
        needed = f" of {opened.responses_needed}" if opened else ""
        after = f"at its deadline of {opened.deadline_s:.3g} s" if opened and opened.deadline_s else "at its deadline"
        if effect.reason is AttemptEndReason.DRIVER_AWAY:
            after = "when its driver had been away too long"
        elif effect.reason is AttemptEndReason.GIVEN_UP:
            after = "when its driver gave it up"
        text = f"{job_name(effect.job)} round {effect.round}: {effect.responses}{needed} responses {after}"
        entry = self.add(now, "ABORT", text, job=effect.job, request=effect.request)
        self._aborted[(effect.job, effect.round)] = entry

    def _job_accepted(self, now: float, effect: effects.AcceptJob) -> None:
        if effect.job not in self._jobs:
            self._jobs.add(effect.job)
            self.add(now, "JOB", f"{job_name(effect.job)} has arrived", job=effect.job)

    def _job_paused(self, now: float, effect: effects.PauseJob) -> None:
        self.add(now, "PAUSED", f"{job_name(effect.job)}: {effect.message or effect.reason}", job=effect.job)

    def _job_resumed(self, now: float, effect: effects.ResumeJob) -> None:
        self.add(now, "RESUMED", job_name(effect.job), job=effect.job)

    def _job_ended(self, now: float, effect: effects.EndJob) -> None:
        self._jobs.discard(effect.job)
        self._aborted = {key: entry for key, entry in self._aborted.items() if key[0] != effect.job}
        message = f": {effect.message}" if effect.message else ""
        self.add(now, JOB_ENDS[effect.end], f"{job_name(effect.job)} is {effect.end}{message}", job=effect.job)


def _opened(request: Request) -> Opened:
    deadline_s = None if request.asynchronous else request.deadline_at - request.opened_at
    return Opened(request.needed, deadline_s)


def _place(lease: effects.OfferLease | effects.EndLease) -> str:
    return f"{lease.device} in {job_name(lease.job)} round {lease.round}"
