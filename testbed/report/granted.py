"""What the coordinator's journal says of leases, attempts and jobs, as the auditor reads it."""

from collections import Counter
from dataclasses import dataclass
from typing import assert_never

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.ids import JobId, LeaseSeq, job_name
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    JobEnd,
    LeaseEnd,
    LeaseSum,
    Outcome,
    Repeat,
    sum_leases,
)
from coordinator.engine.requirements import Capabilities, Requirement
from testbed.report.record import AttemptKey
from testbed.runfolder.journal import Entry, Journal
from testbed.runfolder.summary import Finding

INELIGIBLE = "INELIGIBLE"  # the kind of its finding


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an attempt, by the coordinator's word."""

    status: AttemptStatus
    reason: AttemptEndReason
    responses: int
    needed: int


class Coordinator:
    """What the coordinator's journal says, event by event."""

    def __init__(self, journal: Journal) -> None:
        self.granted: dict[LeaseSeq, done.OfferLease] = {}
        self.ends: dict[LeaseSeq, list[LeaseEnd]] = {}
        self.recorded: dict[LeaseSeq, set[Outcome]] = {}
        self.needed: dict[AttemptKey, int] = {}
        self.places: dict[int, int] = {}  # by request: C
        self.attempts: dict[AttemptKey, list[Ended]] = {}
        self.finished: set[str] = set()  # names of jobs: nothing of theirs can be pending
        self.repeating: set[str] = set()  # names of jobs that a device may count for several times in a round
        self.over: set[str] = set()  # names of jobs that have ended, in whatever way: none of their leases goes on
        self._requirements: dict[JobId, Requirement] = {}
        self._capabilities: dict[str, Capabilities] = {}  # by device: as it said when it checked in last
        self.conflicts: list[Finding] = []
        self._taken: Counter[int] = Counter()  # by request: live leases and counted responses
        self._asynchronous: set[int] = set()  # requests whose counted responses take no place
        self._early: dict[AttemptKey, done.EndAttempt] = {}  # ends of rounds that their driver has not begun yet
        self._live: set[LeaseSeq] = set()  # leases that hold a place
        self._holder: dict[str, LeaseSeq] = {}  # by device: the lease that it holds
        for entry in journal.entries:
            match entry.event:
                case past.ResponsesRecorded(responses=responses) if not _refused(
                    entry
                ):  # else they are of a former life
                    for lease, outcome in responses:
                        self.recorded.setdefault(lease, set()).add(outcome)
                case past.JobSubmitted(spec=spec):
                    self._requirements[spec.job] = spec.requirement
                    if spec.repeat is Repeat.ALLOW:
                        self.repeating.add(job_name(spec.job))
                case past.DeviceCheckedIn(device=device, capabilities=capabilities):
                    self._capabilities[device] = capabilities
                case past.TaskFinished(lease=lease) if lease in self.granted:
                    self._free(lease)  # the device; the place is the driver's to give back, by its word
                case (
                    past.DeviceHeard()
                    | past.LeaseAccepted()
                    | past.LeaseDeclined()
                    | past.TaskProgressed()
                    | past.TaskFinished()
                    | past.TaskFailed()
                    | past.LeaseReleased()
                    | past.SessionEnded()
                    | past.DriverFollowed()
                    | past.DriverLost()
                    | past.AttemptOpened()
                    | past.ResponsesRecorded()
                    | past.JobEnded()
                    | past.PolicyChanged()
                    | past.CoordinatorRestarted()
                    | past.JournalRotated()
                    | past.DevicesDrained()
                    | past.TimePassed()
                    | past.TurnEnded()
                ):
                    pass  # audited by what follows from them: the effects
                case _:
                    assert_never(entry.event)
            for effect in entry.effects:
                self._apply(effect)

    def first_of(self, job: str) -> AttemptKey:
        """The first attempt of a job that this coordinator ended; those before it were another's."""
        return min((key for key in self.attempts if key.job == job), default=AttemptKey(job, 0, 0))

    def lease_sum(self) -> LeaseSum:
        """Sums leases by the first end of each; ``_lease_findings`` says whether each has one."""
        ended = {lease: ends[0] for lease, ends in self.ends.items() if lease in self.granted}
        return sum_leases(Counter(ended.values()), granted=len(self.granted), live=len(self.granted) - len(ended))

    def _apply(self, effect: done.Effect) -> None:
        match effect:
            case done.OfferLease():
                self._grant(effect)
            case done.MissLease(lease=lease):
                self._leave(lease)
            case done.ResumeLease(lease=lease, device=device):
                self._take(self.granted[lease].request, lease, device)
            case done.EndLease(lease=lease, reason=reason):
                self.ends.setdefault(lease, []).append(reason)
                held = self._leave(lease)
                if reason is LeaseEnd.COUNTED and lease in self.granted:
                    request = self.granted[lease].request
                    self._taken[request] += request not in self._asynchronous  # else it keeps its place
                elif not held and reason is LeaseEnd.COUNTED:
                    self.conflicts.append(Finding("NEVER_GRANTED", f"lease {lease}", "was counted and never granted"))
            case done.AcceptAttempt():
                key = AttemptKey.named(effect)
                self.needed[key] = effect.responses_needed
                self.places[effect.request] = effect.places
                if effect.deadline_at is None:
                    self._asynchronous.add(effect.request)
                if (early := self._early.pop(key, None)) is not None:
                    self._end_attempt(key, early)
            case done.EndAttempt(request=request):
                key = AttemptKey.named(effect)
                if request in self._asynchronous and key not in self.needed:
                    self._early[key] = effect
                else:
                    self._end_attempt(key, effect)
            case done.EndJob(job=job, end=end):
                self.over.add(job_name(job))
                if end is JobEnd.FINISHED:
                    self.finished.add(job_name(job))
            case (
                done.OpenSession()
                | done.CloseSession()
                | done.RevokeLease()
                | done.SendAway()
                | done.AcceptJob()
                | done.RefuseJob()
                | done.FillAttempt()
                | done.AnswerResponses()
                | done.RunLease()
                | done.EndSession()
                | done.PauseJob()
                | done.ResumeJob()
                | done.AdoptPlan()
            ):
                pass  # takes and gives back nothing
            case _:
                assert_never(effect)

    def _end_attempt(self, key: AttemptKey, effect: done.EndAttempt) -> None:
        ended = Ended(effect.status, effect.reason, effect.responses, self.needed.get(key, 0))
        self.attempts.setdefault(key, []).append(ended)

    def _grant(self, offer: done.OfferLease) -> None:
        if offer.lease in self.granted:
            self.conflicts.append(Finding("GRANTED_TWICE", f"lease {offer.lease}", "was granted twice"))
        self.granted[offer.lease] = offer
        requirement, capabilities = self._requirements.get(offer.job), self._capabilities.get(offer.device)
        if requirement and capabilities and not requirement.matches(offer.device, capabilities):
            message = f"{offer.device} does not meet {requirement}, which {job_name(offer.job)} requires"
            self.conflicts.append(Finding(INELIGIBLE, f"lease {offer.lease}", message))
        self._take(offer.request, offer.lease, offer.device)

    def _take(self, request: int, lease: LeaseSeq, device: str) -> None:
        other = self._holder.get(device)
        if other is not None and other != lease:
            message = f"{device} was given it while it held lease {other}"
            self.conflicts.append(Finding("TWO_LEASES", f"lease {lease}", message))
        self._holder[device] = lease
        self._live.add(lease)
        self._taken[request] += 1
        if self._taken[request] > self.places.get(request, 0):
            message = f"{self._taken[request]} places taken of {self.places.get(request, 0)}"
            self.conflicts.append(Finding("TOO_MANY_LEASES", f"lease {lease}", message))

    def _leave(self, lease: LeaseSeq) -> bool:
        """Free its device, and give its place back if it holds one."""
        if lease not in self._live:
            return False
        self._free(lease)
        self._live.discard(lease)
        self._taken[self.granted[lease].request] -= 1
        return True

    def _free(self, lease: LeaseSeq) -> None:
        device = self.granted[lease].device
        if self._holder.get(device) == lease:
            del self._holder[device]


def _refused(entry: Entry) -> bool:
    return any(isinstance(effect, done.RefuseJob) for effect in entry.effects)
