"""Tiers: devices in equal numbers by one score, the modelled time of a reference task; tier 0 is the fastest.

Scores are counted on the scale of ``scale``, each availability interval of a device once, as supply is. At each tick of
the supply the cuts are made anew: with n counted, cut k of V - 1 is the first bin at which the count reaches
ceil(k n / V). A device's tier is the number of cuts below the bin of its score, by the cuts of its check-in, and is
kept while it is connected. Devices of one bin are of one tier, so a tier may be empty where scores are alike.

A device without a score, or that came before the first tick, has no tier: no restricted request is offered to it. At a
tick at which n is FULL or more all bins are halved, rounded down, so that the cuts follow the devices.

Supply is counted per tier as well, by the same rules and at the same ticks as over all: regions differ in how fast
their devices are, so what a tier can give is not one V-th of what all can.
"""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate

from coordinator.engine.model import EngineSettings
from coordinator.engine.scale import BINS, bin_of
from coordinator.engine.supply import Supply

FULL = 1_000_000
NO_TIER = -1
EVERY_TIER = -2  # of no device: stands for all of them where people are shown who is next


class Tiers:
    """The cuts between tiers, and the supply of each."""

    def __init__(self, settings: EngineSettings, start: float) -> None:
        self.number = settings.tiers  # V, >= 1; 1: no device has a tier
        self.counts = [0] * BINS  # scores
        self.cuts: tuple[int, ...] = ()  # bins, ascending, V - 1 of them; empty before the first tick with a score
        self.supply = tuple(Supply(settings, start) for _ in range(self.number)) if self.number > 1 else ()

    def count(self, reference_s: float, tier: int, class_id: int) -> None:
        """Count a check-in of a device with such a score (0: none), the first in its availability interval."""
        if reference_s > 0.0:
            self.counts[bin_of(reference_s)] += 1
        if tier >= 0:
            self.supply[tier].count(class_id)

    def of(self, reference_s: float) -> int:
        """The tier of a device that checks in now."""
        if not self.cuts or not reference_s > 0.0:
            return NO_TIER
        return bisect_left(self.cuts, bin_of(reference_s))

    def tick(self, now: float) -> None:
        """Publish the counts of each tier and cut anew: ``next_tick`` of the supply has come."""
        if self.number == 1:
            return
        for supply in self.supply:
            supply.tick(now)
        upto = list(accumulate(self.counts))
        total = upto[-1]
        if total:
            self.cuts = tuple(bisect_left(upto, -(-k * total // self.number)) for k in range(1, self.number))
        if total >= FULL:
            self.counts = [count // 2 for count in self.counts]

    def recut(self, shares: Mapping[int, tuple[tuple[int, int], ...]]) -> None:
        """Move counts to capability classes that were cut anew: old class -> (new class, weight)."""
        for supply in self.supply:
            supply.recut(shares)


def is_within(tier: int, asked: int, *, or_faster: bool) -> bool:
    """Whether a device of such a tier is one that a request for tier ``asked`` wants; < 0: it is for all."""
    return asked < 0 or tier == asked or (or_faster and NO_TIER < tier < asked)


def tier_text(tier: int, number: int) -> str:
    """Name a tier for people, who count from 1."""
    return f"tier {tier + 1} of {number}, 1 the fastest"
