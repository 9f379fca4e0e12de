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

A coordinator that is killed takes all with it that it knows: sessions, leases and attempts are over. While it is away
devices work on, and drivers decide about responses, of which nobody hears. Another one, with the next number, begins
with an engine and a policy that know nothing; first the drivers say what they have to say, by arrival of their jobs,
then the devices that are there check in, by session, with the leases that they still hold, which are taken back. One
that stands still hears all that is said to it when it goes on, in the order in which it was said.

It ends when the last job has, with all reactions; or when no check-in and no arrival is to come and no session is
open: then the jobs that are left would wait for ever.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from copy import deepcopy

from coordinator.engine.effects import Effect
from coordinator.engine.engine import Engine
from coordinator.engine.events import DeviceCheckedIn, Event, ResponsesRecorded, SessionEnded, TimePassed, TurnEnded
from coordinator.engine.ids import SessionSeq
from coordinator.engine.model import SessionEnd
from coordinator.engine.plan import Policy
from testbed.simulator import devices, drivers
from testbed.simulator.accounts import Accounts
from testbed.simulator.devices import Devices
from testbed.simulator.drivers import Drivers
from testbed.simulator.model import Matching, Outcome, Progress, Simulation, Watch
from testbed.simulator.presence import Kind, Response
from testbed.simulator.programs import Change, Programs, State
from venn.wire.memory import collecting_seldom

Journal = Callable[[float, Event, list[Effect]], None]  # (now, event, its effects), in their order
Reborn = Callable[[float], None]  # another coordinator begins now

_LOOK_UP_EVERY = 1024  # events between two calls of the watch


