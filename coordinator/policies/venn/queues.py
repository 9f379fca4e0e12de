"""Queues of requests: which groups share one, and the order within it (lines 1 to 3 of algorithm 1)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from coordinator.engine.ids import GroupId, RegionId
from coordinator.engine.plan import UNDECIDED, GroupView, RequestView, View
from coordinator.policies.venn.irs import NOBODY, Ground, contest
from coordinator.policies.venn.tiers import restricted


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
        """The queues: those of the last plan if neither the requests have changed nor ``demand``, which orders them."""
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
