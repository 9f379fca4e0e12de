"""What devices and drivers wrote down, or would have in a simulation, as the auditor reads it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.ids import JobId, LeaseSeq, job_name
from coordinator.engine.model import AttemptStatus, Outcome
from testbed.report.record import DriverLog, HostLog
from testbed.runfolder.journal import Journal
from testbed.runfolder.jsonlines import Row, integer, text
from venn.wire.errors import UsageError


class AttemptKey(NamedTuple):
    job: str  # its name
    round: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.job} round {self.round}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The first answer that a device got to its response."""

    device: str
    attempt: AttemptKey
    outcome: Outcome
    digest: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a driver about a response."""

    lease: LeaseSeq
    device: str
    attempt: AttemptKey  # in which it was decided
    given: AttemptKey  # of the lease; asynchronously perhaps an earlier one
    outcome: Outcome
    digest: str


@dataclass(frozen=True, slots=True)
class Sum:
    """The end of an attempt for its driver, and the leases whose responses were summed."""

    status: AttemptStatus
    leases: tuple[LeaseSeq, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """All drivers' manifests."""

    decisions: tuple[Decision, ...]
    counted: frozenset[LeaseSeq]  # decided COUNTED
    sums: Mapping[AttemptKey, Sum]
    last: Mapping[str, tuple[int, int]]  # job -> the last (round, attempt) that its manifest names

    def is_last(self, key: AttemptKey) -> bool:
        """Says whether its driver wrote of no later attempt."""
        return (key.round, key.attempt) >= self.last.get(key.job, (0, 0))


def read_manifests(drivers: Mapping[str, DriverLog], journal: Journal) -> Manifest:
    """Decisions on leases of this coordinator, and all sums."""
    decisions: list[Decision] = []
    sums: dict[AttemptKey, Sum] = {}
    last: dict[str, tuple[int, int]] = {}
    for job, log in drivers.items():
        for row in log.manifest:
            key = AttemptKey(job, integer(row, "round"), integer(row, "attempt"))
            last[job] = max(last.get(job, (0, 0)), (key.round, key.attempt))
            lease = journal.lease(integer(row, "incarnation"), integer(row, "lease"))
            if row.get("kind") == "response" and lease is not None:
                given = (
                    AttemptKey(job, integer(row, "of_round"), integer(row, "of_attempt")) if "of_round" in row else key
                )
                outcome = _outcome(row, "outcome")
                decisions.append(Decision(lease, text(row, "device"), key, given, outcome, text(row, "digest")))
            elif row.get("kind") == "attempt":
                closed = text(row, "status") == AttemptStatus.CLOSED
                sums[key] = Sum(AttemptStatus.CLOSED if closed else AttemptStatus.ABORTED, _leases(row, journal))
    counted = frozenset(one.lease for one in decisions if one.outcome is Outcome.COUNTED)
    return Manifest(tuple(decisions), counted, sums, last)


def read_receipts(hosts: Mapping[str, HostLog], journal: Journal) -> dict[LeaseSeq, Receipt]:
    """Lease -> its first receipt; of a repeated one, what the first said. Of this coordinator's incarnation."""
    found: dict[LeaseSeq, Receipt] = {}
    for log in hosts.values():
        for row in log.receipts:
            lease = journal.lease(integer(row, "incarnation"), integer(row, "lease"))
            if lease is None:
                continue
            said = _outcome(row, "first_outcome" if text(row, "outcome") == "duplicate" else "outcome")
            key = AttemptKey(job_name(JobId(text(row, "job"))), integer(row, "round"), integer(row, "attempt"))
            found.setdefault(lease, Receipt(text(row, "device"), key, said, text(row, "digest")))
    return found


def _outcome(row: Row, key: str) -> Outcome:
    try:
        return Outcome(text(row, key))
    except ValueError:
        message = f"{text(row, key)!r} is not an outcome of a response (lease {integer(row, 'lease')})"
        raise UsageError("RUN_DAMAGED", message, fix="restore the log, or run again") from None


