"""Deadlines. An entry is a hint: the truth is in the state, and is asked for when the hint comes up.

So what moves a deadline costs nothing: its entry is moved on when it comes up. There is at most one entry per
(kind, key). Ties go by kind, then key: the order of ``Kind`` is the order of events.
"""

import math
from collections.abc import Callable, Mapping
from enum import IntEnum

from coordinator.engine.calendar import Calendar

Key = int | str  # of one type within a kind


class Kind(IntEnum):
    ATTEMPT = 1  # key: request id; its deadline
    LEASE = 2  # key: lease seq; not accepted in time, or expired
    STOP = 3  # key: device id; an ended lease keeps it busy no longer
    DRIVER = 4  # key: job id; its driver was away for the whole grace
    LEAVE = 5  # key: session seq; told to leave and still here
    TICK = 6  # key: 0; of the supply
    REVIEW = 7  # key: 0; the plan said that it might change its mind
    WAKE = 8  # key: session seq; an idle device is to be looked at again


Truth = Callable[[Kind, Key], float | None]


class Deadlines(Calendar[tuple[float, Kind, Key]]):
    def __init__(self, truth: Truth) -> None:
        """``truth`` gives the time at which (kind, key) is really due, or None if it no longer is."""
        super().__init__(self._holds)
        self._truth = truth
        # The one valid entry of each key of a kind; never later than the truth.
        self._hints: Mapping[Kind, dict[Key, float]] = {kind: {} for kind in Kind}

    def set(self, kind: Kind, key: Key, at: float) -> None:
        """Note: (kind, key) is due at ``at`` or later. A time after the present entry's needs no call. inf: never."""
        hints = self._hints[kind]
        if at < hints.get(key, math.inf):
            hints[key] = at
            self.note((at, kind, key))

    def next(self) -> float | None:
        """When the first is due, or None. Entries whose time has moved are put where they belong."""
        first = self.first()
        return None if first is None else first[0]

    def take(self, now: float, *, inclusive: bool) -> tuple[Kind, Key] | None:
        """Remove and return the first that is due before ``now``, or at it if ``inclusive``."""
        first = self.first() if self.soonest <= now else None
        if first is None or first[0] > now or (first[0] == now and not inclusive):
            return None
        _, kind, key = self.pop()
        del self._hints[kind][key]
        return kind, key

    def hint(self, kind: Kind, key: Key) -> float | None:
        """The time of the present entry, for checks."""
        return self._hints[kind].get(key)

    def _holds(self, entry: tuple[float, Kind, Key]) -> bool:
        at, kind, key = entry
        hints = self._hints[kind]
        if hints.get(key) != at:  # replaced by an earlier one
            return False
        due = self._truth(kind, key)
        if due is None or due == math.inf:
            del hints[key]
        elif due > at:
            hints[key] = due
            self.note((due, kind, key))
        else:
            return True
        return False
