"""The coordinator's host, with an ear at it: what the engine has done is told once it stands.

It stands once its effects have left; or, where the coordinator died before that, if its journal has it.
"""

from collections import deque
from typing import Any, NamedTuple, Protocol

from coordinator.engine.effects import Effect
from coordinator.engine.engine import Engine
from coordinator.engine.events import Event
from coordinator.service.host import Host
from coordinator.service.journal import Journal


class Done(NamedTuple):
    """An event that the engine has handled."""

    number: int  # in the journal
    now: float
    event: Event
    effects: list[Effect]


class Ear(Protocol):
    """Who is told."""

    def heard(self, done: Done) -> None:
        """Hear of an event that stands."""

    def violated(self, what: str, text: str) -> None:
        """Hear of what must never be."""


class Limbo:
    """What was handled and does not stand yet, over all lives of one coordinator."""

    def __init__(self, ear: Ear) -> None:
        self._ear = ear
        self._waiting: deque[Done] = deque()
        self.stands = 0  # number of the last event that left

    def handled(self, done: Done) -> None:
        self._waiting.append(done)

    def left(self, effects: list[Effect]) -> None:
        """Note that an entry of a turn has left."""
        if self._waiting and self._waiting[0].effects is effects:
            self._tell()

    def restarted(self, recorded: int) -> None:
        """Go on with another life, whose journal has so many events."""
        if recorded < self.stands:
            text = f"event {self.stands} had left, and the journal of the restarted coordinator ends at {recorded}"
            self._ear.violated("FORGOTTEN", text)
        while self._waiting and self._waiting[0].number <= recorded:
            self._tell()
        self._waiting.clear()

    def _tell(self) -> None:
        done = self._waiting.popleft()
        self.stands = max(self.stands, done.number)
        self._ear.heard(done)


class HeardHost(Host):
    """A host whose limbo is known."""

    def __init__(self, engine: Engine, limbo: Limbo, journal: Journal, **settings: Any) -> None:
        super().__init__(engine, journal=journal, **settings)
        self._limbo, self._number = limbo, recorded_in(journal)
        handle = engine.handle

        def heard(event: Event, now: float) -> list[Effect]:
            effects = handle(event, now)
            self._number += 1
            limbo.handled(Done(self._number, now, event, effects))
            return effects

        engine.handle = heard  # type: ignore[method-assign]

    def _leave(self, turn: Any) -> None:
        super()._leave(turn)
        for _, effects, _ in turn:
            self._limbo.left(effects)


def recorded_in(journal: Journal) -> int:
    """The number of events in a journal that is gone on with."""
    return journal._written.number
