"""Cases that can be worked out by hand: one device per second from t = 1, matched as ``coordinator.engine.plan`` says.

Groups and device types are written in letters: a request ``G4`` is of group G with demand 4; a device type ``gch``
can serve the groups G, C and H; ``G4*3`` has three rounds left and says so. All requests are open at 0 in the order
given, one job each, and the supply is the true rates. Leased devices are kept. A new plan is made at each fill.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import count, permutations, product

from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId
from coordinator.engine.plan import GroupView, Mode, Plan, Policy, Requests, RequestView, View
from coordinator.engine.profiles import Profile, ResponseTimes


@dataclass(frozen=True)
class Case:
    """A cycle of device types, and the requests that they serve."""

    cycle: tuple[str, ...]  # device types, one per second, over and over
    requests: tuple[tuple[str, int], ...]  # group letter and demand
    rounds: tuple[int | None, ...]  # left, of each; None: unknown

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.cycle)))

    @property
    def demands(self) -> tuple[int, ...]:
        return tuple(demand for _, demand in self.requests)

    def kind(self, second: int) -> str:
        """The type of the device that checks in at a second, from 1 on."""
        return self.cycle[(second - 1) % len(self.cycle)]

    def able(self, kind: str, remaining: Sequence[int]) -> list[int]:
        """The requests that a device of this type could serve."""
        return [index for index, (letter, _) in enumerate(self.requests) if remaining[index] and letter in kind]

    def __str__(self) -> str:
        asked = " ".join(f"{letter.upper()}{demand}" for letter, demand in self.requests)
        return f"devices {' '.join(kind or '-' for kind in self.cycle)}, requests {asked}"


def case(cycle: str, requests: str) -> Case:
    """A case in letters, as in ``case("g gh", "G4 H2*3")``."""
    words = [word.partition("*") for word in requests.split()]
    return Case(
        tuple(cycle.split()),
        tuple((request[0].lower(), int(request[1:])) for request, _, _ in words),
        tuple(int(rounds) if rounds else None for _, _, rounds in words),
    )


CASES = {
    "A": case("g gh", "G4 H2"),
    "B": case("g gh", "H5 G2 G2 G2"),
    "C": case("g gc gch", "G6 C4 H2"),
    "D": case("g gc gch", "G2 G2 G2 C6 H2"),
    "E": case("g gc gch", "G3 C2 H1"),
}


def view(
    world: Case, remaining: Sequence[int], plan_number: int = 1, *, seed: int = 7, attained: Sequence[float] = ()
) -> View:
    """What a policy sees when so many devices of each request remain to be leased.

    Groups stay to the end; a filled request leaves. ``attained``: device-seconds of each job, 0 unless given.
    """
    letters = sorted({letter for letter, _ in world.requests})
    groups = tuple(
        GroupView(GroupId(letter), tuple(RegionId(index) for index, kind in enumerate(world.regions) if letter in kind))
        for letter in letters
    )
    requests = tuple(
        RequestView(
            request=RequestId(index),
            job=JobId(f"job-{index:02d}"),
            arrival=0.0,
            group=GroupId(letter),
            remaining=left,
            remaining_all_rounds=None if rounds is None else left + (rounds - 1) * demand,
            places=demand,
            needed=demand,
            lacking=left,
        )
        for index, ((letter, demand), rounds, left) in enumerate(
            zip(world.requests, world.rounds, remaining, strict=True)
        )
        if left > 0
    )
    supply = {RegionId(index): world.cycle.count(kind) for index, kind in enumerate(world.regions)}
    had = {one.job: attained[one.request] if attained else 0.0 for one in requests}
    return View(
        0.0, seed, plan_number, groups, Requests.of(requests, groups), supply, float(len(world.cycle)), attained=had
    )


def candidates(plan: Plan, seen: View, region: RegionId, remaining: Mapping[RequestId, int]) -> list[RequestId]:
    """The requests that a device of this region may be leased to: the first one of them, or a uniform draw."""
    group_of = {request.request: request.group for request in seen.requests}
    eligible = {group.group for group in seen.groups if region in group.regions}
    first = [plan.queues[plan.owner[region]]] if region in plan.owner else []
    listed = [request for queue in (*first, *plan.queues) for request in queue]
    able = [request for request in dict.fromkeys(listed) if remaining[request] > 0 and group_of[request] in eligible]
    if plan.mode is Mode.UNIFORM:
        return sorted(able)  # jobs arrive together and are numbered alike: (arrival, job id) is the request's number
    return able[:1]


@dataclass
class Run:
    """How a case went: fill times in seconds, one per request in the order given, and the plans that were made."""

    fills: list[int]
    plans: list[Plan] = field(default_factory=list)

    @property
    def mean(self) -> Fraction:
        """The mean fill time, in seconds."""
        return Fraction(sum(self.fills), len(self.fills))


def run(world: Case, policy: Policy, *, plan_at_each_lease: bool = False, seed: int = 7) -> Run:
    """Play a case to its last fill under a policy whose plans are ordered (``Mode.ORDERED``)."""
    remaining = {RequestId(index): demand for index, demand in enumerate(world.demands)}
    leased: dict[RequestId, list[int]] = {request: [] for request in remaining}  # when
    result = Run([0] * len(remaining))

    def planned(now: int) -> tuple[View, Plan]:
        attained = [float(sum(now - at for at in times)) for times in leased.values()]
        seen = view(world, list(remaining.values()), len(result.plans) + 1, seed=seed, attained=attained)
        result.plans.append(policy.plan(seen))
        return seen, result.plans[-1]

    seen, plan = planned(0)
    for now in count(1):
        region = RegionId(world.regions.index(world.kind(now)))
        for request in candidates(plan, seen, region, remaining):
            remaining[request] -= 1
            leased[request].append(now)
            if remaining[request] == 0:
                result.fills[request] = now
            if remaining[request] == 0 or plan_at_each_lease:
                seen, plan = planned(now)
        if not any(remaining.values()):
            return result
    raise AssertionError("unreachable")


def exact_mean(world: Case, policy: Policy) -> Fraction:
    """The expected mean fill time in s of any policy, ``Mode.UNIFORM`` too: all that can happen is enumerated."""

    @cache
    def planned(remaining: tuple[int, ...]) -> tuple[View, Plan]:
        seen = view(world, remaining)
        return seen, policy.plan(seen)

    @cache
    def expected(second: int, remaining: tuple[int, ...]) -> Fraction:
        """The sum of the fill times still to come, from the device of this second on."""
        if not any(remaining):
            return Fraction(0)
        seen, plan = planned(remaining)
        region = RegionId(world.regions.index(world.kind(second)))
        able = candidates(plan, seen, region, {RequestId(i): left for i, left in enumerate(remaining)})
        if not able:
            return expected(second + 1, remaining)
        total = Fraction(0)
        for request in able:
            left = tuple(value - (index == request) for index, value in enumerate(remaining))
            total += (second if left[request] == 0 else 0) + expected(second + 1, left)
        return total / len(able)

    return expected(1, world.demands) / len(world.demands)


def exact_order_mean(world: Case) -> Fraction:
    """The expected mean fill time in s where one order of all requests is drawn; all orders are enumerated."""
    orders = list(permutations(range(len(world.requests))))
    return Fraction(sum(sum(by_priority(world, order)) for order in orders), len(orders) * len(world.requests))


def by_priority(world: Case, order: Sequence[int]) -> list[int]:
    """The fill times in s where each device goes to the first request of ``order`` that it can serve."""
    remaining, fills = list(world.demands), [0] * len(world.demands)
    for second in count(1):
        able = world.able(world.kind(second), remaining)
        for request in [each for each in order if each in able][:1]:
            remaining[request] -= 1
            fills[request] = second
        if not any(remaining):
            break
    return fills


def best_mean(world: Case) -> Fraction:
    """The least mean fill time in s that any policy could reach; every request is tried for each device."""
    return Fraction(over_all_ways(world, min)) / len(world.demands)


def over_all_ways(world: Case, choose: Callable[[list[float]], float]) -> float:
    """The sum of the fill times in s, where ``choose`` makes one sum of those that each choice for a device leads to.

    With the mean that is what a uniformly random choice gives on average, exactly; with ``min`` it is the least. A sum
    of fill times is a sum over the seconds of how many requests are not yet filled. What comes after a second follows
    from the place in the cycle and the demands that are left, so those are all the states there are. A device that can
    serve a request does: to let it go never fills a request sooner.
    """
    length = len(world.cycle)
    after: dict[tuple[int, ...], list[float]] = {}  # demands left -> sum to come, by the place of the next device
    for remaining in product(*(range(demand + 1) for demand in world.demands)):  # fewer left come first
        able = [world.able(kind, remaining) for kind in world.cycle]
        sums = after[remaining] = [0.0] * length
        last = max((place for place in range(length) if able[place]), default=0)
        for place in ((last - back) % length for back in range(length if any(remaining) else 0)):
            following, waiting = (place + 1) % length, sum(left > 0 for left in remaining)
            left = (tuple(n - (index == request) for index, n in enumerate(remaining)) for request in able[place])
            sums[place] = waiting + (
                choose([after[each][following] for each in left]) if able[place] else sums[following]
            )
    return after[world.demands][0]


def response_times(*rows: list[int]) -> ResponseTimes:
    """Response profiles of a job, as in ``JobView.responses``.

    ``rows``: responses in each bin of ``coordinator.engine.scale``, over all tiers, of each tier, of places.
    """
    profiles = [Profile(row, sum(row), 0, row[0]) for row in rows]
    return ResponseTimes(profiles.__getitem__)
