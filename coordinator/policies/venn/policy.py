"""The Venn policy: scarce groups first across groups, least remaining demand first within a group.

What is restricted to a tier of devices is said in ``tiers``, and what the fairness knob changes in ``fairness``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from coordinator.engine.ids import RegionId
from coordinator.engine.plan import Plan, Reasons, RequestView, View
from coordinator.policies.order import left_of_job, left_of_request
from coordinator.policies.venn.fairness import MOST_EXPONENT, FairShares
from coordinator.policies.venn.irs import Allocation, Ground
from coordinator.policies.venn.queues import Landscape, Queue
from coordinator.policies.venn.tiers import MOST_TIERS, NOWHERE, TIERS, Drawn, Holding, restrictions

ORDERS: Mapping[str, Callable[[RequestView], int]] = {"job": left_of_job, "request": left_of_request}
PAPER, CLOSING = "paper", "closing"
MOST_PERCENTILE = 99


class Venn:
    """Intersection Resource Scheduling: scarce devices are kept for those who need them, short requests go first"""

    name = "venn"
    planner = "venn"  # the simulator's compiled twin of this class
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
        self._landscape = Landscape((), {})

    def plan(self, view: View) -> Plan:
        if not self._landscape.is_of(view):
            self._landscape = Landscape(view.groups, view.supply)
        land = self._landscape
        left = ORDERS[self.order]
        shares = FairShares(view, self.fairness, left) if self.fairness else None
        queues = land.queues(view.requests, shares.demand if shares else left)
        supplied = queues[land.unsupplied :]
        weights = [shares.weight(queue.requests) for queue in supplied] if shares else None
        ends = [queue.ends for queue in supplied]
        allocation = Allocation(land.ground, ends, weights=weights, whole_queues=self.whole_queues)
        limits = NOWHERE
        if view.tiers > 1 and self.tiers > 1:
            limits = restrictions(
                view,
                [
                    Holding(queue.requests, queue.restricted, partial(_owned, allocation.ground, index))
                    for index, (queue, rate) in enumerate(zip(supplied, allocation.ground.rates, strict=True))
                    if queue.restricted or (queue.undecided and rate > 0)
                ],
                self.rule,
            )
        return Plan(
            queues=tuple([queue.names for queue in queues]),
            owner=land.owners(allocation.ground),
            why=partial(_reasons, queues[: land.unsupplied], supplied, allocation),
            tiers=limits.tiers,
            review_at=limits.review_at,
        )


def _owned(ground: Ground, index: int) -> list[RegionId]:
    """The regions of one contender."""
    return [RegionId(region) for region in (ground.owner == index).nonzero()[0].tolist()]


def _reasons(unsupplied: Sequence[Queue], supplied: Sequence[Queue], allocation: Allocation) -> Reasons:
    for queue in unsupplied:
        yield from _behind_head(queue.requests)
    for index, queue in enumerate(supplied):
        rival = allocation.rivals.get(index)
        if queue.requests and rival is not None:
            what = "some" if allocation.ground.rates[index] else "all"
            kind = "scarcer" if rival < index else "busier"
            first, ahead = queue.requests[0], supplied[rival].requests[0]
            yield first.job, f"{what} of its devices go first to {ahead.job}, in a {kind} group"
        yield from _behind_head(queue.requests)


def _behind_head(queue: Sequence[RequestView]) -> Reasons:
    for request in queue[1:]:
        yield request.job, f"behind {queue[0].job}: less is left to do there"
