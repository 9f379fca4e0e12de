"""The shell around the engine: a clock, one timer, the journal, and the way out for effects.

Events are handled at once, as of the time that was read last: when their turn of the event loop began, or since. At the
end of the turn the engine makes its plan and matches devices, once for all of them; then their effects leave, after the
turn's journal lines are with the system, or on the disk (``durability``). So nobody is told what a crash could make
unsaid, and a busy turn costs one plan and one write. While the disk is full all that happens waits.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, TypeVar

from coordinator.engine.effects import Effect
from coordinator.engine.engine import Engine
from coordinator.engine.events import Event, JournalRotated, TimePassed, TurnEnded
from coordinator.engine.image import image_of
from coordinator.service.durability import Committer, Durability
from coordinator.service.facts import Fact, Facts
from coordinator.service.journal import Journal

E = TypeVar("E", bound=Effect)
Turn = list[tuple[float, list[Effect], "Recorded | None"]]  # (engine time, effects, who waits for the record)
Listener = Callable[[float, E], None]
Recorded = Callable[[list[Effect]], None]
Noted = Callable[[list[Effect]], Iterable[Fact]]
Clock = Callable[[], float]  # engine time: seconds since the first coordinator of a run started, never decreasing

SHORTEST_TIMER_S = 0.001


class Timer(Protocol):
    """A call that is to come, which can be cancelled."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]  # delay in seconds


