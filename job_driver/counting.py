"""Decides which responses of a job count, when a round has all that it needs, and which attempt comes next.

Pure: times come in as numbers, and nothing is read or written here. A job's driver and the simulator drive the same
``Collector``: they tell it what opens, comes in and ends, and carry out what it answers. A response is decided once, at
the moment it is acknowledged (its driver decides, nobody else):

- COUNTED: one of the first K distinct leases of an attempt that is open;
- STRAGGLER: it came when K were counted already, or after the attempt ended; or its device counts in the attempt
  already, and the job does not allow it to repeat;
- REJECTED: its lease had ended, or its content does not fit.

An asynchronous job has one request for all its rounds, until an abort: a response to a lease of any of them counts in
the round that is open when it is decided. Its *staleness* is that round less the lease's. Between two rounds nothing is
decided: the next one is not far.

What was decided is the answer to every retry, as a DUPLICATE: a driver decides through ``Receipts``. An attempt's
decisions are kept until the next round has closed and no ticket for the attempt can still be valid; so memory is
bounded by what a few rounds hold.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

LEASE_ENDED = "LEASE_ENDED"  # the reason why a response to a lease that is over is rejected
DeviceId = str | int  # its name, or its number in a simulation


class AttemptNo(NamedTuple):
    """One attempt at one round; both from 1. Ordered as they happen."""

    round: int
    attempt: int


class Outcome(StrEnum):
    """The decision on a response."""

    COUNTED = "counted"
    STRAGGLER = "straggler"
    REJECTED = "rejected"


class Status(StrEnum):
    """The state of an attempt."""

    OPEN = "open"
    CLOSED = "closed"
    ABORTED = "aborted"


class Verdict(NamedTuple):
    """The outcome of a response, and why."""

    outcome: Outcome
    reason: str = ""  # of a REJECTED: an UPPER_SNAKE name, then perhaps ": " and a text; REPEATED: of a STRAGGLER


# An enum's attribute takes ten times as long as a name, and the simulator asks at every response.
COUNTS, LATE, REPEATED = (Verdict(Outcome.COUNTED), Verdict(Outcome.STRAGGLER), Verdict(Outcome.STRAGGLER, "REPEATED"))
_COUNTED, _STRAGGLER = Outcome.COUNTED, Outcome.STRAGGLER
_OPEN, _CLOSED = Status.OPEN, Status.CLOSED


@dataclass(slots=True)
class Attempt:
    """One attempt, and what counts in it."""

    no: AttemptNo
    needed: int  # K, fixed
    status: Status = Status.OPEN  # CLOSED and ABORTED are final, and are the coordinator's word
    counted: list[int] = field(default_factory=list)  # leases whose responses count in it, in order; at most ``needed``
    devices: dict[DeviceId, int] = field(default_factory=dict)  # that count in it: the lease of each, the latest
    staleness: list[int] = field(default_factory=list)  # of each of them, in rounds, >= 0
    stragglers: int = 0  # that came while it was the one to count in

    @property
    def wants(self) -> bool:
        """Whether one more response would count."""
        return self.status is _OPEN and len(self.counted) < self.needed


class Collector:
    """The rounds of one job: the attempt that opened last, what counts in it, and what follows it."""

    def __init__(
        self,
        needed: int,
        *,
        rounds: float = math.inf,
        closed: int = 0,
        asynchronous: bool = False,
        max_staleness: float | None = None,
        repeat: bool = False,
    ) -> None:
        """``needed``: K, responses that fill a round, >= 1. ``rounds``: no round opens after this one; ``closed``: the
        latest one that closed before. ``max_staleness``: an older response is a straggler; None: none is. ``repeat``: a
        device may count several times in an attempt. Raises ValueError.
        """
        if needed < 1:
            raise ValueError(f"a round needs at least one response, not {needed}")
        self._needed, self._rounds = needed, rounds
        self.closed = closed  # the latest round that has
        self._asynchronous, self._repeat = asynchronous, repeat
        self._max_staleness = math.inf if max_staleness is None else max_staleness
        self.latest = Attempt(AttemptNo(0, 0), needed, _CLOSED)  # the attempt that opened last; round 0: none has
        self._since = AttemptNo(1, 1)  # asynchronous: the first attempt of the present request
        self._anew = True  # the next attempt has a new request
        self.oldest = 1  # asynchronous: responses to the models of earlier rounds cannot count any more

    # -- attempts

    @property
    def next(self) -> AttemptNo | None:
        """The attempt that opens after the latest; None: no round is left."""
        if self.closed >= self._rounds:
            return None
        no = self.latest.no
        return AttemptNo(self.closed + 1, no.attempt + 1 if no.round > self.closed else 1)

    def open(self, no: AttemptNo) -> Attempt:
        """Open an attempt; those before it have ended. Raises ValueError where that does not hold."""
        latest = self.latest
        if latest.no >= no or latest.status is _OPEN:
            raise ValueError(f"attempt {no} cannot open after {latest.no}, which is {latest.status}")
        if self._anew:
            self._since, self._anew = no, False
        self.latest = Attempt(no, self._needed)
        return self.latest

    def forget_request(self) -> None:
        """Let no lease of an earlier attempt count in the next one: the coordinator is another one."""
        self._anew = True

    def end(self, no: AttemptNo, status: Status) -> bool:
        """End an attempt, as the coordinator said. False: it is not the open one, and nothing changes."""
        attempt = self.latest
        if attempt.no != no or attempt.status is not _OPEN:
            return False
        attempt.status = status
        if status is _CLOSED:
            self.closed = max(self.closed, no.round)
        else:
            self._anew = True
        return True

    def finish(self) -> None:
        """End the rounds: none opens any more, and what comes now is a straggler."""
        self._rounds = self.closed

    # -- responses

    def into(self, no: AttemptNo) -> AttemptNo:
        """The attempt in which a response to a lease of ``no`` is decided."""
        return self.latest.no if self._asynchronous and no >= self._since else no

    def waits(self, no: AttemptNo) -> bool:
        """Whether a response is to be decided once the next round is open, and not before."""
        latest = self.latest
        if not self._asynchronous or latest.wants or latest.status is Status.ABORTED:
            return False
        return no >= self._since and self.closed < self._rounds and not self._too_old(no)

    def foresee(self, no: AttemptNo, device: DeviceId) -> Outcome | None:
        """The outcome of a response that arrives now, if its bytes cannot change that; None: they are needed."""
        latest = self.latest
        wanted = latest.wants and not self._repeats(device)
        counts = self.into(no) == latest.no and (wanted or self.waits(no)) and not self._too_old(no)
        return None if counts else Outcome.STRAGGLER

    def decide(self, no: AttemptNo, lease: int, device: DeviceId, problem: str = "") -> Verdict:
        """Decide on the response to a lease of the attempt ``no``. ``problem``: why the response does not fit."""
        latest, ages = self.latest, self._asynchronous
        if no != latest.no and not (ages and no >= self._since):
            return LATE
        if latest.status is not _OPEN or len(latest.counted) >= latest.needed or (ages and self._too_old(no)):
            verdict = LATE
        elif device in latest.devices and not self._repeat:
            verdict = REPEATED
        elif problem:
            return Verdict(Outcome.REJECTED, problem)
        else:
            verdict = COUNTS
        self.note(no, lease, device, verdict.outcome)
        return verdict

    def note(self, no: AttemptNo, lease: int, device: DeviceId, outcome: Outcome) -> None:
        """Note a decision in the latest attempt: made now, or by an earlier process of this driver."""
        latest = self.latest
        if outcome is _COUNTED:
            latest.counted.append(lease)
            latest.devices[device] = lease
            latest.staleness.append(latest.no.round - no.round)
        elif outcome is _STRAGGLER:
            latest.stragglers += 1

    def retract(self, lease: int) -> None:
        """Take back a response that counted but could not be written down, which was told to nobody."""
        latest = self.latest
        if lease in latest.counted:
            del latest.staleness[latest.counted.index(lease)]
            latest.counted.remove(lease)
            latest.devices = {device: by for device, by in latest.devices.items() if by != lease}

    def _repeats(self, device: DeviceId) -> bool:
        return not self._repeat and device in self.latest.devices

    def _too_old(self, no: AttemptNo) -> bool:
        """Whether an asynchronous response is too stale, or its model is not here any more."""
        return self.latest.no.round - no.round > self._max_staleness or no.round < self.oldest


class Decision(NamedTuple):
    """The decision on a lease's response, made once."""

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
        """Open an attempt, as ``Collector.open`` does."""
        attempt = self.collector.open(no)
        self._leases[no] = Leases(incarnation)
        return attempt

    def end(self, no: AttemptNo, status: Status, now: float) -> bool:
        """End an attempt, as the coordinator said. False: it is not the open one, and nothing changes."""
        if not self.collector.end(no, status):
            return False
        self._leases[no].ended_at = now
        self._purge(now)
        return True

    def find(self, no: AttemptNo) -> Leases | None:
        """The leases of an attempt; None if it was purged, or never opened."""
        return self._leases.get(no)

    def waits(self, no: AttemptNo, lease: int) -> bool:
        """Whether a response is to be decided once the next round is open, and not before."""
        leases = self._leases.get(no)
        undecided = leases is not None and lease not in leases.decisions and lease not in leases.gone
        return undecided and self.collector.waits(no)

    def foresee(self, no: AttemptNo, lease: int, device: str) -> Outcome | None:
        """The outcome of a response that arrives now, if its bytes cannot change that; None: they are needed."""
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
        """Note what an earlier process of this driver decided in the latest attempt, on a lease of ``no``."""
        if no in self._leases:
            self._leases[no].decisions[decision.lease] = decision
            self.collector.note(no, decision.lease, device, decision.outcome)

    def retract(self, no: AttemptNo, lease: int, problem: str) -> Decision:
        """Reject a response whose decision could not be written down, which was told to nobody."""
        decisions = self._leases[no].decisions
        self.collector.retract(lease)
        decisions[lease] = decisions[lease]._replace(outcome=Outcome.REJECTED, reason=problem)
        return decisions[lease]

    def withdraw(self, no: AttemptNo, lease: int) -> None:
        """Take back a decision that could not be written down for now, and was told to nobody."""
        self.collector.retract(lease)
        del self._leases[no].decisions[lease]

    def lease_ended(self, no: AttemptNo, lease: int, why: str) -> None:
        """Note that the coordinator ended a lease: what its device still submits is refused, unless it was decided."""
        leases = self._leases.get(no)
        if leases is not None and lease not in leases.decisions:
            leases.gone[lease] = why

    def _purge(self, now: float) -> None:
        """Forget attempts, the oldest first: they end in the order in which they open."""
        while True:
            no, leases = next(iter(self._leases.items()))
            if leases.ended_at is None or no.round >= self.collector.closed or leases.ended_at + self.keep_s > now:
                return
            del self._leases[no]
