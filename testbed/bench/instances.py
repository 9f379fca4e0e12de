"""Small scheduling problems whose best answer can be computed: a few requests, one device a second.

All requests are open at 0; the device of second t = 1, 2, ..., another one each second, is of the region that stands at
its place in a cycle, and each fills one place of one request. What counts is the scheduling delay: the second at which
a request has all its devices.

An instance played on the real engine: its regions, its measured supply, its plans, its matching.

Before the requests open, devices come and go in the instance's own cycle for two supply windows of one cycle each. So
what the engine has measured is the true supply, and each further window measures the same again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, product, repeat

import numpy as np

from coordinator.engine.effects import Effect, FillAttempt, OfferLease
from coordinator.engine.engine import Engine
from coordinator.engine.events import (
    AttemptOpened,
    DeviceCheckedIn,
    DriverFollowed,
    Event,
    JobSubmitted,
    LeaseAccepted,
    SessionEnded,
    TimePassed,
    TurnEnded,
)
from coordinator.engine.ids import DeviceId, JobId, SessionSeq
from coordinator.engine.model import EngineSettings, JobSpec, SessionEnd
from coordinator.engine.plan import Policy
from coordinator.engine.requirements import Any, Capabilities, Comparison

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
        """The region of the device that comes at a second, from 1 on."""
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


LONG_S = 1e9
BEFORE_TICK_S = 0.75  # a device comes so long before a whole second, so never at the moment of a tick


def fills(instance: Instance, policy: Policy, seed: int = 0) -> list[int]:
    """Seconds from the opening at which each request has all its devices. They keep them."""
    return _Game(instance, policy, seed).play()


class _Game:
    def __init__(self, instance: Instance, policy: Policy, seed: int) -> None:
        self._instance = instance
        self._cycle_s = len(instance.cycle)
        self._sessions = 0
        self._engine = Engine(
            EngineSettings(
                seed=seed,
                policy=policy.name,
                supply_window_s=float(self._cycle_s),
                supply_buckets=1,
                liveness_s=LONG_S,
                accept_timeout_s=LONG_S,
            ),
            policy,
        )

    def play(self) -> list[int]:
        warm = 2 * self._cycle_s
        for second in range(1, warm + 1):
            self._device(second)
            self._leaves()
        opening = warm - BEFORE_TICK_S
        jobs = self._open(opening)
        found: dict[JobId, int] = {}
        for second in count(1):
            effects = self._device(warm + second)
            found |= {effect.job: second for effect in effects if isinstance(effect, FillAttempt)}
            offers = [effect for effect in effects if isinstance(effect, OfferLease)]
            for offer in offers:
                self._handle(LeaseAccepted(offer.session, offer.lease), warm + second - BEFORE_TICK_S)
            if not offers:
                self._leaves()
            if len(found) == len(jobs):
                break
        return [found[job] for job in jobs]

    def _open(self, now: float) -> list[JobId]:
        jobs = [JobId(f"bench/{number:02}/1") for number in range(len(self._instance.demands))]
        for job, demand, regions in zip(jobs, self._instance.demands, self._instance.eligible, strict=True):
            self._handle(JobSubmitted(_spec(job, demand, regions), 1), now)
            self._handle(DriverFollowed(job, 1), now)
        for job in jobs:
            self._handle(AttemptOpened(job, 1, 1, 1, None), now)
        return jobs

    def _device(self, second: int) -> list[Effect]:
        """The device of that second since the start of all."""
        now = second - BEFORE_TICK_S
        while (due := self._engine.next_deadline()) is not None and due < now:
            self._handle(TimePassed(), due)
        self._sessions += 1
        session, device = SessionSeq(self._sessions), DeviceId(f"device-{self._sessions}")
        region = frozenset({str(self._instance.region(second))})
        return self._handle(DeviceCheckedIn(session, device, "", 1, Capabilities(labels={"region": region})), now)

    def _leaves(self) -> None:
        """The device that came last."""
        now = self._sessions - BEFORE_TICK_S
        self._handle(SessionEnded(SessionSeq(self._sessions), SessionEnd.GOODBYE_SESSION_OVER), now)

    def _handle(self, event: Event, now: float) -> list[Effect]:
        """In a turn of its own."""
        effects = self._engine.handle(event, now)
        if self._engine.unsettled:
            effects += self._engine.handle(TurnEnded(), now)
        return effects


def _spec(job: JobId, demand: int, regions: frozenset[int]) -> JobSpec:
    """Requests that can use the same regions are of one group."""
    return JobSpec(
        job=job,
        requirement=Any(tuple(Comparison("region", "=", str(region)) for region in sorted(regions))),
        requirement_name="".join(str(region) for region in sorted(regions)),
        rounds=None,
        demand=demand,
        min_response=Fraction(1),
        over_commit=Fraction(0),
        deadline_s=LONG_S,
        lease_s=LONG_S,
    )
