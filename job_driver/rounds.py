"""Which responses count. Sans-IO: times come in as numbers, nothing is read or written here.

A response is decided once, at the moment it is acknowledged (its driver decides, nobody else):

- COUNTED: one of the first K distinct leases of an attempt that is open;
- STRAGGLER: it came when K were counted already, or after the attempt ended; or its device counts in the attempt
  already, and the job does not allow it to repeat;
- REJECTED: its lease had ended, or its content does not fit.

An asynchronous job has one request for all its rounds, until an abort: a response to a lease of any of them counts in
the round that is open when it is decided. Its *staleness* is that round less the lease's. Between two rounds nothing is
decided: the next one is not far.

What was decided is the answer to every retry, as a DUPLICATE. An attempt's decisions are kept until the next round
has closed and no ticket for the attempt can still be valid; so memory is bounded by what a few rounds hold.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class AttemptNo(NamedTuple):
    """One attempt at one round; both from 1. Ordered as they happen."""

    round: int
    attempt: int


LEASE_ENDED = "LEASE_ENDED"  # the reason why a response to a lease that is over is rejected
REPEATED = "REPEATED"  # the reason why a response is a straggler whose device counts already


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
    digest: bytes  # of the response, as its device announced it
    reason: str = ""  # of a REJECTED: an UPPER_SNAKE name, then perhaps ": " and a text; REPEATED: of a STRAGGLER


@dataclass(slots=True)
class Attempt:
    """One attempt, the decisions on its leases, and what counts in it."""

    no: AttemptNo
    needed: int  # K, fixed
    incarnation: int = 0  # of the coordinator that grants its leases
    status: Status = Status.OPEN  # CLOSED and ABORTED are final, and are the coordinator's word
    ended_at: float | None = None  # None exactly while OPEN
    decisions: dict[int, Decision] = field(default_factory=dict)  # by lease, in the order they were made
    counted: list[int] = field(default_factory=list)  # leases whose responses count in it, in order; at most ``needed``
    devices: dict[str, int] = field(default_factory=dict)  # that count in it: the lease of each, the latest
    staleness: list[int] = field(default_factory=list)  # of each of them, in rounds, >= 0
    stragglers: int = 0  # that came while it was the one to count in
    gone: dict[int, str] = field(default_factory=dict)  # leases that ended undecided, and why

    @property
    def wants(self) -> bool:
        """Whether one more response would count."""
        return self.status is Status.OPEN and len(self.counted) < self.needed


class Rounds:
    """All attempts of a job that may still be asked about."""

    def __init__(
        self,
        *,
        keep_s: float = math.inf,
        asynchronous: bool = False,
        max_staleness: int | None = None,
        repeat: bool = False,
    ) -> None:
        """``keep_s``: for so many seconds after its end an attempt's tickets may be shown. ``max_staleness``: an older
        response is a straggler. ``repeat``: a device may count several times in an attempt.
        """
        self.keep_s, self._asynchronous, self._max_staleness = keep_s, asynchronous, max_staleness
        self._repeat = repeat
        self._attempts: dict[AttemptNo, Attempt] = {}  # in their order
        self._closed = 0  # the latest round that has
        self._since = AttemptNo(1, 1)  # asynchronous: the first attempt of the present request
        self._over = False
        self.oldest = 1  # asynchronous: responses to the models of earlier rounds cannot count any more

    def open(self, no: AttemptNo, needed: int, *, incarnation: int = 0, anew: bool = False) -> Attempt:
        """An attempt opens; those before it have ended. Raises ValueError where that does not hold.

        ``anew``: with a new request, as after an abort, so that no lease of an earlier attempt counts in it.
        """
        if needed < 1:
            raise ValueError(f"an attempt needs at least one response, not {needed}")
        if self._attempts:
            latest = self._latest
            if latest.no >= no or latest.status is Status.OPEN:
                raise ValueError(f"attempt {no} cannot open after {latest.no}, which is {latest.status}")
            anew = anew or latest.status is Status.ABORTED
        if anew or not self._attempts:
            self._since = no
        self._attempts[no] = Attempt(no, needed, incarnation)
        return self._attempts[no]

    def restore(self, no: AttemptNo, decisions: Iterable[tuple[AttemptNo, Decision, str]]) -> None:
        """What an earlier process of this driver decided in an attempt, on leases of which ones, and of which devices,
        in its order.
        """
        for of, decision, device in decisions:
            if of in self._attempts:
                self._note(self._attempts[of], self._attempts[no], decision, device)

    def finish(self) -> None:
        """No further round opens: what comes now is a straggler."""
        self._over = True

    def into(self, no: AttemptNo) -> Attempt:
        """The attempt in which a response to a lease of ``no`` counts, if it counts."""
        if not self._asynchronous or no < self._since:
            return self._attempts[no]
        return self._latest

    def waits(self, no: AttemptNo, lease: int) -> bool:
        """Whether a response is to be decided once the next round is open, and not before."""
        attempt = self._attempts.get(no)
        if not self._asynchronous or self._over or attempt is None or no < self._since:
            return False
        into = self.into(no)
        between = into.status is Status.CLOSED or (into.status is Status.OPEN and not into.wants)
        return between and not (lease in attempt.decisions or lease in attempt.gone or self._too_old(no, into))

    def find(self, no: AttemptNo) -> Attempt | None:
        """None: it was purged, or never opened."""
        return self._attempts.get(no)

    def foresee(self, no: AttemptNo, lease: int, device: str) -> Outcome | None:
        """What a response that arrives now would be, if its bytes cannot change that; None: they are needed."""
        attempt = self._attempts[no]
        if lease in attempt.gone:
            return Outcome.REJECTED
        into = self.into(no)
        wanted = into.wants and not self._repeats(device, into)
        counts = (wanted or self.waits(no, lease)) and not self._too_old(no, into)
        return None if counts else Outcome.STRAGGLER

    def decide(self, no: AttemptNo, lease: int, device: str, digest: bytes, problem: str = "") -> Decision:
        """Decide, once; a lease that was decided keeps its decision. ``problem``: why the response does not fit."""
        attempt, into = self._attempts[no], self.into(no)
        if lease in attempt.decisions:
            return attempt.decisions[lease]
        if lease in attempt.gone:
            decision = Decision(lease, Outcome.REJECTED, digest, f"{LEASE_ENDED}: {attempt.gone[lease]}")
        elif not into.wants or self._too_old(no, into):
            decision = Decision(lease, Outcome.STRAGGLER, digest)
        elif self._repeats(device, into):
            decision = Decision(lease, Outcome.STRAGGLER, digest, REPEATED)
        elif problem:
            decision = Decision(lease, Outcome.REJECTED, digest, problem)
        else:
            decision = Decision(lease, Outcome.COUNTED, digest)
        self._note(attempt, into, decision, device)
        return decision

    def retract(self, no: AttemptNo, lease: int, problem: str) -> Decision:
        """A decision that could not be written down and was told to nobody becomes REJECTED."""
        attempt, into = self._attempts[no], self.into(no)
        former = attempt.decisions[lease]
        if former.outcome is Outcome.COUNTED and lease in into.counted:
            del into.staleness[into.counted.index(lease)]
            into.counted.remove(lease)
            into.devices = {device: by for device, by in into.devices.items() if by != lease}
        attempt.decisions[lease] = Decision(lease, Outcome.REJECTED, former.digest, problem)
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
        if status is Status.CLOSED:
            self._closed = no.round
        self._purge(now)
        return True

    @property
    def _latest(self) -> Attempt:
        return self._attempts[next(reversed(self._attempts))]

    def _note(self, attempt: Attempt, into: Attempt, decision: Decision, device: str) -> None:
        attempt.decisions[decision.lease] = decision
        if decision.outcome is Outcome.COUNTED:
            into.counted.append(decision.lease)
            into.devices[device] = decision.lease
            into.staleness.append(into.no.round - attempt.no.round)
        into.stragglers += decision.outcome is Outcome.STRAGGLER

    def _repeats(self, device: str, into: Attempt) -> bool:
        return not self._repeat and device in into.devices

    def _too_old(self, no: AttemptNo, into: Attempt) -> bool:
        """Of an asynchronous response: too stale, or its model is not here any more."""
        staleness = into.no.round - no.round
        return no.round < self.oldest or (self._max_staleness is not None and staleness > self._max_staleness)

    def _purge(self, now: float) -> None:
        """The oldest first: attempts end in the order in which they open."""
        while True:
            no, attempt = next(iter(self._attempts.items()))
            if attempt.ended_at is None or no.round >= self._closed or attempt.ended_at + self.keep_s > now:
                return
            del self._attempts[no]
