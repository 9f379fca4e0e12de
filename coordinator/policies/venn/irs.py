"""Intersection Resource Scheduling: which group of requests owns the devices of which region.

Liu et al., "Venn: Resource Management for Collaborative Learning Jobs", MLSys 2025 (arXiv:2312.08298), algorithm 1.
Scarce groups, those with the least supply, own first whatever they can use. Then each group, the most abundant
first, looks at the scarcer ones that hold devices it could use, and takes the shared ones where more of its requests
are held up by that than the owner has, each side weighed by the supply it is left with.

All counts are integers (rates are check-ins in one and the same window). Delays are compared as floats where the
difference is clear and as fractions where it is not, so every comparison is exact: the same view gives the same owners
on every machine.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import RegionId

Integers = NDArray[np.intp]

NOBODY = -1
_CLEAR = 1e-9  # relative; sums of fewer than a million quotients are off by less than a thousandth of it


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A group, or several whose regions with supply are the same, before anyone asks for a device."""

    regions: Integers  # S: those of its eligible set that have supply, at least one
    counts: NDArray[np.float64]  # their supply; whole numbers below 2**53, so sums are exact


class Ground:
    """What can be said of contenders without their requests. They come scarcest first, and are known by their index.

    ``supply`` holds the check-ins counted over the window, > 0 for every region of a contender.
    """

    def __init__(self, eligible: Sequence[Sequence[RegionId] | Integers], supply: Mapping[RegionId, int]) -> None:
        counts = np.zeros(max(supply, default=-1) + 1)
        counts[list(supply)] = list(supply.values())
        self.contenders = [Contender(regions := np.asarray(each, dtype=np.intp), counts[regions]) for each in eligible]
        self.owner: Integers = np.full(len(counts), NOBODY, dtype=np.intp)  # region -> the scarcest that can use it
        for index in reversed(range(len(self.contenders))):
            self.owner[self.contenders[index].regions] = index
        owned = self.owner != NOBODY
        self.regions: Integers = np.flatnonzero(owned)  # of any contender
        rates = np.bincount(self.owner[owned], weights=counts[owned], minlength=len(self.contenders))
        self.rates = [int(rate) for rate in rates]  # supply of what each owns
        self.shared = [_shared(self.owner, index, each) for index, each in enumerate(self.contenders)]


class Shared(NamedTuple):
    """What a contender could use of the supply that others own."""

    scarcer: list[tuple[int, int]]  # (owner, supply > 0) of those before it, the least scarce first
    most: int  # the owner of most of it among those after it, of equal ones the first; NOBODY: none owns any


def _shared(owner: Integers, index: int, contender: Contender) -> Shared:
    found = np.bincount(owner[contender.regions], weights=contender.counts)
    scarcer, busier = found[:index], found[index + 1 :]
    owners = scarcer.nonzero()[0][::-1]
    supply = scarcer[owners].astype(np.int64)
    most = int(busier.argmax()) if len(busier) else NOBODY
    return Shared(
        list(zip(owners.tolist(), supply.tolist(), strict=True)),
        NOBODY if most == NOBODY or busier[most] == 0 else index + 1 + most,
    )


