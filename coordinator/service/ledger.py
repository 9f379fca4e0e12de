"""Leases as the effects told of them: which live, for whom, and how the others ended."""

from collections.abc import Iterator

from coordinator.engine.effects import EndLease, OfferLease
from coordinator.engine.ids import JobId, LeaseSeq
from coordinator.engine.model import LeaseEnd
from coordinator.service.host import Host
from venn.v1 import admin_pb2

COLUMNS = {  # of the live view's sum
    LeaseEnd.COUNTED: "responses",
    LeaseEnd.STRAGGLER: "stragglers",
    LeaseEnd.LOST: "lost",
    LeaseEnd.REPLACED: "lost",
    LeaseEnd.FAILED: "failed",
    LeaseEnd.REJECTED: "failed",
    LeaseEnd.DECLINED: "failed",
    LeaseEnd.EXPIRED: "expired",
    LeaseEnd.UNACCEPTED: "expired",
    LeaseEnd.REVOKED: "revoked",
}


class Ledger:
    """Keeps ``granted = ended + live`` at all times."""

    def __init__(self, host: Host) -> None:
        self.offers: dict[LeaseSeq, OfferLease] = {}  # of leases that have not ended
        self._granted = 0
        self._ended = dict.fromkeys(COLUMNS.values(), 0)
        host.listen(OfferLease, self._offered)
        host.listen(EndLease, self._has_ended)

    def of_job(self, job: JobId) -> Iterator[OfferLease]:
        return (offer for offer in self.offers.values() if offer.job == job)

    def counts(self) -> admin_pb2.LeaseCounts:
        return admin_pb2.LeaseCounts(granted=self._granted, live=len(self.offers), **self._ended)

    def _offered(self, now: float, effect: OfferLease) -> None:
        self._granted += 1
        self.offers[effect.lease] = effect

    def _has_ended(self, now: float, effect: EndLease) -> None:
        if self.offers.pop(effect.lease, None) is not None:
            self._ended[COLUMNS[effect.reason]] += 1
