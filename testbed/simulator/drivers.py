"""Simulated drivers: one per job. What they do when their job arrives, a response comes, an attempt has ended.

A driver needs no time: it opens the next attempt at once, with round + 1 after a close and attempt + 1 after an abort.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.engine.effects import Effect, EndAttempt, EndJob
from coordinator.engine.events import AttemptOpened, DriverFollowed, Event, JobEnded, JobSubmitted, ResponsesRecorded
from coordinator.engine.model import AttemptEndReason, AttemptStatus, JobEnd, Outcome
from testbed.simulator.devices import Response
from testbed.simulator.model import SimulatedJob

_INCARNATION = 1  # no driver is ever restarted


@dataclass(slots=True)
class Driver:
    job: SimulatedJob
    open: tuple[int, int] | None = None  # (round, attempt) of the open attempt
    counted: int = 0  # responses in it

    def opens(self, round_: int, attempt: int) -> AttemptOpened:
        """The next attempt."""
        spec = self.job.spec
        self.open, self.counted = (round_, attempt), 0
        left = None if spec.rounds is None else spec.rounds - round_ + 1
        return AttemptOpened(spec.job, _INCARNATION, round_, attempt, left)


class Drivers:
    def __init__(self, jobs: Iterable[SimulatedJob]) -> None:
        """``jobs`` by (arrival, job id)."""
        self._drivers = {job.spec.job: Driver(job) for job in jobs}
        self._to_come = list(self._drivers.values())[::-1]  # the next one last
        self.unfinished = len(self._drivers)

    def next_arrival(self) -> float:
        """inf: all jobs have come."""
        return self._to_come[-1].job.arrives_s if self._to_come else math.inf

    def arrive(self) -> list[Event]:
        """The next job: its driver submits it, follows it and opens round 1."""
        driver = self._to_come.pop()
        spec = driver.job.spec
        return [
            JobSubmitted(spec, _INCARNATION),
            DriverFollowed(spec.job, _INCARNATION),
            driver.opens(1, 1),
        ]

    def record(self, response: Response) -> ResponsesRecorded:
        """It counts while its attempt is open and has too few; after that it is a straggler.

        Asynchronously it counts in the round that is open now, unless it is too stale.
        """
        driver = self._drivers[response.job]
        asynchronous = driver.job.spec.asynchronous
        if asynchronous is not None and driver.open is not None:
            staleness = driver.open[0] - response.round
            fresh = asynchronous.max_staleness is None or staleness <= asynchronous.max_staleness
            outcome = Outcome.COUNTED if fresh else Outcome.STRAGGLER
            return ResponsesRecorded(response.job, _INCARNATION, *driver.open, ((response.lease, outcome),))
        outcome = Outcome.STRAGGLER
        if driver.open == (response.round, response.attempt) and driver.counted < driver.job.spec.responses_needed:
            outcome = Outcome.COUNTED
            driver.counted += 1
        return ResponsesRecorded(
            response.job, _INCARNATION, response.round, response.attempt, ((response.lease, outcome),)
        )

    def react(self, effect: Effect) -> Event | None:
        """What the driver that hears of ``effect`` says at once."""
        match effect:
            case EndAttempt():
                return self._go_on(effect)
            case EndJob():
                self.unfinished -= 1
                return None
            case _:
                return None

    def _go_on(self, ended: EndAttempt) -> Event | None:
        driver = self._drivers[ended.job]
        driver.open = None
        if ended.reason is AttemptEndReason.CANCELLED:
            return None
        if ended.status is AttemptStatus.ABORTED:
            return driver.opens(ended.round, ended.attempt + 1)
        if ended.round < driver.job.rounds:
            return driver.opens(ended.round + 1, 1)
        return JobEnded(ended.job, JobEnd.FINISHED)
