"""What is kept of a simulation while it runs, from the engine's effects: its attempts, and what was useful."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from coordinator.engine.effects import AcceptAttempt, Effect, EndAttempt, EndJob, EndLease, FillAttempt, OfferLease
from coordinator.engine.engine import Engine
from coordinator.engine.events import ResponsesRecorded
from coordinator.engine.ids import LeaseSeq, RequestId
from coordinator.engine.model import AttemptStatus, LeaseEnd
from coordinator.engine.record import Digest
from testbed.runfolder.attempts import Attempts
from testbed.simulate.model import Outcome, Simulation, Unheard
from testbed.world.arrays import Reals

_COUNTED = LeaseEnd.COUNTED


class _Ended(NamedTuple):
    """An attempt that ended: a row of ``Attempts``, in the order of its columns."""

    job: int
    round: int
    attempt: int
    opened_s: float
    filled_s: float
    ended_s: float
    closed: bool
    counted: int


class Accounts:
    """The attempts, lease times and digest of a simulation, from the engine's effects."""

    def __init__(self, simulation: Simulation) -> None:
        # What is noted of an effect at its time; they come in their order.
        self.on: Mapping[type[Effect], Callable[[Any, float], None]] = {
            OfferLease: self._offer_lease,
            EndLease: self._end_lease,
            AcceptAttempt: self._accept_attempt,
            FillAttempt: self._fill_attempt,
            EndAttempt: self._end_attempt,
            EndJob: self._end_job,
        }
        self._jobs = {job.spec.job: index for index, job in enumerate(simulation.jobs)}
        self._digest = Digest()
        self._ended_s = [math.nan] * len(self._jobs)
        self._useful_s = [0.0] * len(self._jobs)  # leased, counted, in rounds that closed
        self._opened: dict[RequestId, float] = {}  # of open attempts
        self._filled: dict[RequestId, float] = {}
        self._counted_s: dict[RequestId, float] = {}  # leased, and counted so far
        self._granted: dict[LeaseSeq, float] = {}  # of live leases
        self._attempts: list[_Ended] = []
        self._breaks = bool(simulation.breaks)
        self._corrected: dict[LeaseSeq, float] = {}  # leased, of leases that a driver may yet have counted

    def outcome(
        self, engine: Engine, check_ins: int, now: float, *, killed: bool, unsaid: Iterable[ResponsesRecorded]
    ) -> Outcome:
        """When it is over, at ``now``. ``killed``: the engine's last event was its last word. ``unsaid``: what drivers
        decided and no coordinator heard of.
        """
        device_s = self._attained(engine, engine.now if killed else now)
        return Outcome(
            ended_s=np.array(self._ended_s),
            attempts=Attempts.of_rows(self._attempts),
            check_ins=check_ins,
            plans=engine.plan_number,
            leases=dict(engine.world.ends),
            live=len(engine.leases),
            device_s=device_s,
            wasted_device_s=_at_least_0(device_s - np.array(self._useful_s)),
            now_s=now,
            digest=self._digest.hex(),
            unheard=tuple(_unheard(unsaid)),
            killed=killed,
            path="events",
        )

    def _attained(self, engine: Engine, now: float) -> Reals:
        return np.array([engine.jobs[job].attained(now) if job in engine.jobs else 0.0 for job in self._jobs])

    def _offer_lease(self, offered: OfferLease, now: float) -> None:
        self._digest.add(now, offered)
        self._granted[offered.lease] = now

    def _end_lease(self, ended: EndLease, now: float) -> None:
        if ended.lease in self._granted:
            seconds = now - self._granted.pop(ended.lease)
        else:
            seconds = self._corrected.pop(ended.lease)
        if ended.reason is not _COUNTED:
            if self._breaks:
                self._corrected[ended.lease] = seconds
        elif ended.request in self._counted_s:
            self._counted_s[ended.request] += seconds

    def _accept_attempt(self, accepted: AcceptAttempt, now: float) -> None:
        self._digest.add(now, accepted)
        if accepted.request not in self._opened and accepted.status is AttemptStatus.OPEN:
            self._opened[accepted.request] = now
            if accepted.deadline_at is None:
                self._filled[accepted.request] = now  # an asynchronous round has no delay of its own
            self._counted_s[accepted.request] = 0.0

    def _fill_attempt(self, filled: FillAttempt, now: float) -> None:
        self._digest.add(now, filled)
        self._filled.setdefault(filled.request, now)

    def _end_attempt(self, ended: EndAttempt, now: float) -> None:
        self._digest.add(now, ended)
        if ended.request in self._opened:  # else an asynchronous round that was not begun
            self._note_end(ended, now)

    def _end_job(self, ended: EndJob, now: float) -> None:
        self._ended_s[self._jobs[ended.job]] = now

    def _note_end(self, ended: EndAttempt, now: float) -> None:
        job = self._jobs[ended.job]
        closed = ended.status is AttemptStatus.CLOSED
        opened, filled = self._opened.pop(ended.request), self._filled.pop(ended.request, now)
        useful_s = self._counted_s.pop(ended.request)
        if closed:
            self._useful_s[job] += useful_s
        self._attempts.append(_Ended(job, ended.round, ended.attempt, opened, filled, now, closed, ended.responses))


def _unheard(unsaid: Iterable[ResponsesRecorded]) -> Iterator[Unheard]:
    for event in unsaid:
        for lease, outcome in event.responses:
            yield Unheard(lease, event.job, event.round, event.attempt, outcome)


def _at_least_0(values: Reals) -> Reals:
    """A difference of two sums of the same terms may fall short of 0 by a rounding."""
    return np.maximum(values, 0.0)
