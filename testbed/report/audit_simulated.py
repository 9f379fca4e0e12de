"""The logs that simulated devices and drivers would have written, read from the only one there is: the journal."""

from collections import defaultdict
from collections.abc import Sequence

from coordinator.engine import effects as done
from coordinator.engine.events import ResponsesRecorded, TaskFinished
from coordinator.engine.ids import JobId, LeaseSeq, job_name
from coordinator.engine.model import AttemptStatus, Outcome
from testbed.report.audit_logs import AttemptKey, Decision, Manifest, Receipt, Sum
from testbed.runfolder.journal import Journal
from testbed.runfolder.jsonlines import Row, integer, text


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
            case ResponsesRecorded(job=job, round=round_, attempt=attempt, responses=responses):
                key = AttemptKey(job_name(job), round_, attempt)
                for lease, outcome in responses:
                    device, given = granted[lease]
                    decisions.append(Decision(lease, device, key, given, outcome, ""))
                    if outcome is Outcome.COUNTED:
                        counted[key].append(lease)
            case TaskFinished(lease=lease, outcome=outcome):
                device, key = granted[lease]
                receipts[lease] = Receipt(device, key, outcome, "")
            case _:
                pass  # neither a decision nor a receipt
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
                case _:
                    pass  # neither a lease nor an attempt
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
