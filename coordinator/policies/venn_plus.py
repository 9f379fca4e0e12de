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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter

from coordinator.engine.ids import GroupId, RegionId, RequestId
from coordinator.engine.plan import ANY_TIER, UNDECIDED, Plan, RequestView, View
from coordinator.policies.order import left_of_job
from coordinator.policies.reasons import behind
from coordinator.policies.spares import (
    Contention,
    Spares,
    Stand,
    contention,
    last,
    priced,
    spares_of,
    with_spare,
)
from coordinator.policies.venn.tiers import MOST_TIERS, NOWHERE, TIERS, Drawn, Holding, restrictions, total

MOST_SCARCITY = 8


class VennPlus:
    """least left to do on the scarcest devices first, with as many spare places as are worth what they cost others"""

    name = "venn-plus"
    planner = "venn-plus"  # the simulator's compiled twin of this class

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
        stands = self._order(view)
        queue = [stand.request for stand in stands if stand.request is not None]
        targets = {}
        if self.spares is not Spares.WITH:
            targets = last(view) if self.spares is Spares.LAST else priced(view, stands, self._contention)
        limits = NOWHERE
        if view.tiers > 1 and self.tiers > 1:
            limits = restrictions(view, _holdings(view, queue), _Priced(view, targets, self._contention))
        why = partial(behind, queue, view.groups, "its job has less left to do, or needs scarcer devices")
        return Plan(
            queues=(tuple([request.request for request in queue]),),
            why=partial(with_spare, view, targets, why),
            targets=targets,
            tiers=limits.tiers,
            or_faster=True,
            review_at=limits.review_at,
        )

    def _order(self, view: View) -> list[Stand]:
        """Requests, and jobs in collection where they count."""
        found: list[tuple[float, Stand]] = []
        for one in view.requests:
            unmet = math.sqrt(one.remaining / one.places) if self.nearness else 1.0
            found.append((self._index(left_of_job(one), one.group) * unmet, Stand(one.group, one.lacking > 0, one)))
        if self.collecting and self.spares is Spares.AUTO:
            for job in view.collecting:
                found.append((self._index((job.rounds_left or 1) * job.places, job.group), Stand(job.group, True)))
        return [stand for _, stand in sorted(found, key=itemgetter(0))]  # stable: ties as in the view

    def _index(self, left: int, group: GroupId) -> float:
        return index(float(left), float(self._contention.rates[self._contention.number[group]]), self.scarcity)


# The simulator compiles the next two functions.


def index(left: float, rate: float, scarcity: int) -> float:
    """What requests are ordered by, without their nearness."""
    for _ in range(scarcity):
        left *= rate
    return left


def gain(saved_s: float, todo: int, span_s: float, rate: int, rate_u: int, lost: float) -> float:
    """What a request gains, seconds, where devices of supply ``rate_u`` of ``rate`` save it ``saved_s``."""
    return saved_s - (todo * span_s / rate_u - todo * span_s / rate) - todo * (rate / rate_u) * lost


class _Priced:
    """Which tiers, from the fastest on, are worth what they cost the request itself and others."""

    def __init__(self, view: View, targets: Mapping[RequestId, int], between: Contention) -> None:
        self._targets, self._between = targets, between
        self._lacking = [0] * len(between.number)  # by group: requests that lack devices for their K
        for request in view.requests:
            self._lacking[between.number[request.group]] += request.lacking > 0

    def choice(self, view: View, request: RequestView, holding: Holding) -> int:
        regions = list(holding.owned())
        rate = total(view.supply, regions)
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
            rate_u, faster = self.rate(view, regions, tier), responses.upto_tier(tier)
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


def _holdings(view: View, queue: Sequence[RequestView]) -> Iterator[Holding]:
    """Each request is asked on its own; all that its group can use is its own."""
    regions: dict[GroupId, tuple[RegionId, ...]] = {group.group: group.regions for group in view.groups}
    for one in queue:
        restricted = (one,) if one.tier >= 0 else ()
        if restricted or one.tier == UNDECIDED:
            yield Holding((one,), restricted, partial(iter, regions[one.group]))
