"""The auditor: three logs that know nothing of each other, held against each other, lease by lease.

Devices say which receipts they hold, drivers what they decided and summed, the coordinator whom it leased and how each
attempt ended. What only one of them could have got wrong, the others show. It reads the logs themselves and uses no
figure of the report.
"""

from collections import Counter
from collections.abc import Iterator

from coordinator.engine.ids import LeaseSeq, job_name
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    LeaseEnd,
    Outcome,
)
from testbed.report.granted import Coordinator, Ended
from testbed.report.record import (
    AttemptKey,
    Decision,
    Manifest,
    Receipt,
    RunRecord,
    read_manifests,
    read_receipts,
    simulated_logs,
)
from testbed.runfolder.summary import Audit, Finding

LEAKED = "LEAKED"  # the kind of the finding of a lease that should have ended and has not


def audit(record: RunRecord, *, simulated: bool = False) -> Audit:
    """Account for every lease and every response of a run. A simulated one has no log but the journal."""
    coordinator = Coordinator(record.journal)
    if simulated:
        manifests, receipts = simulated_logs(record.journal, record.unheard)
    else:
        manifests = read_manifests(record.drivers, record.journal)
        receipts = read_receipts(record.hosts, record.journal)
    places = Counter(_places(coordinator, manifests, receipts))
    findings = [
        *coordinator.conflicts,
        *_lease_findings(coordinator),
        *_receipt_findings(coordinator, manifests, receipts),
        *_decision_findings(coordinator, manifests),
        *_repeat_findings(coordinator, manifests),
        *_attempt_findings(coordinator, manifests),
        *_lost_findings(coordinator, manifests, receipts),
    ]
    twice = _counted_twice(manifests)
    findings += [
        Finding("COUNTED_TWICE", f"lease {lease}", f"is in {times} sums of {job}") for (job, lease), times in twice
    ]
    return Audit(
        leases=coordinator.lease_sum(),
        responses=sum(places.values()),
        in_rounds=places["round"],
        in_aborted=places["aborted"],
        pending=places["pending"],
        lost=places["lost"],
        counted_twice=len(twice),
        findings=tuple(findings),
    )


def _acknowledged(manifests: Manifest, receipts: dict[LeaseSeq, Receipt]) -> dict[LeaseSeq, AttemptKey]:
    """Leases whose response was acknowledged COUNTED, by the word of the device or of the driver."""
    counts = [one for one in manifests.decisions if one.outcome is Outcome.COUNTED]
    counts_in = {(one.lease, one.leased_for): one.attempt for one in counts}  # a receipt names the attempt of the lease
    by_device = {
        lease: counts_in.get((lease, receipt.attempt), receipt.attempt)
        for lease, receipt in receipts.items()
        if receipt.outcome is Outcome.COUNTED
    }
    return {**{one.lease: one.attempt for one in counts}, **by_device}


def _may_be_pending(attempt: AttemptKey, coordinator: Coordinator, manifests: Manifest) -> bool:
    """Whether its driver may have been stopped before it wrote how this attempt ended."""
    return attempt.job not in coordinator.finished and manifests.is_last(attempt)


def _place(lease: LeaseSeq, attempt: AttemptKey, coordinator: Coordinator, manifests: Manifest) -> str:
    """The place of an acknowledged response: a round, an aborted attempt, a pending one, or lost."""
    ended = coordinator.attempts.get(attempt)
    aborted = bool(ended) and all(one.status is AttemptStatus.ABORTED for one in ended or ())
    if aborted:
        return "aborted"
    if not ended or attempt not in manifests.sums:
        pending = _may_be_pending(attempt, coordinator, manifests) and lease in manifests.counted
        return "pending" if pending else "lost"
    return "round" if lease in manifests.counted and lease in manifests.sums[attempt].leases else "lost"


def _places(coordinator: Coordinator, manifests: Manifest, receipts: dict[LeaseSeq, Receipt]) -> Iterator[str]:
    for lease, attempt in _acknowledged(manifests, receipts).items():
        yield _place(lease, attempt, coordinator, manifests)


def _lost_findings(
    coordinator: Coordinator, manifests: Manifest, receipts: dict[LeaseSeq, Receipt]
) -> Iterator[Finding]:
    for lease, attempt in sorted(_acknowledged(manifests, receipts).items()):
        if _place(lease, attempt, coordinator, manifests) == "lost":
            message = f"was acknowledged COUNTED in {attempt}, and no closed round or aborted attempt has it"
            yield Finding("RESPONSE_LOST", f"lease {lease}", message)


def _lease_findings(coordinator: Coordinator) -> Iterator[Finding]:
    for lease, offer in coordinator.granted.items():
        if lease not in coordinator.ends and (job := job_name(offer.job)) in coordinator.over:
            message = f"was granted to {offer.device} and has not ended, though {job} has"
            yield Finding(LEAKED, f"lease {lease}", message)
    for lease, ends in coordinator.ends.items():
        if lease not in coordinator.granted:
            yield Finding("NEVER_GRANTED", f"lease {lease}", "ended and was never granted")
        corrected = len(ends) == 2 and ends[1] == LeaseEnd.COUNTED != ends[0]  # its driver's word came late, and stands
        if len(ends) > 1 and not corrected:
            yield Finding("ENDED_TWICE", f"lease {lease}", f"ended {len(ends)} times: {', '.join(ends)}")


