"""When the programs of a simulation are there, as the timeline has it: the rules of ``testbed.live.injector``.

A program that is killed while it stands still is no longer standing still. Of two entries that keep a program away at
the same time the later one says when it is back; one that is away does not stand still.
"""

import math
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from coordinator.engine.ids import JobId
from testbed.simulate.model import Break

Whom = JobId | None  # the driver of a job; None: the coordinator


class State(Enum):
    """Of a program."""

    THERE = "there"
    STILL = "still"  # what is said to it waits
    AWAY = "away"  # it was killed


THERE, STILL, AWAY = State  # asked for at every event: an enum's attribute takes ten times as long as a name


class Change(NamedTuple):
    """Of a program's state."""

    whom: Whom
    before: State
    now: State


class _Step(NamedTuple):
    at: float
    begins: bool  # else it ends
    what: Break


class Programs:
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
