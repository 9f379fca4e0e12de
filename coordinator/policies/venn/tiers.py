"""Tier matching: which requests are for the devices of one tier alone, and when that ends.

A request that takes only fast devices waits longer for them, and less long for their responses. With its demand still
open, the supply that its queue owns (``rate`` of all tiers, ``rate_u`` of tier u) and the tails of its job's response
times (t_0 over all tiers, t_u in tier u), restricting it to tier u pays where

    remaining / rate_u - remaining / rate < t_0 - t_u

Where every tier has one V-th of the supply this is the rule of Liu et al. (Venn, MLSys 2025), V + g_u c < 1 + c with
g_u = t_u / t_0 and c = t_0 x rate / remaining. Regions differ in how fast their devices are, and a job that owns slow
devices only would wait for ever for the fast ones, so the tier's own supply is put in the place of the V-th.

``tiers=paper`` takes the published rule as it is, and ``tail=95`` the 95th percentile in place of that of the response
that closes a round.

- *Decided once.* The first request of a queue draws its tier, uniformly, when it is first there and its queue owns
  supply; it is restricted to that one, or for all, from then on. Where t_0 or the tier's supply is unknown, for all.
- *Deadline guard.* A restricted request is for all again, for good, once now >= deadline - (remaining / rate_u + t_u).
  ``review_at`` is the earliest such time as things stand.

Floats are taken in the order in which they are written here; all of them are products, quotients, sums, differences.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.engine.chance import Purpose, draw, index
from coordinator.engine.ids import RegionId, RequestId
from coordinator.engine.plan import ANY_TIER, UNDECIDED, RequestView, View

MOST_TIERS = 16  # that anybody may ask for
TIERS = 3  # by default


@dataclass(frozen=True, slots=True)
class Holding:
    """Requests that are served one after the other, and what is theirs first."""

    first: RequestView | None  # of them; None: it need not be looked at
    restricted: Sequence[RequestView]  # of them
    owned: Callable[[], Iterable[RegionId]]  # asked for only where it matters


@dataclass(frozen=True, slots=True)
class Restrictions:
    """What a plan decides of tiers."""

    tiers: Mapping[RequestId, int]
    review_at: float | None


NOWHERE = Restrictions({}, None)


class Rule(Protocol):
    """The rule of tiers: what is asked before a request is restricted, and while it is."""

    def choice(self, view: View, request: RequestView, holding: Holding) -> int:
        """A tier, ANY_TIER, or UNDECIDED as long as its queue owns nothing."""

    def tail_s(self, view: View, request: RequestView, tier: int) -> float:
        """The tail of its response times in a tier, seconds."""

    def rate(self, view: View, regions: Iterable[RegionId], tier: int) -> int:
        """Check-ins in these regions of devices that a request restricted to a tier takes."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The rule that draws one tier, and takes it where it pays."""

    paper: bool = False  # by the published rule
    percent: int = 0  # of the tail; 0: of the response that closes a round

    def choice(self, view: View, request: RequestView, holding: Holding) -> int:
        regions = list(holding.owned())
        if not regions or (rate := total(view.supply, regions)) == 0:
            return UNDECIDED
        tail_s = self.tail_s(view, request, -1)
        if tail_s == 0.0 or request.deadline_at == math.inf:
            return ANY_TIER
        tier = index(draw(view.seed, Purpose.TIER, request.request), view.tiers)
        fast_s, work = self.tail_s(view, request, tier), request.remaining * view.supply_span_s
        if self.paper:
            worth_it = pays_by_paper(view.tiers, work, rate, tail_s, fast_s)
        else:
            worth_it = pays(work, rate, self.rate(view, regions, tier), tail_s, fast_s)
        return tier if worth_it else ANY_TIER

    def tail_s(self, view: View, request: RequestView, tier: int) -> float:
        """The tail of a request's response times over all tiers (-1), or of one, seconds; 0: not known."""
        job = view.jobs[request.job]
        if self.percent == 0:
            return job.tails_s[1 + tier] if job.tails_s else 0.0
        times = job.responses.of_tier(tier)
        return 0.0 if times is None else times.quantile(self.percent, 100)

    def rate(self, view: View, regions: Iterable[RegionId], tier: int) -> int:
        return total(view.tier_supply[tier], regions)


def restrictions(view: View, holdings: Iterable[Holding], rule: Rule) -> Restrictions:
    """Decide the tiers of the first request of each queue, and of those that were restricted before."""
    tiers: dict[RequestId, int] = {}
    review_at = math.inf
    for holding in holdings:
        restricted = [(request, request.tier) for request in holding.restricted]
        first = holding.first
        if first is not None and first.tier == UNDECIDED:
            tier = rule.choice(view, first, holding)
            if tier != UNDECIDED:
                tiers[first.request] = tier
            if tier >= 0:
                restricted.append((first, tier))
        for request, tier in restricted:
            rate, tail_s = rule.rate(view, holding.owned(), tier), rule.tail_s(view, request, tier)
            latest = latest_s(request.deadline_at, request.remaining * view.supply_span_s, rate, tail_s)
            if view.now >= latest:
                tiers[request.request] = ANY_TIER
            else:
                review_at = min(review_at, latest)
    return Restrictions(tiers, review_at if review_at < math.inf else None)


def total(supply: Mapping[RegionId, int], regions: Iterable[RegionId]) -> int:
    """Check-ins in these regions."""
    return sum([supply.get(region, 0) for region in regions])


# The simulator compiles the functions below. ``work`` is the remaining demand x the span of the supply: ``work / rate``
# are the seconds until that many devices have come.


def pays(work: float, rate: int, rate_u: int, tail_s: float, fast_s: float) -> bool:
    """Whether a tier is worth the wait, with supply ``rate_u`` of ``rate`` and tail ``fast_s``, not ``tail_s``."""
    return rate_u > 0 and work / rate_u - work / rate < tail_s - fast_s


def pays_by_paper(tiers: int, work: float, rate: int, tail_s: float, fast_s: float) -> bool:
    """Whether a tier is worth the wait by the published rule."""
    collecting = tail_s * rate / work  # c
    return tiers + fast_s / tail_s * collecting < 1.0 + collecting


def latest_s(deadline: float, work: float, rate: int, tail_s: float) -> float:
    """The time to which a restricted request can wait for its tier's devices and their responses; -inf if none come."""
    return deadline - (work / rate + tail_s) if rate > 0 else -math.inf
