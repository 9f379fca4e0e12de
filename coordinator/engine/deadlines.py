"""One heap of deadlines. An entry is a hint: the truth is in the state, and is asked for when the hint comes up.

So what moves a deadline costs no heap operation: its entry is moved on when it comes up. There is at most one entry per
(kind, key). Ties go by kind, then key: the order of ``Kind`` is the order of events.
"""

import heapq
import math
from collections.abc import Callable
from enum import IntEnum

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


class Deadlines:
    def __init__(self, truth: Truth) -> None:
        """``truth`` gives the time at which (kind, key) is really due, or None if it no longer is."""
        self._truth = truth
        self._heap: list[tuple[float, Kind, Key]] = []
        self._hints: dict[tuple[Kind, Key], float] = {}  # the one valid entry of each; never later than the truth

    def set(self, kind: Kind, key: Key, at: float) -> None:
        """(kind, key) is due at ``at`` or later. A later time than the present entry's needs no call; inf: never."""
        if at == math.inf:
            return
        hint = self._hints.get((kind, key))
        if hint is None or at < hint:
            self._hints[kind, key] = at
            heapq.heappush(self._heap, (at, kind, key))

    def may_be_due(self, until: float) -> bool:
        """False: nothing is due until then. Cheap: nobody is asked for the truth."""
        return bool(self._heap) and self._heap[0][0] <= until

    def next(self) -> float | None:
        """When the first is due. Entries whose time has moved are put where they belong."""
        while self._heap:
            at, kind, key = self._heap[0]
            if self._hints.get((kind, key)) != at:  # replaced by an earlier one
                heapq.heappop(self._heap)
                continue
            due = self._truth(kind, key)
            if due is None:
                heapq.heappop(self._heap)
                del self._hints[kind, key]
            elif due > at:
                heapq.heapreplace(self._heap, (due, kind, key))
                self._hints[kind, key] = due
            else:
                return at
        return None

    def take(self, now: float, *, inclusive: bool) -> tuple[Kind, Key] | None:
        """Remove and return the first that is due before ``now``, or at it if ``inclusive``."""
        at = self.next() if self.may_be_due(now) else None
        if at is None or at > now or (at == now and not inclusive):
            return None
        _, kind, key = heapq.heappop(self._heap)
        del self._hints[kind, key]
        return kind, key

    def hint(self, kind: Kind, key: Key) -> float | None:
        """The time of the present entry, for checks."""
        return self._hints.get((kind, key))
