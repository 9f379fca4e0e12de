"""How leases ended, in the seven words that a sum is written with; and whether the sum is right."""

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.engine.model import LeaseEnd
from testbed.report.story import LeaseStory

# Each end counts under one word: granted = responses + stragglers + lost + failed + expired + revoked + live.
WORD = {
    LeaseEnd.COUNTED: "responses",
    LeaseEnd.STRAGGLER: "stragglers",
    LeaseEnd.LOST: "lost",
    LeaseEnd.REPLACED: "lost",  # its device was away when its place was taken
    LeaseEnd.FAILED: "failed",
    LeaseEnd.REJECTED: "failed",
    LeaseEnd.DECLINED: "failed",
    LeaseEnd.EXPIRED: "expired",
    LeaseEnd.UNACCEPTED: "expired",
    LeaseEnd.REVOKED: "revoked",
    LeaseEnd.UNKNOWN: "revoked",
}


@dataclass(frozen=True, slots=True)
class LeaseSum:
    granted: int
    responses: int
    stragglers: int
    lost: int
    failed: int
    expired: int
    revoked: int
    live: int

    @property
    def adds_up(self) -> bool:
        ended = self.responses + self.stragglers + self.lost + self.failed + self.expired + self.revoked
        return self.granted == ended + self.live


def count_leases(leases: Iterable[LeaseStory]) -> LeaseSum:
    words = [WORD[lease.end] if lease.end is not None else "live" for lease in leases]
    return LeaseSum(
        granted=len(words),
        responses=words.count("responses"),
        stragglers=words.count("stragglers"),
        lost=words.count("lost"),
        failed=words.count("failed"),
        expired=words.count("expired"),
        revoked=words.count("revoked"),
        live=words.count("live"),
    )
