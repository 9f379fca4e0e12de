"""Leases that live, as the effects told of them: at the moment when an effect leaves the engine may be further on."""

from collections.abc import Iterator

from coordinator.engine.effects import EndLease, OfferLease
from coordinator.engine.ids import JobId, LeaseSeq
from coordinator.service.host import Host


class Ledger:
    """From its offer to its end."""

    def __init__(self, host: Host) -> None:
        self.offers: dict[LeaseSeq, OfferLease] = {}
        host.listen(OfferLease, self._offered)
        host.listen(EndLease, self._ended)

    def of_job(self, job: JobId) -> Iterator[OfferLease]:
        return (offer for offer in self.offers.values() if offer.job == job)

    def _offered(self, now: float, effect: OfferLease) -> None:
        self.offers[effect.lease] = effect

    def _ended(self, now: float, effect: EndLease) -> None:
        self.offers.pop(effect.lease, None)