def boot_clock() -> Clock:
    """A clock that starts at 0 now and goes on while the machine is suspended (where the system has such a clock)."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)  # Linux only
    read = time.monotonic if boot_time is None else partial(time.clock_gettime, boot_time)
    started = read()
    return lambda: read() - started


class Host:
    """One engine on one event loop.

    ``failure`` is done when the coordinator cannot go on: the journal cannot be written (a full disk is waited for), or
    the engine met a bug. From then on events are dropped and nothing leaves.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock,
        wall_ms: int,
        incarnation: int,
        call_later: CallLater | None = None,
        journal: Journal | None = None,
        facts: Facts | None = None,
        durability: Durability = Durability.OFF,
        validate: bool = False,
    ) -> None:
        """``wall_ms``: Unix milliseconds at engine time 0, when the first coordinator of this folder started.
        ``facts``: those that stand.
        """
        self.engine = engine
        self.facts = facts or Facts()  # only read them: ``note`` and ``keep`` change them
        self.loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self.loop.create_future()
        self.incarnation = incarnation  # for all its life; peers ask of it only whether it is the one they know
        self._clock, self._wall_ms, self._journal, self._validate = clock, wall_ms, journal, validate
        self.call_later = call_later or self.loop.call_later
        self._listeners: defaultdict[type, list[Callable[[float, Effect], None]]] = defaultdict(list)
        self._turn: Turn = []  # handled, not yet recorded
        self._commit = None if journal is None else self._committer(journal, durability)
        self._space = asyncio.Event()  # set when there is space again
        self._watchers: list[Callable[[bool], None]] = []
        self._waiting: list[Callable[[], None]] = []  # what happened while the disk is full: bounded by the streams
        self._now = engine.now
        self._timer: Timer | None = None
        self._timer_at = float("inf")

    def _committer(self, journal: Journal, durability: Durability) -> "Committer[Turn]":
        return Committer(
            journal,
            durability,
            leave=self._leave,
            fail=self.fail,
            call_later=self.call_later,
            changed=self._space_changed,
        )

    # -- time

    def now(self) -> float:
        """Engine seconds, to the microsecond (short in the journal); never decreases."""
        now = int(self._clock() * 1e6) / 1e6
        self._now = max(self._now, now)
        return self._now

    @property
    def latest(self) -> float:
        """The engine time that ``now`` gave last, when the turn began or later."""
        return self._now

    def wall_ms(self, at: float) -> int:
        """The coordinator's time at an engine time, in Unix milliseconds."""
        return self._wall_ms + int(at * 1000)

    # -- events in, effects out

    def listen(self, kind: type[E], listener: Callable[[float, E], None]) -> None:
        """Call ``listener(engine time, effect)`` for each effect of this kind that leaves, in order."""
        self._listeners[kind].append(listener)  # type: ignore[arg-type]  # called with this kind only

    def handle(self, event: Event, recorded: Recorded | None = None, facts: Noted | None = None) -> None:
        """Let the engine handle an event. ``recorded(effects)`` is called when it is recorded, before they leave.

        They are the answers to this event: offers are made at the end of the turn, for all of its events. The facts
        that follow from them, ``facts(effects)``, are recorded with the event.
        """
        if self.failure.done():
            return
        if self.full:
            self._waiting.append(partial(self.handle, event, recorded, facts))
            return
        self._begin_turn()
        self._let_happen(event, recorded, self._now)
        if facts is not None and not self.failure.done():
            for fact in facts(self._turn[-1][1]):
                self.note(fact)

    def note(self, fact: Fact, recorded: Recorded | None = None) -> None:
        """Let a fact stand from here on. It is recorded in this turn, before anything leaves; then ``recorded([])`` is
        called.
        """
        if self.failure.done():
            return
        if self.full:
            self._waiting.append(partial(self.note, fact, recorded))
            return
        self._begin_turn()
        self.facts.note(fact)
        if self._journal is not None:
            self._journal.note(self._now, fact)
        self._turn.append((self._now, [], recorded))

    def _begin_turn(self) -> None:
        if not self._turn:
            self.now()
            self.loop.call_soon(self._end_turn)

    def _let_happen(self, event: Event, recorded: Recorded | None, now: float) -> None:
        try:
            effects = self.engine.handle(event, now)
            if self._validate:
                self.engine.validate()
            if self._journal is not None:
                self._journal.append(now, event, effects)
        except Exception as error:  # whatever it is, a peer's handler must not be the one to swallow it
            self.fail(error)
            return
        self._turn.append((now, effects, recorded))

    async def ask(self, event: Event, facts: Noted | None = None) -> list[Effect]:
        """Handle an event, and give its effects once they have left; never, if the coordinator cannot go on."""
        answer: asyncio.Future[list[Effect]] = self.loop.create_future()
        self.handle(event, partial(_answer, answer), facts)
        return await answer

    async def keep(self, fact: Fact) -> None:
        """Note a fact, and return once it is recorded; never, if the coordinator cannot go on."""
        answer: asyncio.Future[list[Effect]] = self.loop.create_future()
        self.note(fact, partial(_answer, answer))
        await answer

    def close(self) -> None:
        """Record what was handled, and the clean end of the journal."""
        if self._timer is not None:
            self._timer.cancel()
        self._end_turn()
        if self._commit is not None and not self.failure.done():
            self._commit.close()
        if self._journal is not None and not self.failure.done():
            self._journal.close()
        if not self.failure.done():
            self.failure.cancel()

    def _end_turn(self) -> None:
        """Plan for the turn, record it, let its effects leave. What listeners handle meanwhile is the next turn."""
        if self._turn and not self.failure.done() and self.engine.unsettled:
            self._let_happen(TurnEnded(), None, self.now())
        if self._turn and self._journal is not None and self._journal.is_long and not self.failure.done():
            self._rotate(self._journal)
        turn, self._turn = self._turn, []
        if not turn or self.failure.done():
            return
        try:
            if self._commit is None:
                self._leave(turn)
            else:
                self._commit.commit(turn)
        except Exception as error:
            self.fail(error)

    def _rotate(self, journal: Journal) -> None:
        """Begin another segment of the journal; the plan, which no image holds, is made anew in the next turn."""
        self._let_happen(JournalRotated(), None, self._now)
        if not self.failure.done():
            journal.rotate(self._now, self.engine.world.policy, self.facts, image_of(self.engine))
            self.loop.call_soon(self.handle, TurnEnded())

    def _leave(self, turn: Turn) -> None:
        if self.failure.done():
            return
        try:
            self.now()  # the disk may have taken its time
            for now, effects, recorded in turn:
                if recorded is not None:
                    recorded(effects)
                for effect in effects:
                    for listener in self._listeners[type(effect)]:
                        listener(now, effect)
            self._set_timer()
        except Exception as error:
            self.fail(error)

    # -- a full disk

    @property
    def full(self) -> bool:
        """Whether the disk is full: what happens waits, and nothing new is to be begun."""
        return self._commit is not None and self._commit.full

    async def space(self) -> None:
        """Wait until the disk has space, if it is full."""
        while self.full:
            await self._space.wait()

    def watch_space(self, changed: Callable[[bool], None]) -> None:
        """Call ``changed(full)`` when the disk has become full, or has space again."""
        self._watchers.append(changed)

    def _space_changed(self) -> None:
        for changed in self._watchers:
            changed(self.full)
        if self.full:
            self._space.clear()
            return
        self._space.set()
        waiting, self._waiting = self._waiting, []
        for happen in waiting:
            happen()

    def _set_timer(self) -> None:
        """Set the one timer, at the engine's next deadline or earlier: one that comes too early is only set again."""
        deadline = self.engine.next_deadline(self._timer_at)
        if deadline is None or deadline >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self.call_later(max(SHORTEST_TIMER_S, deadline - self.now()), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        if self.full:
            return  # it is set again when there is space
        deadline = self.engine.next_deadline()
        if deadline is not None and deadline <= self.now():
            self.handle(TimePassed())
        else:
            self._set_timer()

    def fail(self, error: BaseException) -> None:
        """Stop handling events: the coordinator cannot go on. The first reason stands."""
        if not self.failure.done():
            self.failure.set_exception(error)


def _answer(answer: "asyncio.Future[list[Effect]]", effects: list[Effect]) -> None:
    if not answer.done():
        answer.set_result(effects)
