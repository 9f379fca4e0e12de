"""The Venn policy: scarce groups first across groups, least remaining demand first within a group.

What is restricted to a tier of devices is said in ``tiers``, and what the fairness knob changes in ``fairness``.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from coordinator.engine.ids import RegionId
from coordinator.engine.plan import UNDECIDED, Plan, Reasons, Requests, View
from coordinator.policies.venn.fairness import MOST_EXPONENT, FairShares
from coordinator.policies.venn.irs import Allocation, Ground
from coordinator.policies.venn.queues import Landscape, Queues
from coordinator.policies.venn.tiers import MOST_TIERS, NOWHERE, TIERS, Drawn, Holding, restrictions

ORDERS = ("job", "request")
PAPER, CLOSING = "paper", "closing"
MOST_PERCENTILE = 99


class Venn:
    """Intersection Resource Scheduling: scarce devices are kept for those who need them, short requests go first"""

    name = "venn"
    whole_queues = False  # of line 6: count only the requests that are held up, or all

    def __init__(
        self, fairness: float = 0.0, tiers: int | str = 3, order: str = "job", tail: int | str = "closing"
    ) -> None:
        """``fairness``: 0 to 50, how strongly jobs past their fair share move forward.

        ``tiers``: 1 is none; ``paper`` is three by the published rule. ``order``: within a group by what is left of the
        ``job``, or of the ``request``. ``tail``: percentile of the response times that tiers are compared by, 1 to 99,
        or that of the response that closes a round. Raises ValueError.
        """
        if not 0.0 <= fairness <= MOST_EXPONENT:
            raise ValueError(f"fairness is {fairness:g}; it is 0 to {MOST_EXPONENT:g}")
        paper = tiers == PAPER
        number = TIERS if paper else tiers
        if not isinstance(number, int) or not 1 <= number <= MOST_TIERS:
            raise ValueError(f"tiers is {tiers}; it is 1, for none, to {MOST_TIERS}, or {PAPER}")
        if order not in ORDERS:
            raise ValueError(f"order is {order!r}; it is {' or '.join(ORDERS)}")
        percent = 0 if tail == CLOSING else tail
        if not isinstance(percent, int) or tail == 0 or percent > MOST_PERCENTILE:
            raise ValueError(f"tail is {tail}; it is 1 to {MOST_PERCENTILE}, or {CLOSING}")
        self.fairness, self.tiers, self.order = fairness, number, order
        self.rule = Drawn(paper, percent)
        self._landscape = self._queued_on = Landscape((), {})
        self._queues = self._landscape.queues(Requests.of((), ()), np.zeros(0))  # of the last plan

    def plan(self, view: View) -> Plan:
        if not self._landscape.is_of(view):
            self._landscape = Landscape(view.groups, view.supply)
        land, requests = self._landscape, view.requests
        left = requests.left if self.order == "job" else requests.remaining
        shares = FairShares(view, self.fairness) if self.fairness else None
        before = self._queues if self._queued_on is land else None
        if before is None or shares or before.requests is not requests:
            self._queues, self._queued_on = (
                land.queues(requests, shares.demands(left) if shares else left, before),
                land,
            )
        queues, first = self._queues, land.unsupplied
        weights = [shares.weight(queues.places(queue)) for queue in range(first, land.number)] if shares else None
        allocation = Allocation(land.ground, queues.ends[first:], weights=weights, whole_queues=self.whole_queues)
        limits = NOWHERE
        if view.tiers > 1 and self.tiers > 1:
            limits = restrictions(view, _holdings(queues, first, allocation.ground), self.rule)
        return Plan(
            queues=tuple(queues.names),
            owner=land.owners(allocation.ground),
            why=partial(_reasons, queues, first, allocation),
            tiers=limits.tiers,
            review_at=limits.review_at,
        )


def _holdings(queues: Queues, first: int, ground: Ground) -> Iterator[Holding]:
    """Holdings of queues that have somebody to restrict, or restricted; ``first``: the first queue with supply."""
    requests, order, starts = queues.requests, queues.order, queues.starts[first:].tolist()
    if (requests.tier < UNDECIDED).all():
        return
    tiers = requests.tier[order]
    holdings: dict[int, list[int]] = {}  # by queue: its restricted requests, by their place in the order
    for place in (tiers >= 0).nonzero()[0].tolist():
        if place >= starts[0]:
            holdings.setdefault(bisect_right(starts, place) - 1, []).append(place)
    tier = tiers.tolist()
    undecided = {
        index
        for index, (start, after) in enumerate(pairwise(starts))
        if start < after and tier[start] == UNDECIDED and ground.rates[index] > 0
    }
    for index in sorted(undecided.union(holdings)):
        yield Holding(
            requests[int(order[starts[index]])] if index in undecided else None,
            [requests[int(order[place])] for place in holdings.get(index, ())],
            partial(_owned, ground, index),
        )


def _owned(ground: Ground, index: int) -> list[RegionId]:
    """The regions of one contender."""
    return [RegionId(region) for region in (ground.owner == index).nonzero()[0].tolist()]


def _reasons(queues: Queues, first: int, allocation: Allocation) -> Reasons:
    """Reasons of jobs that others come before. ``first``: the first queue with supply."""
    for queue in range(len(queues.names)):
        jobs, rival = queues.jobs(queue), allocation.rivals.get(queue - first)
        if jobs and rival is not None:
            what = "some" if allocation.ground.rates[queue - first] else "all"
            kind = "scarcer" if rival < queue - first else "busier"
            yield jobs[0], f"{what} of its devices go first to {queues.jobs(first + rival)[0]}, in a {kind} group"
        for job in jobs[1:]:
            yield job, f"behind {jobs[0]}: less is left to do there"
