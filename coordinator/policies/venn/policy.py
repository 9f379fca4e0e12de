"""The Venn policy: scarce groups first across groups, least remaining demand first within a group.

What is restricted to a tier of devices is said in ``tiers``, and what the fairness knob changes in ``fairness``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from coordinator.engine.ids import GroupId, RegionId
from coordinator.engine.plan import GroupView, Plan, Reasons, RequestView, View
from coordinator.policies.order import left_of_job, left_of_request
from coordinator.policies.venn.fairness import MOST_EXPONENT, FairShares
from coordinator.policies.venn.irs import Allocation, Ground
from coordinator.policies.venn.tiers import MOST_TIERS, NOWHERE, TIERS, Drawn, Holding, restrictions

ORDERS: Mapping[str, Callable[[RequestView], int]] = {"job": left_of_job, "request": left_of_request}
PAPER, CLOSING = "paper", "closing"
MOST_PERCENTILE = 99

Queue = list[RequestView]  # of one group, or of several that the same regions supply, in the order of service


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
        demands = [[request.remaining for request in queue] for queue in supplied]
        weights = [shares.weight(queue) for queue in supplied] if shares else None
        allocation = Allocation(land.ground, demands, weights=weights, whole_queues=self.whole_queues)
        limits = NOWHERE
        if view.tiers > 1 and self.tiers > 1:
            limits = restrictions(
                view,
                [Holding(queue, partial(land.owned, allocation, index)) for index, queue in enumerate(supplied)],
                self.rule,
            )
        return Plan(
            queues=tuple([tuple([request.request for request in queue]) for queue in queues]),
            owner=land.owners(allocation),
            why=partial(_reasons, queues[: land.unsupplied], supplied, allocation),
            tiers=limits.tiers,
            review_at=limits.review_at,
        )


class Landscape:
    """What groups and supply alone decide. It holds for many plans: most differ in their requests only.

    Groups whose regions with supply are the same are one queue; so is each group without any. Scarcest first: by
    (supply of all that its devices can be, group id).
    """

    def __init__(self, groups: tuple[GroupView, ...], supply: Mapping[RegionId, int]) -> None:
        self._groups, self._supply = groups, supply
        merged = _merged(groups, supply)
        self.queue_of = {group.group: index for index, one in enumerate(merged) for group in one.groups}
        self.unsupplied = sum(one.rate == 0 for one in merged)  # queues: they come first and take no part
        self.ground = Ground([one.regions for one in merged[self.unsupplied :]], supply)
        self._owner = self.ground.owner  # of the last plan: contender by region, and ...
        regions, owner = self.ground.regions, self.ground.owner
        self._queues: dict[RegionId, int] = dict(
            zip(map(RegionId, regions.tolist()), (owner[regions] + self.unsupplied).tolist(), strict=True)
        )  # ... queue

    def is_of(self, view: View) -> bool:
        same = view.groups is self._groups and view.supply is self._supply
        return same or (view.groups == self._groups and view.supply == self._supply)

    def owners(self, allocation: Allocation) -> Mapping[RegionId, int]:
        """Queue of each region; the same object as of the last plan where nothing has moved since, as is usual."""
        moved = (allocation.owner != self._owner).nonzero()[0]
        if len(moved):
            self._queues = self._queues.copy()
            self._queues.update(zip(moved.tolist(), (allocation.owner[moved] + self.unsupplied).tolist(), strict=True))
            self._owner = allocation.owner
        return self._queues

    def owned(self, allocation: Allocation, index: int) -> list[RegionId]:
        """The regions of one contender."""
        if allocation.rates[index] == 0:  # all of them have supply
            return []
        return [RegionId(region) for region in (allocation.owner == index).nonzero()[0].tolist()]

    def queues(self, requests: Sequence[RequestView], demand: Callable[[RequestView], float]) -> list[Queue]:
        """Least demand first; ties go by job arrival and job id, in which order the requests come."""
        queues: list[Queue] = [[] for _ in range(1 + max(self.queue_of.values(), default=-1))]
        for request in requests:
            queues[self.queue_of[request.group]].append(request)
        for queue in queues:
            queue.sort(key=demand)
        return queues


@dataclass(slots=True)
class _Merged:
    groups: list[GroupView]
    regions: np.ndarray[tuple[int], np.dtype[np.intp]]  # with supply
    rate: int  # their supply


def _merged(groups: Sequence[GroupView], supply: Mapping[RegionId, int]) -> list[_Merged]:
    found: dict[bytes | GroupId, _Merged] = {}
    counts = np.zeros(1 + max([*supply, *(group.regions[-1] for group in groups if group.regions)], default=0), int)
    counts[list(supply)] = list(supply.values())
    for group in groups:
        eligible = np.array(group.regions, dtype=np.intp)
        regions = eligible[counts[eligible] > 0]
        key = regions.tobytes() or group.group
        if key in found:
            found[key].groups.append(group)
        else:
            found[key] = _Merged([group], regions, int(counts[regions].sum()))
    return sorted(found.values(), key=lambda one: (one.rate, one.groups[0].group))


def _reasons(unsupplied: Sequence[Queue], supplied: Sequence[Queue], allocation: Allocation) -> Reasons:
    for queue in unsupplied:
        yield from _behind_head(queue)
    for index, queue in enumerate(supplied):
        rival = allocation.rivals.get(index)
        if queue and rival is not None:
            what = "some" if allocation.rates[index] else "all"
            kind = "scarcer" if rival < index else "busier"
            yield queue[0].job, f"{what} of its devices go first to {supplied[rival][0].job}, in a {kind} group"
        yield from _behind_head(queue)


def _behind_head(queue: Queue) -> Reasons:
    for request in queue[1:]:
        yield request.job, f"behind {queue[0].job}: less is left to do there"
