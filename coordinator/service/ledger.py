"""The live leases, as the effects told of them: when an effect leaves, the engine may be further on already."""

from collections.abc import Iterator
from dataclasses import replace

from coordinator.engine.effects import EndLease, OfferLease, ResumeLease
from coordinator.engine.ids import JobId, LeaseSeq
from coordinator.service.host import Host


class Ledger:
    """The live leases from offer to end, each with the session that holds it (after a resume another one)."""

    def __init__(self, host: Host) -> None:
        self.offers: dict[LeaseSeq, OfferLease] = {}
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
