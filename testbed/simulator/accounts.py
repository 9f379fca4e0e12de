"""What is kept of a simulation while it runs, from the engine's effects: its attempts, and what was useful."""

import math

import numpy as np

from coordinator.engine.effects import AcceptAttempt, Effect, EndAttempt, EndJob, EndLease, FillAttempt, OfferLease
from coordinator.engine.engine import Engine
from coordinator.engine.ids import LeaseSeq, RequestId
from coordinator.engine.model import AttemptStatus, LeaseEnd
from coordinator.engine.record import Digest
from testbed.simulator.model import Attempts, Outcome, Reals, Simulation

_Ended = tuple[int, int, int, float, float, float, bool, int]  # in the order of the fields of Attempts


class Accounts:
    def __init__(self, simulation: Simulation) -> None:
        self._jobs = {job.spec.job: index for index, job in enumerate(simulation.jobs)}
        self._digest = Digest()
        self._ended_s = [math.nan] * len(self._jobs)
        self._useful_s = [0.0] * len(self._jobs)  # leased, counted, in rounds that closed
        self._opened: dict[RequestId, float] = {}  # of open attempts
        self._filled: dict[RequestId, float] = {}
        self._counted_s: dict[RequestId, float] = {}  # leased, and counted so far
        self._granted: dict[LeaseSeq, float] = {}  # of live leases
        self._attempts: list[_Ended] = []

    def note(self, now: float, effects: list[Effect]) -> None:
        """Of one event, in their order."""
        self._digest.update(now, effects)
        for effect in effects:
            match effect:
                case OfferLease():
                    self._granted[effect.lease] = now
                case EndLease():
                    seconds = now - self._granted.pop(effect.lease)
                    if effect.reason is LeaseEnd.COUNTED:
                        self._counted_s[effect.request] += seconds
                case AcceptAttempt():
                    self._opened[effect.request] = now
                    if effect.deadline_at is None:
                        self._filled[effect.request] = now  # an asynchronous round has no delay of its own
                    self._counted_s[effect.request] = 0.0
                case FillAttempt():
                    self._filled.setdefault(effect.request, now)
                case EndAttempt() if effect.request in self._opened:  # else an asynchronous round that was not begun
                    self._end_attempt(now, effect)
                case EndJob():
                    self._ended_s[self._jobs[effect.job]] = now
                case _:
                    pass

    def outcome(self, engine: Engine, check_ins: int, now: float) -> Outcome:
        """When it is over, at ``now``."""
        device_s = np.array([engine.jobs[job].attained(now) if job in engine.jobs else 0.0 for job in self._jobs])
        world = engine.world
        return Outcome(
            ended_s=np.array(self._ended_s),
            attempts=self._table(),
            check_ins=check_ins,
            plans=world.plan_number,
            leases=dict(world.ends),
            live=len(world.leases),
            device_s=device_s,
            wasted_device_s=_at_least_0(device_s - np.array(self._useful_s)),
            now_s=now,
            digest=self._digest.hex(),
            path="events",
        )

    def _end_attempt(self, now: float, ended: EndAttempt) -> None:
        job = self._jobs[ended.job]
        closed = ended.status is AttemptStatus.CLOSED
        opened, filled = self._opened.pop(ended.request), self._filled.pop(ended.request, now)
        useful_s = self._counted_s.pop(ended.request)
        if closed:
            self._useful_s[job] += useful_s
        self._attempts.append((job, ended.round, ended.attempt, opened, filled, now, closed, ended.responses))

    def _table(self) -> Attempts:
        columns = list(zip(*self._attempts, strict=True)) or [()] * 8
        job, round_, attempt, opened, filled, ended, closed, counted = columns
        return Attempts(
            job=np.array(job, np.int32),
            round=np.array(round_, np.int32),
            attempt=np.array(attempt, np.int32),
            opened_s=np.array(opened, np.float64),
            filled_s=np.array(filled, np.float64),
            ended_s=np.array(ended, np.float64),
            closed=np.array(closed, np.bool_),
            counted=np.array(counted, np.int32),
        )


def _at_least_0(values: Reals) -> Reals:
    """A difference of two sums of the same terms may fall short of 0 by a rounding."""
    return np.maximum(values, 0.0)
