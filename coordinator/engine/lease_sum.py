"""How leases ended, in the words of one sum:

granted = responses + stragglers + lost + failed + expired + revoked + live
"""

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.engine.model import LeaseEnd

WORD = {  # each end counts under one word, by who or what ended the lease
    LeaseEnd.COUNTED: "responses",
    LeaseEnd.STRAGGLER: "stragglers",
    LeaseEnd.LOST: "lost",  # its device was away
    LeaseEnd.REPLACED: "lost",  # its device was away, and came back after its place was taken
    LeaseEnd.FAILED: "failed",  # the device or the driver said no
    LeaseEnd.REJECTED: "failed",
    LeaseEnd.DECLINED: "failed",
    LeaseEnd.EXPIRED: "expired",  # a time ran out
    LeaseEnd.UNACCEPTED: "expired",
    LeaseEnd.REVOKED: "revoked",  # the attempt or the job ended and did not want it
    LeaseEnd.UNKNOWN: "revoked",  # its coordinator was killed
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
    live: int  # not ended

    @property
    def adds_up(self) -> bool:
        ended = self.responses + self.stragglers + self.lost + self.failed + self.expired + self.revoked
        return self.granted == ended + self.live


def sum_leases(ends: Mapping[LeaseEnd, int], *, granted: int, live: int) -> LeaseSum:
    """Sum leases by how they ended: ``ends`` is by reason; ``granted`` and ``live`` were counted apart."""
    words = dict.fromkeys(WORD.values(), 0)
    for end, count in ends.items():
        words[WORD[end]] += count
    return LeaseSum(granted=granted, live=live, **words)
