"""Which responses count. Sans-IO: times come in as numbers, nothing is read or written here.

A response is decided once, at the moment it is acknowledged (its driver decides, nobody else):

- COUNTED: one of the first K distinct leases of an attempt that is open;
- STRAGGLER: it came when K were counted already, or after the attempt ended;
- REJECTED: its lease had ended, or its content does not fit.

What was decided is the answer to every retry, as a DUPLICATE. An attempt's decisions are kept until the next round
has closed and no ticket for the attempt can still be valid; so memory is bounded by what a few rounds hold.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class AttemptNo(NamedTuple):
    """One attempt at one round; both from 1. Ordered as they happen."""

    round: int
    attempt: int


LEASE_ENDED = "LEASE_ENDED"  # the reason why a response to a lease that is over is rejected


class Outcome(StrEnum):
    COUNTED = "counted"
    STRAGGLER = "straggler"
    REJECTED = "rejected"


class Status(StrEnum):
    OPEN = "open"
    CLOSED = "closed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Decision:
    """The one word on a lease's response."""

    lease: int
    outcome: Outcome
    sha256: bytes  # of the response, as its device announced it
    reason: str = ""  # of a REJECTED: an UPPER_SNAKE name, then perhaps ": " and a text


@dataclass(slots=True)
class Attempt:
    """One attempt and its decisions."""

    no: AttemptNo
    needed: int  # K, fixed
    status: Status = Status.OPEN  # CLOSED and ABORTED are final, and are the coordinator's word
    ended_at: float | None = None  # None exactly while OPEN
    decisions: dict[int, Decision] = field(default_factory=dict)  # by lease, in the order they were made
    counted: list[int] = field(default_factory=list)  # leases decided COUNTED, in that order; at most ``needed``
    gone: dict[int, str] = field(default_factory=dict)  # leases that ended undecided, and why

    @property
    def stragglers(self) -> int:
        return sum(d.outcome is Outcome.STRAGGLER for d in self.decisions.values())

    @property
    def wants(self) -> bool:
        """Whether one more response would count."""
        return self.status is Status.OPEN and len(self.counted) < self.needed

    def note(self, decision: Decision) -> None:
        self.decisions[decision.lease] = decision
        if decision.outcome is Outcome.COUNTED:
            self.counted.append(decision.lease)


class Rounds:
    """All attempts of a job that may still be asked about."""

    def __init__(self, *, keep_s: float) -> None:
        """``keep_s``: for so many seconds after its end an attempt's tickets may be shown."""
        self._keep_s = keep_s
        self._attempts: dict[AttemptNo, Attempt] = {}

    def open(self, no: AttemptNo, needed: int) -> Attempt:
        """An attempt opens; those before it have ended. Raises ValueError where that does not hold."""
        if needed < 1:
            raise ValueError(f"an attempt needs at least one response, not {needed}")
        if self._attempts:
            latest = self._attempts[max(self._attempts)]
            if latest.no >= no or latest.status is Status.OPEN:
                raise ValueError(f"attempt {no} cannot open after {latest.no}, which is {latest.status}")
        self._attempts[no] = Attempt(no, needed)
        return self._attempts[no]

    def restore(self, no: AttemptNo, decisions: Iterable[Decision]) -> None:
        """What an earlier process of this driver decided about an attempt, in its order."""
        for decision in decisions:
            self._attempts[no].note(decision)

    def find(self, no: AttemptNo) -> Attempt | None:
        """None: it was purged, or never opened."""
        return self._attempts.get(no)

    def foresee(self, no: AttemptNo, lease: int) -> Outcome | None:
        """What a response that arrives now would be, if its bytes cannot change that; None: they are needed."""
        attempt = self._attempts[no]
        if lease in attempt.gone:
            return Outcome.REJECTED
        return None if attempt.wants else Outcome.STRAGGLER

    def decide(self, no: AttemptNo, lease: int, sha256: bytes, problem: str = "") -> Decision:
        """Decide, once; a lease that was decided keeps its decision. ``problem``: why the response does not fit."""
        attempt = self._attempts[no]
        if lease in attempt.decisions:
            return attempt.decisions[lease]
        if lease in attempt.gone:
            decision = Decision(lease, Outcome.REJECTED, sha256, f"{LEASE_ENDED}: {attempt.gone[lease]}")
        elif not attempt.wants:
            decision = Decision(lease, Outcome.STRAGGLER, sha256)
        elif problem:
            decision = Decision(lease, Outcome.REJECTED, sha256, problem)
        else:
            decision = Decision(lease, Outcome.COUNTED, sha256)
        attempt.note(decision)
        return decision

    def retract(self, no: AttemptNo, lease: int, problem: str) -> Decision:
        """A decision that could not be written down and was told to nobody becomes REJECTED."""
        attempt = self._attempts[no]
        former = attempt.decisions[lease]
        if former.outcome is Outcome.COUNTED:
            attempt.counted.remove(lease)
        attempt.note(Decision(lease, Outcome.REJECTED, former.sha256, problem))
        return attempt.decisions[lease]

    def lease_ended(self, no: AttemptNo, lease: int, why: str) -> None:
        """The coordinator ended a lease: what its device still submits is refused, unless it was decided."""
        attempt = self._attempts.get(no)
        if attempt is not None and lease not in attempt.decisions:
            attempt.gone[lease] = why

    def end(self, no: AttemptNo, status: Status, now: float) -> bool:
        """The coordinator's word on an attempt. False: it had ended before, and nothing changes."""
        attempt = self._attempts[no]
        if attempt.status is not Status.OPEN:
            return False
        attempt.status, attempt.ended_at = status, now
        self._purge(now)
        return True

    def _purge(self, now: float) -> None:
        closed = max((no.round for no, a in self._attempts.items() if a.status is Status.CLOSED), default=0)
        for no, attempt in list(self._attempts.items()):
            if attempt.ended_at is not None and no.round < closed and attempt.ended_at + self._keep_s <= now:
                del self._attempts[no]