def _leases(row: Row, journal: Journal) -> tuple[LeaseSeq, ...]:
    value, incarnation = row.get("leases"), integer(row, "incarnation")
    leases = (journal.lease(incarnation, int(lease)) for lease in (value if isinstance(value, list) else ()))
    return tuple(lease for lease in leases if lease is not None)


def simulated_logs(journal: Journal, unheard: Sequence[Row]) -> tuple[Manifest, dict[LeaseSeq, Receipt]]:
    """Drivers decide what they recorded and sum what they counted; devices have the receipts that they told of.

    ``unheard``: of unheard.jsonl, what drivers decided and no coordinator heard of.
    """
    granted: dict[LeaseSeq, tuple[str, AttemptKey]] = {}
    decisions: list[Decision] = []
    receipts: dict[LeaseSeq, Receipt] = {}
    counted: defaultdict[AttemptKey, list[LeaseSeq]] = defaultdict(list)
    sums: dict[AttemptKey, Sum] = {}
    last: dict[str, tuple[int, int]] = {}
    for entry in journal.entries:
        match entry.event:
            case past.ResponsesRecorded(job=job, round=round_, attempt=attempt, responses=responses):
                key = AttemptKey(job_name(job), round_, attempt)
                for lease, outcome in responses:
                    device, given = granted[lease]
                    decisions.append(Decision(lease, device, key, given, outcome, ""))
                    if outcome is Outcome.COUNTED:
                        counted[key].append(lease)
            case past.TaskFinished(lease=lease, outcome=outcome):
                device, key = granted[lease]
                receipts[lease] = Receipt(device, key, outcome, "")
            case (
                past.DeviceCheckedIn()
                | past.DeviceHeard()
                | past.LeaseAccepted()
                | past.LeaseDeclined()
                | past.TaskProgressed()
                | past.TaskFailed()
                | past.LeaseReleased()
                | past.SessionEnded()
                | past.JobSubmitted()
                | past.DriverFollowed()
                | past.DriverLost()
                | past.AttemptOpened()
                | past.JobEnded()
                | past.PolicyChanged()
                | past.DevicesDrained()
                | past.TimePassed()
                | past.TurnEnded()
            ):
                pass  # neither a decision nor a receipt
            case _:
                assert_never(entry.event)
        for effect in entry.effects:
            match effect:
                case done.OfferLease():
                    key = AttemptKey(job_name(effect.job), effect.round, effect.attempt)
                    granted[effect.lease] = (effect.device, key)
                case done.AcceptAttempt():
                    last[job_name(effect.job)] = (effect.round, effect.attempt)
                case done.EndAttempt():
                    key = AttemptKey(job_name(effect.job), effect.round, effect.attempt)
                    closed = effect.status is AttemptStatus.CLOSED
                    sums[key] = Sum(effect.status, tuple(counted[key]) if closed else ())
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
                    | done.MissLease()
                    | done.ResumeLease()
                    | done.EndLease()
                    | done.EndSession()
                    | done.PauseJob()
                    | done.ResumeJob()
                    | done.EndJob()
                    | done.AdoptPlan()
                ):
                    pass  # neither a lease nor an attempt
                case _:
                    assert_never(effect)
    for row in unheard:
        number = journal.lease(integer(row, "life"), integer(row, "lease"))
        if number is not None:
            key = AttemptKey(job_name(JobId(text(row, "job"))), integer(row, "round"), integer(row, "attempt"))
            device, given = granted[number]
            outcome = Outcome(text(row, "outcome"))
            decisions.append(Decision(number, device, key, given, outcome, ""))
            receipts[number] = Receipt(device, given, outcome, "")
    leases = frozenset(one.lease for one in decisions if one.outcome is Outcome.COUNTED)
    return Manifest(tuple(decisions), leases, sums, last), receipts