class Allocation:
    """Lines 1 to 9, for the remaining demands of each contender's requests in the order in which they are served.

    With ``whole_queues`` all requests of the one who looks count as held up, however long they would wait anyway. A
    request of contender i counts ``weights``[i] times (> 0); without weights comparisons are of whole numbers.
    """

    def __init__(
        self,
        ground: Ground,
        demands: Sequence[Sequence[int]],
        *,
        weights: Sequence[float] | None = None,
        whole_queues: bool = False,
    ) -> None:
        self.owner = ground.owner.copy()  # region -> contender, or NOBODY
        self.rates = list(ground.rates)  # supply of what each owns
        self.rivals: dict[int, int] = {}  # a scarcer one that kept shared devices, else a busier one that took some
        self._whole_queues = whole_queues
        self._weights = weights
        self._ends = [list(accumulate(each)) for each in demands]
        self._waiting = [len(each) for each in demands]
        self._moved = False  # has any region changed hands?
        for taker in reversed(range(len(ground.contenders))):
            if demands[taker]:
                self._take_from_scarcer(taker, ground)

    def _take_from_scarcer(self, taker: int, ground: Ground) -> None:
        """Go through the scarcer ones, the least scarce first, until one keeps what it shares with ``taker``."""
        contender = ground.contenders[taker]
        shared = _shared(self.owner, taker, contender) if self._moved else ground.shared[taker]
        queue = _Queue(self._ends[taker], self.rates[taker])
        taken = []
        for holder, share in shared.scarcer:
            if self._waiting[holder] and not self._pays(queue, taker, holder, share):
                self.rivals[taker] = holder
                break
            queue.take(share, self._ends[holder], self.rates[holder])
            self.rates[taker] += share
            self.rates[holder] -= share
            taken.append(holder)
        else:
            if shared.most != NOBODY:
                self.rivals[taker] = shared.most
        if taken:  # only the intersection moves: nobody ever owns devices that it cannot use
            moves = np.zeros(len(self.rates), dtype=bool)
            moves[taken] = True
            self.owner[contender.regions[moves[self.owner[contender.regions]]]] = taker
            self._moved = True

    def _pays(self, queue: "_Queue", taker: int, holder: int, share: int) -> bool:
        """Whether more requests wait per device of the taker than per device of the holder.

        A taker whose regions were all taken has no devices left: it takes only where it outnumbers the holder.
        """
        waiting = self._waiting[holder]  # its own only; the taker's include what it took over
        rate, held_rate = self.rates[taker], self.rates[holder]
        if self._weights is None:
            outnumbered = waiting if rate == 0 else waiting * rate // held_rate
        else:
            weighed = waiting * self._weights[holder] / self._weights[taker]
            outnumbered = math.floor(weighed if rate == 0 else weighed * rate / held_rate)
        if queue.size <= outnumbered:
            return False
        # The holder has had no turn yet, so it has taken nothing, and serves its requests at all that it owns.
        return self._whole_queues or queue.served(outnumbered + 1, share, within=(self._ends[holder][-1], held_rate))


class _Queue:
    """Requests served one after the other, each at the supply that it had when it joined, plus what came since."""

    __slots__ = ("_grown", "_parts", "_sizes", "size")

    def __init__(self, ends: list[int], rate: int) -> None:
        self._grown = 0
        self._parts = [(ends, rate)]  # running sums of demands, and the supply without what the queue has grown by
        self.size = len(ends)
        self._sizes = [self.size]  # requests up to the end of each part

    def take(self, share: int, ends: list[int], rate: int) -> None:
        """The queue grows by ``share``; requests that were served at ``rate`` join it at that."""
        self._grown += share
        if ends:
            self._parts.append((ends, rate - self._grown))
            self.size += len(ends)
            self._sizes.append(self.size)

    def served(self, number: int, rate_if_none: int, within: tuple[int, int]) -> bool:
        """Whether the first ``number`` requests are served within so many check-ins at such a rate, or at exactly that.

        Requests without supply are thought to be served at ``rate_if_none``.
        """
        last = bisect_left(self._sizes, number)
        ends, rate = self._parts[last]
        if last == 0:  # as nearly always: no sum, and no fraction
            return ends[number - 1] * within[1] <= within[0] * (rate + self._grown or rate_if_none)
        before = self._sizes[last - 1]
        work = [(ends[-1], rate) for ends, rate in self._parts[:last]]
        work.append((ends[number - before - 1], rate))
        work = [(demand, rate + self._grown or rate_if_none) for demand, rate in work]
        delay, limit = sum([demand / rate for demand, rate in work]), within[0] / within[1]
        if abs(delay - limit) > _CLEAR * limit:
            return delay < limit
        return sum((Fraction(*each) for each in work), Fraction(0)) <= Fraction(*within)
