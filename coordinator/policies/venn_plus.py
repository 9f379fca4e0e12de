"""One order for all devices, least left to do on the scarcest ones first; spare places and fast devices at a price.

docs/venn-plus.md derives it and says what else was tried. The arithmetic, for whoever computes it elsewhere, in 64-bit
floats from left to right:

    left   remaining demand over all rounds left, or of the open request where their number is not known
    rate   check-ins counted over the window in the regions of its group, a whole number
    index  left * rate * rate * rate * sqrt(remaining / places)

(``* rate`` as often as ``scarcity`` says, 3 times unless told otherwise; with ``nearness=no`` without the root.) Least
index first; ties go by job arrival, job id and request, in which order the view has them. There is one queue, no region
has an owner.

*Spare places* are priced, see ``spares``. A job in collection, whose round has all the devices that it needs, stands in
the order with its next opening, and lacks devices there: its index is that of rounds left * places, with one round
left where their number is not known, and without the root. It comes after requests of the same index.

*Fast devices* are priced as well. A request that is below its target, if no plan has decided it, is restricted to the
devices of tier u and faster ones, for the greatest gain above 0. With n its target and todo = n - placed,

    gain(u) = Q - Q_u - (todo / rate_u - todo / rate) - todo * rate / rate_u * lost

Q and Q_u are the times of the K-th of n responses, over all tiers and over those up to u, whose supply is rate_u;
``lost`` is the sum over groups h of W[g][h] * (other requests of h that lack devices for their K): while it fills from
these tiers, they wait.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import RegionId, RequestId
from coordinator.engine.plan import (
    ANY_TIER,
    UNDECIDED,
    Collecting,
    Plan,
    Reals,
    Requests,
    RequestView,
    View,
)
from coordinator.policies.order import Places, behind_in
from coordinator.policies.spares import Contention, Spares, Stands, contention, priced, spares_of, targets, with_spare
from coordinator.policies.venn.tiers import MOST_TIERS, NOWHERE, TIERS, Drawn, Holding, restrictions, total

MOST_SCARCITY = 8
Floats = NDArray[np.floating[Any]]
Numbers = TypeVar("Numbers", float, Floats)


class VennPlus:
    """least left to do on the scarcest devices first, with as many spare places as are worth what they cost others"""

    name = "venn-plus"

    def __init__(
        self,
        scarcity: int = 3,
        nearness: bool = True,
        spares: str = Spares.AUTO,
        collecting: bool = True,
        tiers: int = TIERS,
    ) -> None:
        """``scarcity``: power of the supply in the index, 0 to 8; 0 leaves it out.

        ``nearness``: requests that are nearly full come forward. ``spares``: as for every policy. ``collecting``: jobs
        in collection count for prices. ``tiers``: 1 is none. Raises ValueError.
        """
        if not 0 <= scarcity <= MOST_SCARCITY:
            raise ValueError(f"scarcity is {scarcity}; it is 0 to {MOST_SCARCITY}")
        if not 1 <= tiers <= MOST_TIERS:
            raise ValueError(f"tiers is {tiers}; it is 1, for none, to {MOST_TIERS}")
        self.scarcity, self.nearness, self.collecting, self.tiers = scarcity, nearness, collecting, tiers
        self.spares = spares_of(spares)
        self._contention = Contention()

    def plan(self, view: View) -> Plan:
        if not self._contention.is_of(view):
            self._contention = contention(view)
        requests, rates = view.requests, self._contention.rates
        indices = self.key(requests, rates, self.scarcity, self.nearness)
        order = np.argsort(indices, kind="stable")
        goals = requests.places
        if self.spares is Spares.LAST:
            goals = requests.needed
        elif self.spares is Spares.AUTO:
            jobs = view.collecting if self.collecting else Collecting.of((), ())
            openings = self.opening_key(jobs, rates, self.scarcity)
            stands = Stands(
                np.concatenate((requests.group, jobs.group)),
                np.concatenate((requests.lacking > 0, np.ones(len(jobs), np.bool_))),
            )
            goals = priced(
                view, stands, np.argsort(np.concatenate((indices, openings)), kind="stable"), self._contention
            )
        limits = NOWHERE
        aims = targets(requests, goals) if self.spares is not Spares.WITH else {}
        if view.tiers > 1 and self.tiers > 1:
            limits = restrictions(view, _holdings(view, order), _Priced(view, aims, self._contention))
        why = partial(behind_in, requests, order, "its job has less left to do, or needs scarcer devices")
        return Plan(
            queues=(requests.ids(order),),
            why=partial(with_spare, requests, goals, why),
            targets=aims,
            tiers=limits.tiers,
            or_faster=True,
            review_at=limits.review_at,
        )

    @staticmethod
    def key(requests: Requests, rates: Reals, scarcity: int, nearness: bool) -> Floats:
        """The index. ``rates``: of each group of the view."""
        found = index(requests.left * 1.0, rates[requests.group], scarcity)
        return found * np.sqrt(requests.remaining / requests.places) if nearness else found

    @staticmethod
    def opening_key(jobs: Collecting, rates: Reals, scarcity: int) -> Floats:
        """The index of the next opening of jobs in collection."""
        return index(np.maximum(jobs.rounds_left, 1) * jobs.places * 1.0, rates[jobs.group], scarcity)


# The simulator compiles the next two functions, as it does the keys.


def index(left: Numbers, rate: Numbers, scarcity: int) -> Numbers:
    """What requests are ordered by, without their nearness: of one, or of arrays."""
    for _ in range(scarcity):
        left = left * rate
    return left


def gain(saved_s: float, todo: int, span_s: float, rate: int, rate_u: int, lost: float) -> float:
    """What a request gains, seconds, where devices of supply ``rate_u`` of ``rate`` save it ``saved_s``."""
    return saved_s - (todo * span_s / rate_u - todo * span_s / rate) - todo * (rate / rate_u) * lost


class _Priced:
    """Which tiers, from the fastest on, are worth what they cost the request itself and others."""

    def __init__(self, view: View, targets: Mapping[RequestId, int], between: Contention) -> None:
        self._targets, self._between = targets, between
        groups = view.requests.group[view.requests.lacking > 0]
        self._lacking = np.bincount(groups, minlength=len(view.groups)).tolist()  # by group: requests that lack
        # devices for their K

    def choice(self, view: View, request: RequestView, holding: Holding) -> int:
        rate = int(self._between.rates[self._between.number[request.group]])
        target = self._targets.get(request.request, request.places)
        if rate == 0 or target <= request.placed:
            return UNDECIDED
        responses = view.jobs[request.job].responses
        times = responses.of_tier()
        if times is None or request.deadline_at == math.inf:
            return ANY_TIER
        todo, lost = target - request.placed, self._lost(request)
        best, most, all_s = ANY_TIER, 0.0, times.quantile(request.needed, target + 1)
        for tier in range(view.tiers - 1):
            rate_u, faster = self.rate(view, holding.owned(), tier), responses.upto_tier(tier)
            if rate_u == 0 or faster is None:
                continue
            saved = all_s - faster.quantile(request.needed, target + 1)
            found = gain(saved, todo, view.supply_span_s, rate, rate_u, lost)
            if found > most:
                best, most = tier, found
        return best

    def tail_s(self, view: View, request: RequestView, tier: int) -> float:
        """When the response that closes a round comes, seconds after the lease, in the slowest of its tiers."""
        return Drawn().tail_s(view, request, tier)

    def rate(self, view: View, regions: Iterable[RegionId], tier: int) -> int:
        of = tuple(regions)
        return sum([total(view.tier_supply[each], of) for each in range(tier + 1)])

    def _lost(self, request: RequestView) -> float:
        """Seconds of all others that lack devices, for each device of this one that they could have used."""
        mine, lost = self._between.number[request.group], 0.0
        for group, lacking in enumerate(self._lacking):
            lost += float(self._between.seconds[mine, group]) * (lacking - (group == mine and request.lacking > 0))
        return lost


def _holdings(view: View, order: Places) -> Iterator[Holding]:
    """Holdings of one request each; all that its group can use is its own."""
    requests = view.requests
    tiers = requests.tier[order]
    for place in order[(tiers >= 0) | (tiers == UNDECIDED)].tolist():
        one = requests[place]
        yield Holding(one, (one,) if one.tier >= 0 else (), partial(iter, view.groups[requests.group[place]].regions))
