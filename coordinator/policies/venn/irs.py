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
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import RegionId

Integers = NDArray[np.intp]

NOBODY = -1
MOST_GROUNDS = 256  # that are remembered
_CLEAR = 1e-9  # relative; sums of fewer than a million quotients are off by less than a thousandth of it


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A group, or several whose regions with supply are the same, before anyone asks for a device."""

    regions: Integers  # S: those of its eligible set that have supply, at least one
    counts: NDArray[np.float64]  # their supply; whole numbers below 2**53, so sums are exact


class Ground:
    """Who owns which region, and what each contender could use of what others own. It does not know the requests.

    Contenders come scarcest first, and are known by their index. ``contest`` gives the ground where nobody has taken
    anything yet.
    """

    def __init__(self, contenders: Sequence[Contender], owner: Integers, rates: list[int]) -> None:
        self.contenders = contenders
        self.owner = owner  # region -> contender, or NOBODY
        self.rates = rates  # supply of what each owns
        self._shared: dict[int, Shared] = {}

    def shared(self, index: int) -> "Shared":
        found = self._shared.get(index)
        if found is None:
            found = self._shared[index] = _shared(self.owner, index, self.contenders[index])
        return found


@lru_cache(maxsize=MOST_GROUNDS)
def _after(ground: Ground, taker: int, number: int) -> Ground:
    """The ground when ``taker`` has taken what it shares with the first ``number`` (> 0) of the scarcer ones.

    Only the intersection moves: nobody ever owns devices that it cannot use. Most plans take what plans before took.
    """
    rates, owner, moves = list(ground.rates), ground.owner.copy(), np.zeros(len(ground.rates), dtype=bool)
    for holder, share in ground.shared(taker).scarcer[:number]:
        rates[taker] += share
        rates[holder] -= share
        moves[holder] = True
    regions = ground.contenders[taker].regions
    owner[regions[moves[owner[regions]]]] = taker
    return Ground(ground.contenders, owner, rates)


def contest(eligible: Sequence[Sequence[RegionId] | Integers], supply: Mapping[RegionId, int]) -> Ground:
    """The scarcest that can use a region owns it.

    ``supply`` holds the check-ins counted over the window, > 0 for every region of a contender.
    """
    counts = np.zeros(max(supply, default=-1) + 1)
    counts[list(supply)] = list(supply.values())
    contenders = [Contender(regions := np.asarray(each, dtype=np.intp), counts[regions]) for each in eligible]
    owner: Integers = np.full(len(counts), NOBODY, dtype=np.intp)
    for index in reversed(range(len(contenders))):
        owner[contenders[index].regions] = index
    owned = owner != NOBODY
    rates = np.bincount(owner[owned], weights=counts[owned], minlength=len(contenders))
    return Ground(contenders, owner, [int(rate) for rate in rates])


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
    """Lines 1 to 9, for each contender's requests in the order in which they are served.

    ``ends`` are the running sums of their remaining demands. With ``whole_queues`` all requests of the one who looks
    count as held up, however long they would wait anyway. A request of contender i counts ``weights``[i] times (> 0);
    without weights comparisons are of whole numbers.
    """

    def __init__(
        self,
        ground: Ground,
        ends: Sequence[Sequence[int]],
        *,
        weights: Sequence[float] | None = None,
        whole_queues: bool = False,
    ) -> None:
        self.ground = ground  # as it is in the end
        self.rivals: dict[int, int] = {}  # a scarcer one that kept shared devices, else a busier one that took some
        self._whole_queues = whole_queues
        self._weights = weights
        self._ends = ends
        for taker in reversed(range(len(ends))):
            if ends[taker]:
                self._take_from_scarcer(taker)

    def _take_from_scarcer(self, taker: int) -> None:
        """Go through the scarcer ones, the least scarce first, until one keeps what it shares with ``taker``.

        It takes where more of its requests wait per device than of the holder's. A taker whose regions were all taken
        has no devices left: it takes only where it outnumbers the holder.
        """
        all_ends, rates, weights, shared = self._ends, self.ground.rates, self._weights, self.ground.shared(taker)
        queue, number = _Queue(all_ends[taker], rates[taker]), 0
        for holder, share in shared.scarcer:
            ends, rate, held_rate = all_ends[holder], queue.rate, rates[holder]
            if ends:
                waiting = len(ends)  # its own only; the taker's include what it took over
                if weights is None:
                    outnumbered = waiting if rate == 0 else waiting * rate // held_rate
                else:
                    weighed = waiting * weights[holder] / weights[taker]
                    outnumbered = math.floor(weighed if rate == 0 else weighed * rate / held_rate)
                # The holder has had no turn yet: it has taken nothing, and serves its requests at all that it owns.
                if queue.size <= outnumbered or not (
                    self._whole_queues or queue.served(outnumbered + 1, share, ends[-1], held_rate)
                ):
                    self.rivals[taker] = holder
                    break
            queue.take(share, ends, held_rate)
            number += 1
        else:
            if shared.most != NOBODY:
                self.rivals[taker] = shared.most
        if number:
            self.ground = _after(self.ground, taker, number)


class _Queue:
    """Requests served one after the other, each at the supply that it had when it joined, plus what came since."""

    __slots__ = ("_grown", "_parts", "_sizes", "rate", "size")

    def __init__(self, ends: Sequence[int], rate: int) -> None:
        self.rate = rate
        self._grown = 0
        self._parts = [(ends, rate)]  # running sums of demands, and the supply without what the queue has grown by
        self.size = len(ends)
        self._sizes = [self.size]  # requests up to the end of each part

    def take(self, share: int, ends: Sequence[int], rate: int) -> None:
        """Let the queue grow by ``share``; requests that were served at ``rate`` join it at that."""
        self.rate += share
        self._grown += share
        if ends:
            self._parts.append((ends, rate - self._grown))
            self.size += len(ends)
            self._sizes.append(self.size)

    def served(self, number: int, rate_if_none: int, demand: int, supply: int) -> bool:
        """Whether the first ``number`` requests are served within ``demand`` check-ins at such a supply, or at that.

        Requests without supply are thought to be served at ``rate_if_none``.
        """
        ends, rate = self._parts[0]
        if number <= len(ends):  # as nearly always: no sum, and no fraction
            return ends[number - 1] * supply <= demand * (rate + self._grown or rate_if_none)
        last = bisect_left(self._sizes, number)
        ends, rate = self._parts[last]
        before = self._sizes[last - 1]
        work = [(ends[-1], rate) for ends, rate in self._parts[:last]]
        work.append((ends[number - before - 1], rate))
        work = [(demand, rate + self._grown or rate_if_none) for demand, rate in work]
        delay, limit = sum([demand / rate for demand, rate in work]), demand / supply
        if abs(delay - limit) > _CLEAR * limit:
            return delay < limit
        return sum((Fraction(*each) for each in work), Fraction(0)) <= Fraction(demand, supply)
