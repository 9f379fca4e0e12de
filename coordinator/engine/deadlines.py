"""Deadlines, in a calendar: a list for each second, of which only the first is kept in order (Brown 1988).

Most of what is noted comes to nothing: a lease ends long before it expires. So noting is an append, and what no longer
stands when its second comes up is dropped there, in one pass, before it is compared with anything.

A deadline's entry is a hint: the truth is in the state, and is asked for when the hint comes up. So what moves a
deadline costs nothing: its entry is moved on when it comes up. There is at most one entry per (kind, key). Ties go by
kind, then key: the order of ``Kind`` is the order of events.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from heapq import heapify, heappop, heappush
from math import floor, inf
from typing import Any, Generic, TypeVar

Entry = TypeVar("Entry", bound=tuple[Any, ...])  # begins with its time in seconds, and no two of them are alike


class Calendar(Generic[Entry]):
    """Entries by time; the least one that stands is found first."""

    def __init__(self, stands: Callable[[Entry], bool]) -> None:
        """``stands`` is asked about an entry when its second comes up, and whenever it is the first. False: drop it."""
        self.soonest = inf  # nothing is due before; inf: nothing is noted
        self._stands = stands
        self._heap: list[Entry] = []  # of the present second, and before
        self._second = -inf
        self._later: dict[int, list[Entry]] = {}  # by second
        self._seconds: list[int] = []  # the keys of that, a heap

    def note(self, entry: Entry) -> None:
        """Add an entry. One at inf is never due."""
        at = entry[0]
        if at < self.soonest:
            self.soonest = at
        elif at == inf:
            return
        second = floor(at)
        some = self._later.get(second)
        if some is not None:
            some.append(entry)
        elif second <= self._second:
            heappush(self._heap, entry)
        else:
            self._later[second] = [entry]
            heappush(self._seconds, second)

    def first(self) -> Entry | None:
        """The least entry that stands."""
        heap, stands = self._heap, self._stands
        while True:
            while heap:
                if stands(heap[0]):
                    self.soonest = heap[0][0]
                    return heap[0]
                heappop(heap)
            if not self._seconds:
                self.soonest = inf
                return None
            self._second = heappop(self._seconds)
            heap += [entry for entry in self._later.pop(self._second) if stands(entry)]
            heapify(heap)

    def pop(self) -> Entry:
        """Remove and return what ``first`` gave."""
        heap, seconds = self._heap, self._seconds
        entry = heappop(heap)
        self.soonest = heap[0][0] if heap else seconds[0] if seconds else inf
        return entry


Key = int | str  # of one type within a kind


class Kind(IntEnum):
    """What a deadline is about."""

    ATTEMPT = 1  # key: request id; its deadline
    LEASE = 2  # key: lease seq; not accepted in time, or expired
    STOP = 3  # key: device id; an ended lease keeps it busy no longer
    DRIVER = 4  # key: job id; its driver was away for the whole grace
    LEAVE = 5  # key: session seq; told to leave and still here
    TICK = 6  # key: 0; of the supply
    REVIEW = 7  # key: 0; the plan said that it might change its mind
    WAKE = 8  # key: session seq; an idle device is to be looked at again
    RECOVERY = 9  # key: 0; devices had the recovery grace to come back after a restart


Truth = Callable[[Kind, Key], float | None]


class Deadlines(Calendar[tuple[float, Kind, Key]]):
    """The deadlines of one engine."""

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

    def hints(self) -> Iterator[tuple[Kind, Key, float]]:
        """All present entries: kind, key and time."""
        return ((kind, key, at) for kind, hints in self._hints.items() for key, at in hints.items())

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
