"""The Venn policy: scarce groups first across groups, least remaining demand first within a group.

What is restricted to a tier of devices is said in ``tiers``, and what the fairness knob changes in ``fairness``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

import numpy as np

from coordinator.engine.ids import GroupId, RegionId
from coordinator.engine.plan import UNDECIDED, GroupView, Plan, Reasons, RequestView, View
from coordinator.policies.order import left_of_job, left_of_request
from coordinator.policies.venn.fairness import MOST_EXPONENT, FairShares
from coordinator.policies.venn.irs import NOBODY, Allocation, Ground, contest
from coordinator.policies.venn.tiers import MOST_TIERS, NOWHERE, TIERS, Drawn, Holding, restricted, restrictions

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


class Queue:
    """Requests of one group, or of several that the same regions supply."""

    __slots__ = ("ends", "names", "requests", "restricted", "undecided", "waiting")

    def __init__(self, waiting: list[RequestView], demand: Callable[[RequestView], float]) -> None:
        """Least demand first; ties go by job arrival and job id, in which order the requests come."""
        self.waiting = waiting  # as they came
        self.requests = sorted(waiting, key=demand)  # in the order of service
        self.names = tuple([request.request for request in self.requests])
        self.ends = list(accumulate([request.remaining for request in self.requests]))
        self.restricted = restricted(self.requests)
        self.undecided = bool(self.requests) and self.requests[0].tier == UNDECIDED


class Landscape:
    """What groups and supply alone decide. It holds for many plans: most differ in a few requests only.

    Groups whose regions with supply are the same are one queue; so is each group without any. Scarcest first: by
    (supply of all that its devices can be, group id).
    """

    def __init__(self, groups: tuple[GroupView, ...], supply: Mapping[RegionId, int]) -> None:
        self._groups, self._supply = groups, supply
        merged = _merged(groups, supply)
        self.queue_of = {group.group: index for index, one in enumerate(merged) for group in one.groups}
        self.unsupplied = sum(one.rate == 0 for one in merged)  # queues: they come first and take no part
        self.ground = contest([one.regions for one in merged[self.unsupplied :]], supply)
        self._queues: list[Queue] = []  # of the last plan, of ...
        self._requests: Sequence[RequestView] = ()  # ... these, ordered by ...
        self._demand: Callable[[RequestView], float] | None = None  # ... this
        self._owner = self.ground.owner  # of the last plan: contender by region, and ...

    @cached_property
    def _owners(self) -> dict[RegionId, int]:
        """... queue. A simulation in bulk does without."""
        owner = self.ground.owner
        regions = np.flatnonzero(owner != NOBODY)
        return dict(zip(map(RegionId, regions.tolist()), (owner[regions] + self.unsupplied).tolist(), strict=True))

    def is_of(self, view: View) -> bool:
        same = view.groups is self._groups and view.supply is self._supply
        return same or (view.groups == self._groups and view.supply == self._supply)

    def owners(self, ground: Ground) -> Mapping[RegionId, int]:
        """Queue of each region; the same object as of the last plan where nothing has moved since, as is usual."""
        if ground.owner is not self._owner:
            moved = (ground.owner != self._owner).nonzero()[0]
            if len(moved):
                self._owners = self._owners.copy()
                self._owners.update(zip(moved.tolist(), (ground.owner[moved] + self.unsupplied).tolist(), strict=True))
            self._owner = ground.owner
        return self._owners

    def queues(self, requests: Sequence[RequestView], demand: Callable[[RequestView], float]) -> list[Queue]:
        """Those of the last plan where neither the requests have changed nor ``demand``, which orders them."""
        if requests is self._requests and demand is self._demand:  # time alone has passed
            return self._queues
        waiting: list[list[RequestView]] = [[] for _ in range(1 + max(self.queue_of.values(), default=-1))]
        for request in requests:
            waiting[self.queue_of[request.group]].append(request)
        if demand is not self._demand:
            self._queues = [Queue(each, demand) for each in waiting]
        else:
            kept = zip(self._queues, waiting, strict=True)
            self._queues = [queue if queue.waiting == each else Queue(each, demand) for queue, each in kept]
        self._requests, self._demand = requests, demand
        return self._queues


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
