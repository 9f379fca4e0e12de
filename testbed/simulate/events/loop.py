"""A simulation, event by event: the reference that every faster path is held against.

It drives the engine of the live coordinator. What happens next is the least of (time, class, key):

1. a response, by lease;
2. a device on a limited link says that it has finished, by lease;
3. what the engine has due itself, at exactly its time;
4. the end of a session, by session;
5. a job's arrival, in the order of the simulation's jobs;
6. a check-in, by row;
7. what the timeline does to a program, in its order.

What devices and drivers say when they are told something, they say at once, first in first out in the order of the
engine's effects, before the next event. All that is one turn of the coordinator's loop, and costs one plan: devices are
matched when nobody has anything to say. A response is three steps: its driver records it, then all reactions to that,
then its device says that it has finished, and all reactions to that; with a link to pass that is an event of its own,
later. Sessions are numbered 1, 2, 3 ... by check-in.

With ``Matching.AT_CHECK_IN`` a device reports a limit of one task per session, and says goodbye if nothing was given
to it by the end of its check-in and the reactions to that.

A coordinator that is killed comes back as the same one: its engine goes on, and the sessions are gone. While it is
away devices work on, and drivers decide about responses. When it is back the drivers say what they have to say, by
arrival of their jobs, also what they decided; then the devices that are there check in, by session, with the leases
that they still hold. One that is suspended hears all that is said to it when it goes on, in the order in which it was
said.

It ends when the last job has, with all reactions; or when no check-in and no arrival is to come and no session is
open: then the jobs that are left would wait for ever.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coordinator.engine.effects import Effect
from coordinator.engine.engine import Engine
from coordinator.engine.events import (
    CoordinatorRestarted,
    DeviceCheckedIn,
    Event,
    ResponsesRecorded,
    SessionEnded,
    TimePassed,
    TurnEnded,
)
from coordinator.engine.ids import SessionSeq
from coordinator.engine.model import SessionEnd
from coordinator.engine.plan import Policy
from testbed.simulate.events.accounts import Accounts
from testbed.simulate.events.devices import Devices
from testbed.simulate.events.drivers import AWAY, HEARD, STILL, THERE, Change, Drivers, Programs
from testbed.simulate.events.presence import (
    ARRIVAL,
    BREAK,
    CHECK_IN,
    DUE,
    FINISH,
    RESPONSE,
    SESSION_END,
    Kind,
    Response,
)
from testbed.simulate.model import Outcome, Progress, Simulation, Watch
from testbed.world.arrays import Matching
from venn.wire.process import NOBODY_WAITS, collecting_seldom

Journal = Callable[[float, Event, list[Effect]], None]  # (now, event, its effects), in their order
_Note = Callable[[Any, float], None]
_React = Callable[[Any, float], Event | None]

_LOOK_UP_EVERY = 1024  # events between two calls of the watch
_TURN_ENDED = TurnEnded()


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
    with collecting_seldom(NOBODY_WAITS):
        while run.let_happen(_LOOK_UP_EVERY):
            if watch is not None and not watch(run.progress()):
                break
    return run.outcome()


class _Run:
    def __init__(self, simulation: Simulation, policy: Policy, journal: Journal | None, *, validate: bool) -> None:
        self.programs = Programs(simulation.breaks)
        self._breaks = bool(simulation.breaks)
        self.engine = Engine(simulation.settings, policy)
        self.coordinator = THERE
        self.devices = Devices(simulation)
        self.drivers = Drivers(simulation.jobs)
        self.accounts = Accounts(simulation)
        self.now = 0.0
        self._leaves_unmatched = simulation.matching is Matching.AT_CHECK_IN
        self._until_s = simulation.until_s
        self._jobs = len(simulation.jobs)
        self._journal = journal
        self._validate = validate
        self._watched = validate or journal is not None
        self._said: deque[Event] = deque()  # reactions that the engine has not heard yet
        self._inbox: deque[Event] = deque()  # what a coordinator that is suspended has yet to hear
        self._on_kind: Mapping[Kind, Callable[[], None]] = {
            RESPONSE: self._next_response,
            FINISH: self._finish,
            DUE: self._pass_time,
            SESSION_END: self._end_session,
            ARRIVAL: self._arrive_job,
            CHECK_IN: self._arrive,
            BREAK: self._change,
        }
        notes, reactions = self.accounts.on, {**self.devices.on, **dict.fromkeys(HEARD, self.drivers.react)}
        self._on_effect: Mapping[type, tuple[_Note | None, _React | None]] = {
            kind: (notes.get(kind), reactions.get(kind)) for kind in {**notes, **reactions}
        }

    def progress(self) -> Progress:
        return Progress(self.now, self.devices.check_ins, self._jobs - self.drivers.unfinished)

    def let_happen(self, steps: int) -> bool:
        """Let so many things happen, one after the other. False: it is over."""
        devices, drivers, on_kind = self.devices, self.drivers, self._on_kind
        for _ in range(steps):
            if drivers.unfinished == 0:
                return False
            at, arrival = devices.next_check_in, drivers.next_arrival
            if at == -math.inf:
                devices.read()
                return True  # there may be many blocks without rows: the watch is called in between
            if at == arrival == math.inf and not self._anybody():
                return False
            what = CHECK_IN
            if arrival <= at:
                at, what = arrival, ARRIVAL
            if devices.due.soonest <= at:
                first = devices.due.first()
                if first is not None and first[0] <= at:
                    at, what, _ = first
            due = self.engine.next_deadline(at) if self.coordinator is THERE else None
            if due is not None and (due < at or (due == at and what > DUE)):
                at, what = due, DUE
            if self._breaks and (change := self.programs.next_at()) < at:
                at, what = change, BREAK
            if at > self._until_s:
                self.now = self._until_s
                return False
            self.now = at
            on_kind[what]()
            while drivers.catching_up:
                self._catch_up(drivers.catching_up.popleft())
        return True

    def outcome(self) -> Outcome:
        killed, unsaid = self.coordinator is AWAY, self.drivers.unsaid()
        return self.accounts.outcome(self.engine, self.devices.check_ins, self.now, killed=killed, unsaid=unsaid)

    def _anybody(self) -> bool:
        """Whether a session is open, or somebody waits for a coordinator, or it has yet to hear what was said to it."""
        if self.coordinator is THERE:
            return bool(self.engine.sessions)
        comes_back = self.programs.next_at() < math.inf
        return self.devices.attended or bool(self._inbox) or (comes_back and any(self.drivers.unsaid()))

    def _finish(self) -> None:
        self._say(self.devices.finish())

    def _pass_time(self) -> None:
        self._say(TimePassed())

    def _end_session(self) -> None:
        ended = self.devices.end()
        if ended is not None:
            self._say(ended)

    def _arrive_job(self) -> None:
        self._say(*self.drivers.arrive())

    def _change(self) -> None:
        for change in self.programs.take():
            self._break(change)

    def _arrive(self) -> None:
        session, missed = self.devices.arrive()
        if missed is None and self.coordinator is not AWAY:
            self._check_in(self.devices.check_in(session))
        for effect in missed or ():
            answer = self.devices.react(effect, self.now)
            if answer is not None:
                self._say(answer)

    def _next_response(self) -> None:
        self._respond(self.devices.respond())

    def _respond(self, response: Response) -> None:
        if not self.drivers.takes(response):
            self.drivers.keep(response)
            return
        self.devices.let_go(response)
        record = self.drivers.record(response)
        self._say(record)
        _, outcome = record.responses[0]
        finished = self.devices.acknowledge(response, outcome, self.now)
        if finished is not None:
            self._say(finished)

    def _check_in(self, event: DeviceCheckedIn) -> None:
        self._say(event)
        if self.coordinator is THERE:
            self._check_out_idle(event.session)

    def _check_out_idle(self, session: SessionSeq) -> None:
        if self._leaves_unmatched and self.devices.idles(session):
            self._say(SessionEnded(session, SessionEnd.GOODBYE_SESSION_OVER))

    def _catch_up(self, missed: Effect | Response) -> None:
        """A driver hears of what it has missed."""
        if not isinstance(missed, Response):
            answer = self.drivers.react(missed)
            if answer is not None:
                self._say(answer)
        elif self.devices.has(missed):  # else its device has left, or was told to stop
            self._respond(missed)

    # -- programs

    def _break(self, change: Change) -> None:
        job, before, state = change
        if job is not None and state is THERE:
            self._say(*self.drivers.return_(job, before))
        elif job is not None:
            self._say(*self.drivers.stop(job, state))
        elif state is AWAY:
            self._die()
        elif before is AWAY:
            self._begin()
        elif state is THERE:
            self._go_on()
        else:
            self.coordinator = state

    def _die(self) -> None:
        """Kill the coordinator. What it has yet to hear it will never hear."""
        self.coordinator = AWAY
        while self._inbox:
            self._lose(self._inbox.popleft())

    def _begin(self) -> None:
        """Bring the coordinator back; drivers and devices connect to it again."""
        self.coordinator = THERE
        sessions = self.devices.connect_again(self.now)
        self._say(CoordinatorRestarted(stopped=False))
        for events in self.drivers.submissions():
            self._say(*events)
        for session in sessions:
            self._check_in(self.devices.check_in(session))

    def _go_on(self) -> None:
        self.coordinator = THERE
        self._say(TimePassed())
        while self._inbox:
            event = self._inbox.popleft()
            self._say(event)
            if isinstance(event, DeviceCheckedIn):
                self._check_out_idle(event.session)

    def _lose(self, event: Event) -> None:
        """Lose what was said to a coordinator that is away."""
        if isinstance(event, ResponsesRecorded):
            self.drivers.unheard(event)
        else:
            self.devices.unheard(event)

    def _miss(self, events: Iterable[Event]) -> None:
        if self.coordinator is STILL:
            self._inbox.extend(events)
        else:
            for event in events:
                self._lose(event)

    def _say(self, *events: Event) -> None:
        """The engine hears of the events, and of every reaction to them, first in first out."""
        if self.coordinator is not THERE:
            self._miss(events)
            return
        said, now, on_effect = self._said, self.now, self._on_effect
        world, handle = self.engine.world, self.engine.handle
        said.extend(events)
        while said or world.is_unsettled():
            event = said.popleft() if said else _TURN_ENDED
            effects = handle(event, now)
            if self._watched:
                self._show(event, effects)
            for effect in effects:
                how = on_effect.get(effect.__class__)
                if how is None:
                    continue
                note, react = how
                if note is not None:
                    note(effect, now)
                if react is not None and (answer := react(effect, now)) is not None:
                    said.append(answer)

    def _show(self, event: Event, effects: list[Effect]) -> None:
        if self._journal is not None:
            self._journal(self.now, event, effects)
        if self._validate:
            self.engine.validate()
