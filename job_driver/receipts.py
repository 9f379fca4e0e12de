"""Remembers what was decided on each lease, so that a response counts once, however often it is sent.

Pure: times come in as numbers.

What was decided is the answer to every retry, as a DUPLICATE. An attempt's decisions are kept until the next round
has closed and no ticket for the attempt can still be valid; so memory is bounded by what a few rounds hold.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from job_driver.collecting import Attempt, AttemptNo, Collector, Outcome, Status

LEASE_ENDED = "LEASE_ENDED"  # the reason why a response to a lease that is over is rejected


class Decision(NamedTuple):
    """The one word on a lease's response."""

    no: AttemptNo  # of the attempt in which it is decided, which is told to the coordinator
    lease: int
    outcome: Outcome
    digest: bytes  # of the response, as its device announced it
    reason: str = ""  # as of a ``Verdict``


@dataclass(slots=True)
class Leases:
    """The leases of one attempt."""

    incarnation: int  # of the coordinator that grants them
    ended_at: float | None = None  # the attempt; None exactly while it is open
    decisions: dict[int, Decision] = field(default_factory=dict)  # by lease, in the order they were made
    gone: dict[int, str] = field(default_factory=dict)  # leases that ended undecided, and why


class Receipts:
    """Decides with a collector, once on each lease of the attempts that may still be asked about."""

    def __init__(self, collector: Collector, *, keep_s: float = math.inf) -> None:
        """``keep_s``: for so many seconds after its end an attempt's tickets may be shown."""
        self.collector, self.keep_s = collector, keep_s
        self._leases: dict[AttemptNo, Leases] = {}  # in their order

    def open(self, no: AttemptNo, *, incarnation: int = 0) -> Attempt:
        """An attempt opens, see ``Collector.open``."""
        attempt = self.collector.open(no)
        self._leases[no] = Leases(incarnation)
        return attempt

    def end(self, no: AttemptNo, status: Status, now: float) -> bool:
        """The coordinator's word on an attempt. False: it is not the open one, and nothing changes."""
        if not self.collector.end(no, status):
            return False
        self._leases[no].ended_at = now
        self._purge(now)
        return True

    def find(self, no: AttemptNo) -> Leases | None:
        """None: it was purged, or never opened."""
        return self._leases.get(no)

    def waits(self, no: AttemptNo, lease: int) -> bool:
        """Whether a response is to be decided once the next round is open, and not before."""
        leases = self._leases.get(no)
        undecided = leases is not None and lease not in leases.decisions and lease not in leases.gone
        return undecided and self.collector.waits(no)

    def foresee(self, no: AttemptNo, lease: int, device: str) -> Outcome | None:
        """What a response that arrives now would be, if its bytes cannot change that; None: they are needed."""
        leases = self._leases[no]
        if lease in leases.decisions:
            return leases.decisions[lease].outcome
        return Outcome.REJECTED if lease in leases.gone else self.collector.foresee(no, device)

    def decide(self, no: AttemptNo, lease: int, device: str, digest: bytes, problem: str = "") -> Decision:
        """Decide, once; a lease that was decided keeps its decision. ``problem``: why the response does not fit."""
        leases, into = self._leases[no], self.collector.into(no)
        if lease in leases.decisions:
            return leases.decisions[lease]
        if lease in leases.gone:
            decision = Decision(into, lease, Outcome.REJECTED, digest, f"{LEASE_ENDED}: {leases.gone[lease]}")
        else:
            outcome, reason = self.collector.decide(no, lease, device, problem)
            decision = Decision(into, lease, outcome, digest, reason)
        leases.decisions[lease] = decision
        return decision

    def restore(self, no: AttemptNo, decision: Decision, device: str) -> None:
        """What an earlier process of this driver decided in the latest attempt, on a lease of ``no``."""
        if no in self._leases:
            self._leases[no].decisions[decision.lease] = decision
            self.collector.note(no, decision.lease, device, decision.outcome)

    def retract(self, no: AttemptNo, lease: int, problem: str) -> Decision:
        """A decision that could not be written down and was told to nobody becomes REJECTED."""
        decisions = self._leases[no].decisions
        self.collector.retract(lease)
        decisions[lease] = decisions[lease]._replace(outcome=Outcome.REJECTED, reason=problem)
        return decisions[lease]

    def lease_ended(self, no: AttemptNo, lease: int, why: str) -> None:
        """The coordinator ended a lease: what its device still submits is refused, unless it was decided."""
        leases = self._leases.get(no)
        if leases is not None and lease not in leases.decisions:
            leases.gone[lease] = why

    def _purge(self, now: float) -> None:
        """The oldest first: attempts end in the order in which they open."""
        while True:
            no, leases = next(iter(self._leases.items()))
            if leases.ended_at is None or no.round >= self.collector.closed or leases.ended_at + self.keep_s > now:
                return
            del self._leases[no]
