"""A simulation, event by event: the reference that every faster path is held against.

It drives the engine of the live coordinator. What happens next is the least of (time, class, key):

1. a response, by lease;
2. a device on a limited link says that it has finished, by lease;
3. what the engine has due itself, at exactly its time;
4. the end of a session, by session;
5. a job's arrival, in the order of the simulation's jobs;
6. a check-in, by row.

What devices and drivers say when they are told something, they say at once, first in first out in the order of the
engine's effects, before the next event. A response is three steps: its driver records it, then all reactions to that,
then its device says that it has finished, and all reactions to that; with a link to pass that is an event of its own,
later. Sessions are numbered 1, 2, 3 ... by check-in.

With ``Matching.AT_CHECK_IN`` a device reports a limit of one task per session, and says goodbye if nothing was given
to it by the end of its check-in and the reactions to that.

It ends when the last job has, with all reactions; or when no check-in and no arrival is to come and no session is
open: then the jobs that are left would wait for ever.
"""

import math
from collections import deque
from collections.abc import Callable
from enum import IntEnum

from coordinator.engine.effects import Effect
from coordinator.engine.engine import Engine
from coordinator.engine.events import Event, SessionEnded, TimePassed
from coordinator.engine.ids import SessionSeq
from coordinator.engine.model import SessionEnd
from coordinator.engine.plan import Policy
from testbed.simulator.accounts import Accounts
from testbed.simulator.devices import Devices
from testbed.simulator.drivers import Drivers
from testbed.simulator.model import Matching, Outcome, Progress, Simulation, Watch

Journal = Callable[[float, Event, list[Effect]], None]  # (now, event, its effects), in their order

_LOOK_UP_EVERY = 1024  # events between two calls of the watch


class _Class(IntEnum):
    RESPONSE = 1
    FINISH = 2
    DUE = 3
    SESSION_END = 4
    ARRIVAL = 5
    CHECK_IN = 6


def simulate_events(
    simulation: Simulation,
    policy: Policy,
    *,
    journal: Journal | None = None,
    validate: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """Run it to its end. ``validate``: check every invariant of the engine after every event (slow).

    Raises InvariantError, and whatever the policy raises.
    """
    run = _Run(simulation, policy, journal, validate=validate)
    steps = 0
    while run.step():
        steps += 1
        if watch is not None and steps % _LOOK_UP_EVERY == 0 and not watch(run.progress()):
            break
    return run.accounts.outcome(run.engine, run.devices.check_ins, run.now)


class _Run:
    def __init__(self, simulation: Simulation, policy: Policy, journal: Journal | None, *, validate: bool) -> None:
        self.engine = Engine(simulation.settings, policy)
        self.devices = Devices(simulation)
        self.drivers = Drivers(simulation.jobs)
        self.accounts = Accounts(simulation)
        self.now = 0.0
        self._leaves_unmatched = simulation.matching is Matching.AT_CHECK_IN
        self._until_s = simulation.until_s
        self._jobs = len(simulation.jobs)
        self._journal = journal
        self._validate = validate
        self._said: deque[Event] = deque()  # reactions that the engine has not heard yet

    def progress(self) -> Progress:
        return Progress(self.now, self.devices.check_ins, self._jobs - self.drivers.unfinished)

    def step(self) -> bool:
        """Let the next thing happen. False: it is over."""
        if self.drivers.unfinished == 0:
            return False
        devices, drivers = self.devices, self.drivers
        check_in, arrival = devices.next_check_in(), drivers.next_arrival()
        if check_in == arrival == math.inf and not self.engine.sessions:
            return False
        due = self.engine.next_deadline()
        at, what = min(
            (devices.next_response(), _Class.RESPONSE),
            (devices.next_finish(), _Class.FINISH),
            (math.inf if due is None else due, _Class.DUE),
            (devices.next_end(), _Class.SESSION_END),
            (arrival, _Class.ARRIVAL),
            (check_in, _Class.CHECK_IN),
        )
        if at > self._until_s:
            self.now = self._until_s
            return False
        self.now = at
        self._happen(what)
        return True

    def _happen(self, what: _Class) -> None:
        match what:
            case _Class.RESPONSE:
                self._respond()
            case _Class.FINISH:
                self._say(self.devices.finish())
            case _Class.DUE:
                self._say(TimePassed())
            case _Class.SESSION_END:
                self._say(self.devices.end())
            case _Class.ARRIVAL:
                self._say(*self.drivers.arrive())
            case _Class.CHECK_IN:
                event = self.devices.check_in()
                self._say(event)
                self._check_out_idle(event.session)

    def _respond(self) -> None:
        response = self.devices.respond()
        record = self.drivers.record(response)
        self._say(record)
        (_, outcome), *_ = record.responses
        finished = self.devices.acknowledge(response, outcome)
        if finished is not None:
            self._say(finished)

    def _check_out_idle(self, session: SessionSeq) -> None:
        if self._leaves_unmatched and self.devices.idles(session):
            self._say(SessionEnded(session, SessionEnd.GOODBYE_SESSION_OVER))

    def _say(self, *events: Event) -> None:
        """The engine hears of the events, and of every reaction to them, first in first out."""
        said = self._said
        said.extend(events)
        while said:
            event = said.popleft()
            effects = self.engine.handle(event, self.now)
            self.accounts.note(self.now, effects)
            if self._journal is not None:
                self._journal(self.now, event, effects)
            if self._validate:
                self.engine.validate()
            for effect in effects:
                answer = self.devices.react(effect, self.now) or self.drivers.react(effect)
                if answer is not None:
                    said.append(answer)
