"""What is due, by time: a list for each second, of which only the first is kept in order (Brown 1988, calendar queues).

Most of what is noted comes to nothing: a lease ends long before it expires. So noting is an append, and what no longer
stands when its second comes up is dropped there, in one pass, before it is compared with anything.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import floor, inf
from typing import Any, Generic, TypeVar

Entry = TypeVar("Entry", bound=tuple[Any, ...])  # begins with its time in seconds, and no two of them are alike


class Calendar(Generic[Entry]):
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
