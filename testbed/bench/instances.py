"""Small scheduling problems whose best answer can be computed: a few requests, one device a second.

All requests are open at 0; the device of second t = 1, 2, ..., another one each second, is of the region that stands at
its place in a cycle, and each fills one place of one request. What counts is the scheduling delay: the second at which
a request has all its devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product, repeat

import numpy as np

REGIONS = 4
HEAVIEST = 4  # devices of a region in a cycle, 1 to this
REQUESTS = (2, 4)  # from, to
LARGEST = 7  # demand, 1 to this


@dataclass(frozen=True, slots=True)
class Instance:
    cycle: tuple[int, ...]  # region of each second's device, over and over
    demands: tuple[int, ...]  # each >= 1
    eligible: tuple[frozenset[int], ...]  # regions that each request can use, all of them in the cycle

    def region(self, second: int) -> int:
        """Of the device that comes then, from second 1 on."""
        return self.cycle[(second - 1) % len(self.cycle)]

    def able(self, region: int, remaining: Sequence[int]) -> list[int]:
        """The requests that a device of this region could serve."""
        return [index for index, regions in enumerate(self.eligible) if remaining[index] and region in regions]

    def __str__(self) -> str:
        cycle = "".join(str(region) for region in self.cycle)
        pairs = zip(self.demands, self.eligible, strict=True)
        asked = ", ".join(f"{demand} of {''.join(map(str, sorted(regions)))}" for demand, regions in pairs)
        return f"regions {cycle} in turn; requests {asked}"


def instances(count: int, seed: int) -> list[Instance]:
    """Drawn one after the other: regions, weights, order of the cycle, requests and what they can use."""
    rng = np.random.default_rng(seed)
    return [_instance(rng) for _ in range(count)]


def _instance(rng: np.random.Generator) -> Instance:
    weights = rng.integers(1, HEAVIEST, REGIONS, endpoint=True)
    cycle = rng.permutation(np.repeat(np.arange(REGIONS), weights)).tolist()
    requests = int(rng.integers(*REQUESTS, endpoint=True))
    demands = rng.integers(1, LARGEST, requests, endpoint=True).tolist()
    widths = rng.integers(1, REGIONS, requests, endpoint=True).tolist()  # how many regions each can use
    eligible = tuple(frozenset(rng.permutation(REGIONS)[:width].tolist()) for width in widths)
    return Instance(tuple(cycle), tuple(demands), eligible)


def by_priority(instance: Instance, order: Sequence[int]) -> list[int]:
    """Fill times where each device goes to the first request of ``order`` that can use it."""
    remaining, fills, second = list(instance.demands), [0] * len(instance.demands), 0
    while any(remaining):
        second += 1
        able = instance.able(instance.region(second), remaining)
        for request in (each for each in order if each in able):
            remaining[request] -= 1
            fills[request] = second
            break
    return fills


def over_all_ways(instance: Instance, choose: Callable[[list[float]], float]) -> float:
    """The sum of the fill times where ``choose`` makes one figure of those of every request that a device may go to.

    With the mean that is what a uniformly random choice gives on average, exactly; with ``min`` it is the least. A sum
    of fill times is a sum over the seconds of how many requests are not yet filled; what comes after a second follows
    from the place in the cycle and the demands that are left, so those are all the states there are. Whoever can be
    served is: to let a device go never fills a request sooner.
    """
    length = len(instance.cycle)
    after: dict[tuple[int, ...], list[float]] = {}  # demands left -> sum to come, by the place of the next device
    for remaining in product(*(range(demand + 1) for demand in instance.demands)):  # fewer left come first
        waiting = sum(left > 0 for left in remaining)
        able = [instance.able(region, remaining) for region in instance.cycle]
        sums = after[remaining] = list(repeat(0.0, length))
        if not waiting:
            continue
        last = max(place for place in range(length) if able[place])
        for place in ((last - back) % length for back in range(length)):
            following = (place + 1) % length
            if able[place]:
                served = (_less_one(remaining, request) for request in able[place])
                sums[place] = waiting + choose([after[left][following] for left in served])
            else:
                sums[place] = waiting + sums[following]
    return after[instance.demands][0]


def _less_one(remaining: tuple[int, ...], request: int) -> tuple[int, ...]:
    return (*remaining[:request], remaining[request] - 1, *remaining[request + 1 :])
