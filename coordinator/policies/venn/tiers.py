"""Tier matching: which requests are for the devices of one tier alone, and when that ends.

A request that takes only fast devices waits longer for them, and less long for their responses. With its demand still
open, the supply that its queue owns (``rate`` of all tiers, ``rate_u`` of tier u) and the tails of its job's response
times (t_0 over all tiers, t_u in tier u), restricting it to tier u pays where

    remaining / rate_u - remaining / rate < t_0 - t_u

Where every tier has one V-th of the supply this is the rule of Liu et al. (Venn, MLSys 2025), V + g_u c < 1 + c with
g_u = t_u / t_0 and c = t_0 x rate / remaining. Regions differ in how fast their devices are, and a job that owns slow
devices only would wait for ever for the fast ones, so the tier's own supply is put in the place of the V-th.

- *Decided once.* The first request of a queue draws its tier, uniformly, when it is first there and its queue owns
  supply; it is restricted to that one, or for all, from then on. Where t_0 or the tier's supply is unknown, for all.
- *Deadline guard.* A restricted request is for all again, for good, once now >= deadline - (remaining / rate_u + t_u).
  ``review_at`` is the earliest such time as things stand.

Floats are taken in the order in which they are written here; all of them are products, quotients, sums, differences.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from coordinator.engine.chance import Purpose, draw, index
from coordinator.engine.ids import RegionId, RequestId
from coordinator.engine.plan import ANY_TIER, UNDECIDED, RequestView, View

MOST_TIERS = 16  # that anybody may ask for


@dataclass(frozen=True, slots=True)
class Holding:
    """Requests in the order in which they are served, and what is theirs first."""

    queue: Sequence[RequestView]
    owned: Callable[[], Iterable[RegionId]]  # asked for only where it matters


@dataclass(frozen=True, slots=True)
class Restrictions:
    """For a plan."""

    tiers: Mapping[RequestId, int]
    review_at: float | None


NOWHERE = Restrictions({}, None)


def restrictions(view: View, holdings: Iterable[Holding]) -> Restrictions:
    """Of the first request of each queue, and of those that were restricted before."""
    tiers: dict[RequestId, int] = {}
    review_at = math.inf
    for holding in holdings:
        restricted = [(request, request.tier) for request in holding.queue if request.tier >= 0]
        first = holding.queue[0] if holding.queue else None
        if first is not None and first.tier == UNDECIDED:
            tier = _choice(view, first, holding)
            if tier != UNDECIDED:
                tiers[first.request] = tier
            if tier >= 0:
                restricted.append((first, tier))
        for request, tier in restricted:
            latest = request.deadline_at - _needs_s(view, request, holding, tier)
            if view.now >= latest:
                tiers[request.request] = ANY_TIER
            else:
                review_at = min(review_at, latest)
    return Restrictions(tiers, review_at if review_at < math.inf else None)


def _choice(view: View, request: RequestView, holding: Holding) -> int:
    """A tier, ANY_TIER, or UNDECIDED as long as its queue owns nothing."""
    regions = list(holding.owned())
    rate = _sum(view.supply, regions)
    if rate == 0:
        return UNDECIDED
    tails = view.jobs[request.job].tails_s
    if not tails or tails[0] == 0.0 or request.deadline_at == math.inf:
        return ANY_TIER
    tier = index(draw(view.seed, Purpose.TIER, request.request), view.tiers)
    rate_u = _sum(view.tier_supply[tier], regions)
    if rate_u == 0:
        return ANY_TIER
    work = request.remaining * view.supply_span_s
    return tier if work / rate_u - work / rate < tails[0] - tails[1 + tier] else ANY_TIER


def _needs_s(view: View, request: RequestView, holding: Holding, tier: int) -> float:
    """Seconds from now until it has its devices of this tier and their responses; infinite where none come."""
    rate = _sum(view.tier_supply[tier], holding.owned())
    if rate == 0:
        return math.inf
    return request.remaining * view.supply_span_s / rate + view.jobs[request.job].tails_s[1 + tier]


def _sum(supply: Mapping[RegionId, int], regions: Iterable[RegionId]) -> int:
    return sum([supply.get(region, 0) for region in regions])