def simulate_events(
    simulation: Simulation,
    policy: Policy,
    *,
    journal: Journal | None = None,
    reborn: Reborn | None = None,
    validate: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """Run it to its end. ``validate``: check every invariant of the engine after every event (slow).

    ``policy`` is fresh; each coordinator that begins after one was killed has a copy of it as it was.

    Raises InvariantError, and whatever the policy raises.
    """
    run = _Run(simulation, policy, journal, reborn, validate=validate)
    steps = 0
    with collecting_seldom():
        while run.step():
            steps += 1
            if watch is not None and steps % _LOOK_UP_EVERY == 0 and not watch(run.progress()):
                break
    return run.outcome()


class _Run:
    def __init__(
        self, simulation: Simulation, policy: Policy, journal: Journal | None, reborn: Reborn | None, *, validate: bool
    ) -> None:
        self.programs = Programs(simulation.breaks)
        self._breaks = bool(simulation.breaks)
        self._fresh = deepcopy(policy) if self._breaks else policy
        self.engine = Engine(simulation.settings, policy)  # of the coordinator, or of the one that was killed
        self.coordinator = State.THERE
        self.devices = Devices(simulation)
        self.drivers = Drivers(simulation.jobs)
        self.accounts = Accounts(simulation)
        self.now = 0.0
        self._leaves_unmatched = simulation.matching is Matching.AT_CHECK_IN
        self._until_s = simulation.until_s
        self._jobs = len(simulation.jobs)
        self._journal, self._reborn = journal, reborn
        self._validate = validate
        self._said: deque[Event] = deque()  # reactions that the engine has not heard yet
        self._inbox: deque[Event] = deque()  # what a coordinator that stands still has yet to hear

    def progress(self) -> Progress:
        return Progress(self.now, self.devices.check_ins, self._jobs - self.drivers.unfinished)

    def step(self) -> bool:
        """Let the next thing happen. False: it is over."""
        if self.drivers.unfinished == 0:
            return False
        check_in, arrival = self.devices.next_check_in(), self.drivers.next_arrival()
        if check_in == arrival == math.inf and not self._anybody():
            return False
        at, what = self.devices.next_due()
        due = self.engine.next_deadline(until=at) if self.coordinator is State.THERE else None
        if due is not None and (due < at or (due == at and what > Kind.DUE)):
            at, what = due, Kind.DUE
        if arrival < at:
            at, what = arrival, Kind.ARRIVAL
        if check_in < at:
            at, what = check_in, Kind.CHECK_IN
        if self._breaks and (change := self.programs.next_at()) < at:
            at, what = change, Kind.BREAK
        if at > self._until_s:
            self.now = self._until_s
            return False
        self.now = at
        self._happen(what)
        while self.drivers.catching_up:
            self._catch_up(self.drivers.catching_up.popleft())
        return True

    def outcome(self) -> Outcome:
        killed = self.coordinator is State.AWAY
        return self.accounts.outcome(self.engine, self.devices.check_ins, self.now, killed=killed)

    def _anybody(self) -> bool:
        """A session is open, or somebody waits for a coordinator, or it has yet to hear what was said to it."""
        return bool(self.engine.sessions if self.coordinator is State.THERE else self.devices.attended or self._inbox)

    def _happen(self, what: Kind) -> None:
        match what:
            case Kind.CHECK_IN:
                self._arrive()
            case Kind.RESPONSE:
                self._respond(self.devices.respond())
            case Kind.FINISH:
                self._say(self.devices.finish())
            case Kind.DUE:
                self._say(TimePassed())
            case Kind.SESSION_END:
                ended = self.devices.end()
                if ended is not None:
                    self._say(ended)
            case Kind.ARRIVAL:
                self._say(*self.drivers.arrive())
            case Kind.BREAK:
                for change in self.programs.take():
                    self._break(change)

    def _arrive(self) -> None:
        session, missed = self.devices.arrive()
        if missed is None and self.coordinator is not State.AWAY:
            self._check_in(self.devices.check_in(session))
        for effect in missed or ():
            answer = self.devices.react(effect, self.now)
            if answer is not None:
                self._say(answer)

    def _respond(self, response: Response) -> None:
        if not self.drivers.takes(response):
            self.drivers.keep(response)
            return
        self.devices.let_go(response)
        if response.life != self.drivers.life:  # a coordinator that is away will never hear of it
            return
        record = self.drivers.record(response)
        self._say(record)
        (_, outcome), *_ = record.responses
        finished = self.devices.acknowledge(response, outcome, self.now)
        if finished is not None:
            self._say(finished)

    def _check_in(self, event: DeviceCheckedIn) -> None:
        self._say(event)
        if self.coordinator is State.THERE:
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
        if job is not None and state is State.THERE:
            self._say(*self.drivers.return_(job, before))
        elif job is not None:
            self._say(*self.drivers.stop(job, state))
        elif state is State.AWAY:
            self._die()
        elif before is State.AWAY:
            self._begin()
        elif state is State.THERE:
            self._go_on()
        else:
            self.coordinator = state

    def _die(self) -> None:
        """The coordinator is killed; the last that it does is to look at its clock, so that its end has a time."""
        self._say(TimePassed())
        self.coordinator = State.AWAY
        while self._inbox:
            self._lose(self._inbox.popleft())

    def _begin(self) -> None:
        """Another coordinator."""
        self.accounts.end_life(self.engine)
        self.engine = Engine(self.engine.settings, deepcopy(self._fresh))
        self.coordinator = State.THERE
        if self._reborn is not None:
            self._reborn(self.now)
        for events in self.drivers.submissions():
            self._say(*events)
        for check_in in self.devices.check_in_again(self.now):
            self._check_in(check_in)

    def _go_on(self) -> None:
        self.coordinator = State.THERE
        self._say(TimePassed())
        while self._inbox:
            event = self._inbox.popleft()
            self._say(event)
            if isinstance(event, DeviceCheckedIn):
                self._check_out_idle(event.session)

    def _lose(self, event: Event) -> None:
        """It was said to a coordinator that is away."""
        if isinstance(event, ResponsesRecorded):
            self.accounts.unheard(self.drivers.life, event)
        else:
            self.devices.unheard(event)

    def _miss(self, events: Iterable[Event]) -> None:
        if self.coordinator is State.STILL:
            self._inbox.extend(events)
        else:
            for event in events:
                self._lose(event)

    def _say(self, *events: Event) -> None:
        """The engine hears of the events, and of every reaction to them, first in first out."""
        if self.coordinator is not State.THERE:
            self._miss(events)
            return
        said = self._said
        said.extend(events)
        while said:
            self._hear(said.popleft())
            if not said and self.engine.unsettled:
                self._hear(TurnEnded())

    def _hear(self, event: Event) -> None:
        effects = self.engine.handle(event, self.now)
        self.accounts.note(self.now, effects)
        if self._journal is not None:
            self._journal(self.now, event, effects)
        if self._validate:
            self.engine.validate()
        for effect in effects:
            if effect.__class__ in devices.HEARD:
                answer = self.devices.react(effect, self.now)
            elif effect.__class__ in drivers.HEARD:
                answer = self.drivers.react(effect)
            else:
                continue
            if answer is not None:
                self._said.append(answer)