def _receipt_findings(
    coordinator: Coordinator, manifests: Manifest, receipts: dict[LeaseSeq, Receipt]
) -> Iterator[Finding]:
    decided = {one.lease: one for one in manifests.decisions}
    for lease, receipt in receipts.items():
        subject = f"lease {lease}"
        offer = coordinator.granted.get(lease)
        if offer is None or offer.device != receipt.device:
            yield Finding(
                "UNKNOWN_RECEIPT", subject, f"{receipt.device} has a receipt for a lease that it was not granted"
            )
        decision = decided.get(lease)
        if decision is None:
            yield Finding(
                "NO_DECISION", subject, f"{receipt.device} was told {receipt.outcome}, and no driver wrote that down"
            )
        elif decision.outcome is not receipt.outcome:
            message = f"{receipt.device} was told {receipt.outcome}, its driver decided {decision.outcome}"
            yield Finding("OTHER_OUTCOME", subject, message)
        elif decision.digest != receipt.digest:
            yield Finding("OTHER_RESPONSE", subject, f"what {receipt.device} sent is not what its driver took")


def _decision_findings(coordinator: Coordinator, manifests: Manifest) -> Iterator[Finding]:
    decided: dict[LeaseSeq, set[Outcome]] = {}
    for one in manifests.decisions:
        decided.setdefault(one.lease, set()).add(one.outcome)
        yield from _against_grant(one, coordinator)
    for lease, outcomes in sorted(decided.items()):
        if len(outcomes) > 1:
            yield Finding("DECIDED_TWICE", f"lease {lease}", f"its driver decided {' and '.join(sorted(outcomes))}")
    for lease, outcomes in sorted(coordinator.recorded.items()):
        if not outcomes <= decided.get(lease, set()):
            message = f"was recorded {', '.join(sorted(outcomes))}, and no driver wrote that down"
            yield Finding("NO_DECISION", f"lease {lease}", message)


def _repeat_findings(coordinator: Coordinator, manifests: Manifest) -> Iterator[Finding]:
    """A device counts once in a round; which device it was the coordinator says, whom it granted the lease."""
    counts: dict[tuple[AttemptKey, str], LeaseSeq] = {}
    for one in manifests.decisions:
        offer = coordinator.granted.get(one.lease)
        if one.outcome is Outcome.COUNTED and offer is not None and one.attempt.job not in coordinator.repeating:
            first = counts.setdefault((one.attempt, offer.device), one.lease)
            if first != one.lease:
                message = f"{offer.device} counts in {one.attempt} by lease {first} already"
                yield Finding("REPEATED", f"lease {one.lease}", message)


def _against_grant(decision: Decision, coordinator: Coordinator) -> Iterator[Finding]:
    offer = coordinator.granted.get(decision.lease)
    if offer is None:
        yield Finding(
            "NEVER_GRANTED", f"lease {decision.lease}", f"{decision.attempt} decided on a lease that was never granted"
        )
        return
    granted = AttemptKey.named(offer)
    if granted != decision.leased_for or offer.device != decision.device:
        message = f"was granted to {offer.device} for {granted}, decided for {decision.device} in {decision.leased_for}"
        yield Finding("OTHER_LEASE", f"lease {decision.lease}", message)


def _attempt_findings(coordinator: Coordinator, manifests: Manifest) -> Iterator[Finding]:
    for key, ends in sorted(coordinator.attempts.items()):
        ended = ends[-1]
        if len([each for each in ends if each.reason is not AttemptEndReason.UNKNOWN]) > 1:
            yield Finding("ENDED_TWICE", str(key), f"the coordinator ended it {len(ends)} times")
        if ended.status is AttemptStatus.CLOSED and ended.responses < ended.needed:
            yield Finding("CLOSED_EARLY", str(key), f"closed with {ended.responses} responses of {ended.needed}")
        wrote = manifests.sums.get(key)
        if wrote is None:
            if not _may_be_pending(key, coordinator, manifests):
                yield Finding("NO_SUM", str(key), f"{ended.status}, and its driver wrote no line for it")
            continue
        if wrote.status is not ended.status:
            yield Finding("OTHER_STATUS", str(key), f"the coordinator says {ended.status}, its driver {wrote.status}")
        elif ended.status is AttemptStatus.CLOSED:
            yield from _sum_findings(key, ended, wrote.leases, coordinator)
    for key in sorted(manifests.sums.keys() - coordinator.attempts.keys()):
        if manifests.sums[key].status is AttemptStatus.CLOSED and key > coordinator.first_of(key.job):
            yield Finding("NOT_CLOSED", str(key), "its driver closed it, the coordinator did not")


def _sum_findings(
    key: AttemptKey, ended: Ended, leases: tuple[LeaseSeq, ...], coordinator: Coordinator
) -> Iterator[Finding]:
    if len(leases) != ended.responses:
        yield Finding(
            "OTHER_SUM",
            str(key),
            f"the coordinator counted {ended.responses} responses, its driver summed {len(leases)}",
        )
    for lease in leases:
        if LeaseEnd.COUNTED not in coordinator.ends.get(lease, []):
            yield Finding(
                "OTHER_SUM", f"lease {lease}", f"is in the sum of {key}, and the coordinator did not count it"
            )


def _counted_twice(manifests: Manifest) -> list[tuple[tuple[str, LeaseSeq], int]]:
    """Leases that are in more than one sum, or twice in one."""
    times = Counter(
        (key.job, lease)
        for key, wrote in manifests.sums.items()
        if wrote.status is AttemptStatus.CLOSED
        for lease in wrote.leases
    )
    return sorted((subject, count) for subject, count in times.items() if count > 1)
