"""Simulated drivers, one per job; and when a timeline breaks them, or the coordinator.

A driver needs no time: it opens the next attempt at once, with round + 1 after a close and attempt + 1 after an abort.

One that was killed comes back with a higher incarnation, submits its job again and asks for the attempt that was open;
responses wait for it, in their devices. One that is suspended hears what was said to it when it goes on. To a
coordinator that came back it submits its job again, asks for its attempt, and says what it decided in the meantime.

``Programs`` has the rules of ``testbed.live.injector``. A program that is killed while it is suspended is no longer
suspended. Of two entries that keep a program away at the same time the later one says when it is back; one that is
away is not suspended.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, assert_never

from coordinator.engine.effects import AcceptAttempt, AcceptJob, Effect, EndAttempt, EndJob
from coordinator.engine.events import (
    AttemptOpened,
    DriverFollowed,
    DriverLost,
    Event,
    JobEnded,
    JobSubmitted,
    ResponsesRecorded,
)
from coordinator.engine.ids import JobId
from coordinator.engine.model import AttemptEndReason, AttemptStatus, JobEnd, Outcome, Repeat
from job_driver.counting import COUNTS, AttemptNo, Collector, Status
from testbed.simulate.events.presence import Response
from testbed.simulate.model import Break, SimulatedJob

Whom = JobId | None  # the driver of a job; None: the coordinator


class State(Enum):
    """Whether a program runs."""

    THERE = "there"
    STILL = "still"  # what is said to it waits
    AWAY = "away"  # it was killed


THERE, STILL, AWAY = State  # asked for at every event: an enum's attribute takes ten times as long as a name


class Change(NamedTuple):
    """A program's state that changes."""

    whom: Whom
    before: State
    now: State


class _Step(NamedTuple):
    at: float
    begins: bool  # else it ends
    what: Break


class Programs:
    """The states of the coordinator and of the drivers over time."""

    def __init__(self, breaks: Sequence[Break]) -> None:
        steps = [step for one in breaks for step in (_Step(one.at_s, True, one), _Step(one.until_s, False, one))]
        self._steps = sorted(steps, key=lambda step: step.at)[::-1]  # the next one last
        self._states: dict[Whom, State] = {}
        self._lasting: dict[tuple[Whom, State], Break] = {}  # the last that is not over

    def next_at(self) -> float:
        """When something changes. inf: never again."""
        return self._steps[-1].at if self._steps else math.inf

    def take(self) -> Iterator[Change]:
        """What changes next."""
        _, begins, what = self._steps.pop()
        state = STILL if what.stands_still else AWAY
        if begins:
            self._lasting[what.job, state] = what
            if self._state(what.job) is not AWAY:
                yield self._change(what.job, state)
        elif self._lasting.get((what.job, state)) is what:
            del self._lasting[what.job, state]
            if self._state(what.job) is state:
                yield self._change(what.job, THERE)

    def _state(self, whom: Whom) -> State:
        return self._states.get(whom, THERE)

    def _change(self, whom: Whom, state: State) -> Change:
        change = Change(whom, self._state(whom), state)
        self._states[whom] = state
        return change


HEARD: tuple[type[Effect], ...] = (AcceptJob, AcceptAttempt, EndAttempt, EndJob)  # effects that mean something to one

_COUNTED, _STRAGGLER = Outcome.COUNTED, Outcome.STRAGGLER


@dataclass(slots=True)
class Driver:
    """The driver of one job."""

    job: SimulatedJob
    collector: Collector = field(init=False)
    state: State = THERE
    incarnation: int = 1
    arrived: bool = False
    over: bool = False  # its job has ended
    follows: bool = False  # the coordinator has accepted its job, and was not killed since then
    reborn: bool = False  # it was killed since then
    unsaid: list[ResponsesRecorded] = field(default_factory=list)  # what it decided while nobody heard it
    missed: list[Effect | Response] = field(default_factory=list)  # what it has yet to hear, in order

    def __post_init__(self) -> None:
        spec, asynchronous = self.job.spec, self.job.spec.asynchronous
        self.collector = Collector(
            spec.responses_needed,
            rounds=self.job.rounds,
            asynchronous=asynchronous is not None,
            max_staleness=None if asynchronous is None else asynchronous.max_staleness,
            repeat=spec.repeat is Repeat.ALLOW,
        )

    def opens(self) -> Event:
        """The next attempt, or the end of the job after its last round."""
        no = self.collector.next
        if no is None:
            return JobEnded(self.job.spec.job, JobEnd.FINISHED)
        self.collector.open(no)
        return self._asks(no)

    def submits(self) -> list[Event]:
        """Bring the job to the coordinator, or back to it, follow it from where it is, and say what was not heard."""
        spec, latest = self.job.spec, self.collector.latest
        asks = self._asks(latest.no) if latest.status is Status.OPEN else self.opens()
        unsaid, self.unsaid = self.unsaid, []
        again = [replace(one, incarnation=self.incarnation) for one in unsaid]
        return [JobSubmitted(spec, self.incarnation), DriverFollowed(spec.job, self.incarnation), asks, *again]

    def takes(self, response: Response) -> bool:
        """Whether it decides about a response that comes now: between two rounds of an asynchronous job about none."""
        if self.job.spec.asynchronous is None:
            return self.state is THERE
        return self.state is THERE and not self.collector.waits(response.no)

    def forget(self) -> None:
        """What a coordinator has said, and it has not heard yet."""
        self.missed = [each for each in self.missed if isinstance(each, Response)]

    def _asks(self, no: AttemptNo) -> AttemptOpened:
        spec = self.job.spec
        left = None if spec.rounds is None else spec.rounds - no.round + 1
        return AttemptOpened(spec.job, self.incarnation, *no, left)


