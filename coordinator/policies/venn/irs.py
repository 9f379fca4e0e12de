"""Intersection Resource Scheduling: which group of requests owns the devices of which region.

Liu et al., "Venn: Resource Management for Collaborative Learning Jobs", MLSys 2025 (arXiv:2312.08298), algorithm 1.
Scarce groups, those with the least supply, own first whatever they can use. Then each group, the most abundant
first, looks at the scarcer ones that hold devices it could use, and takes the shared ones where more of its requests
are held up by that than the owner has, each side weighed by the supply it is left with.

All counts are integers (rates are check-ins in one and the same window) and delays are fractions, so every
comparison is exact: the same view gives the same owners on every machine.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from coordinator.engine.ids import RegionId


@dataclass(frozen=True, slots=True)
class Contender:
    """A group, or several whose regions with supply are the same, as the allocation knows it."""

    regions: tuple[RegionId, ...]  # S: those of its eligible set that have supply, at least one
    demands: tuple[int, ...]  # remaining demands of its requests, each >= 1, in the order in which they are served


def allocate(
    contenders: Sequence[Contender], supply: Mapping[RegionId, int], *, whole_queues: bool = False
) -> dict[RegionId, int]:
    """The owner of each region, as an index into ``contenders``, which come scarcest first.

    ``supply`` holds the check-ins counted over the window, > 0 for every region of a contender. With ``whole_queues``
    all requests of the one who looks count as held up, however long they would wait anyway.
    """
    allocation = _Allocation(contenders, supply, whole_queues)
    for taker in reversed(range(len(contenders))):
        if contenders[taker].demands:
            allocation.take_from_scarcer(taker)
    return allocation.owner


class _Allocation:
    def __init__(self, contenders: Sequence[Contender], supply: Mapping[RegionId, int], whole_queues: bool) -> None:
        self._contenders = contenders
        self._supply = supply
        self._whole_queues = whole_queues
        self.owner: dict[RegionId, int] = {}  # of each region: first the scarcest that can use it
        for index, contender in enumerate(contenders):
            for region in contender.regions:
                self.owner.setdefault(region, index)
        self._rates = [0] * len(contenders)  # supply of what each owns
        for region, index in self.owner.items():
            self._rates[index] += supply[region]
        self._queues = [
            _Queue(contender.demands, rate) for contender, rate in zip(contenders, self._rates, strict=True)
        ]

    def take_from_scarcer(self, taker: int) -> None:
        """Go through the scarcer groups, the least scarce first, until one keeps what it shares with ``taker``."""
        shared = [0] * len(self._contenders)  # with each owner; only the part of the holder at hand moves meanwhile
        for region in self._contenders[taker].regions:
            shared[self.owner[region]] += self._supply[region]
        for holder in reversed(range(taker)):
            if shared[holder] == 0:
                continue
            if self._contenders[holder].demands and not self._pays(taker, holder, shared[holder]):
                return
            self._move(taker, holder, shared[holder])

    def _pays(self, taker: int, holder: int, shared: int) -> bool:
        """Whether more requests wait per device of the taker than per device of the holder.

        A group whose regions were all taken has no devices left: it takes only where it outnumbers the holder.
        """
        queue = self._queues[taker]
        held_up = len(queue) if self._whole_queues else queue.served_within(self._queues[holder].delay(), shared)
        waiting = len(self._contenders[holder].demands)  # its own only; the taker's include what it took over
        if self._rates[taker] == 0:
            return held_up > waiting
        return held_up * self._rates[holder] > waiting * self._rates[taker]

    def _move(self, taker: int, holder: int, shared: int) -> None:
        """Only the intersection moves: a group never owns devices that it cannot use."""
        for region in self._contenders[taker].regions:
            if self.owner[region] == holder:
                self.owner[region] = taker
        self._rates[taker] += shared
        self._rates[holder] -= shared
        self._queues[taker].grow(shared)
        self._queues[taker].append(self._queues[holder])
        self._queues[holder].grow(-shared)


class _Queue:
    """Requests served one after the other, each at the supply that it had when it joined, plus what came since."""

    __slots__ = ("_parts",)

    def __init__(self, demands: tuple[int, ...], rate: int) -> None:
        self._parts: list[tuple[int, tuple[int, ...]]] = [(rate, demands)] if demands else []

    def __len__(self) -> int:
        return sum(len(demands) for _, demands in self._parts)

    def delay(self) -> Fraction:
        """Until all are served, in windows. Only asked of a queue that is served at all: its rates are > 0."""
        return sum((Fraction(sum(demands), rate) for rate, demands in self._parts), Fraction(0))

    def served_within(self, limit: Fraction, rate_if_none: int) -> int:
        """How many of the first requests are served before ``limit`` has passed; all of them at exactly ``limit``.

        Requests without supply are thought to be served at ``rate_if_none``.
        """
        served = 0
        for part_rate, demands in self._parts:
            rate = part_rate or rate_if_none
            ends = list(accumulate(demands))
            served += bisect_right(ends, limit.numerator * rate // limit.denominator)
            limit -= Fraction(ends[-1], rate)
            if limit < 0:
                break
        return served

    def grow(self, rate: int) -> None:
        self._parts = [(part_rate + rate, demands) for part_rate, demands in self._parts]

    def append(self, other: "_Queue") -> None:
        self._parts += other._parts