class Drivers:
    """The drivers of all jobs, by job."""

    def __init__(self, jobs: Iterable[SimulatedJob]) -> None:
        """``jobs`` by (arrival, job id)."""
        self._drivers = {job.spec.job: Driver(job) for job in jobs}
        self._to_come = list(self._drivers.values())[::-1]  # the next one last
        self.next_arrival = self._to_come[-1].job.arrives_s if self._to_come else math.inf  # inf: all jobs have come
        self.unfinished = len(self._drivers)
        self.catching_up: deque[Effect | Response] = deque()  # what drivers that are there have yet to hear

    def arrive(self) -> list[Event]:
        """The next job: its driver, if it is there, submits it, follows it and opens round 1."""
        driver = self._to_come.pop()
        self.next_arrival = self._to_come[-1].job.arrives_s if self._to_come else math.inf
        driver.arrived = True
        driver.opens()
        return driver.submits() if driver.state is THERE else []

    def takes(self, response: Response) -> bool:
        """Whether the driver takes a response; else it has to wait."""
        return self._drivers[response.job].takes(response)

    def keep(self, response: Response) -> None:
        """Keep a response that waits for its driver."""
        self._drivers[response.job].missed.append(response)

    def record(self, response: Response) -> ResponsesRecorded:
        """What its driver tells the coordinator, once it has decided about it."""
        driver = self._drivers[response.job]
        collector, no, lease = driver.collector, response.no, response.lease
        outcome = _COUNTED if collector.decide(no, lease, response.device) is COUNTS else _STRAGGLER
        round_, attempt = collector.into(no)
        return ResponsesRecorded(response.job, driver.incarnation, round_, attempt, ((lease, outcome),))

    def react(self, effect: Effect, _: float = 0.0) -> Event | None:
        """What a driver says at once to ``effect``, one of HEARD; one that is suspended hears of it later."""
        assert isinstance(effect, AcceptJob | AcceptAttempt | EndAttempt | EndJob)
        driver = self._drivers[effect.job]
        if isinstance(effect, EndJob):
            driver.over = True
            self.unfinished -= 1
        elif driver.reborn and not isinstance(effect, AcceptJob):
            return None  # said to the one that was killed, before the coordinator heard of this one
        elif driver.state is STILL:
            driver.missed.append(effect)
        elif driver.state is THERE:
            return self._hear(driver, effect)
        return None

    # -- what the timeline does to them, and to the coordinator

    def unheard(self, event: ResponsesRecorded) -> None:
        """Keep what a driver has decided and no coordinator heard: it says so again."""
        self._drivers[event.job].unsaid.append(event)

    def unsaid(self) -> Iterator[ResponsesRecorded]:
        """What drivers decided and no coordinator has heard of yet."""
        return (event for driver in self._drivers.values() for event in driver.unsaid)

    def submissions(self) -> Iterator[list[Event]]:
        """What each driver that is there says to a coordinator that came back, in order of arrival."""
        for driver in self._drivers.values():
            driver.forget()
            driver.follows = False
        for driver in self._drivers.values():
            if driver.arrived and not driver.over and driver.state is THERE:
                yield driver.submits()

    def stop(self, job: JobId, state: State) -> list[Event]:
        """Kill a driver, or suspend it from here on."""
        driver = self._drivers[job]
        driver.state = state
        if state is STILL:
            return []
        driver.forget()
        knows = driver.arrived and not driver.over and driver.follows
        return [DriverLost(job, driver.incarnation)] if knows else []

    def return_(self, job: JobId, before: State) -> list[Event]:
        """Bring a driver back, or let it go on; what it has to catch up with is yet to be heard."""
        driver = self._drivers[job]
        driver.state = THERE
        if before is AWAY:
            driver.incarnation, driver.reborn = driver.incarnation + 1, True
        self._let_hear(driver)
        submits = before is AWAY or not driver.follows
        return driver.submits() if driver.arrived and not driver.over and submits else []

    def _let_hear(self, driver: Driver) -> None:
        self.catching_up += driver.missed
        driver.missed = []

    def _hear(self, driver: Driver, effect: AcceptJob | AcceptAttempt | EndAttempt) -> Event | None:
        match effect:
            case AcceptJob():
                driver.follows, driver.reborn = True, False
                return None
            case AcceptAttempt(status=AttemptStatus.OPEN) | EndAttempt(reason=AttemptEndReason.CANCELLED):
                return None
            case AcceptAttempt() | EndAttempt():
                ended = driver.collector.end(AttemptNo(effect.round, effect.attempt), Status(effect.status))
                return self._go_on(driver) if ended else None
            case _:
                assert_never(effect)

    def _go_on(self, driver: Driver) -> Event | None:
        says = driver.opens()
        self._let_hear(driver)
        return says if driver.follows else None
