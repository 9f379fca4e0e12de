"""Queues of requests: which groups share one, and the order within it (lines 1 to 3 of algorithm 1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId
from coordinator.engine.plan import GroupView, Integers, Reals, Requests, View
from coordinator.policies.order import Places
from coordinator.policies.venn.irs import NOBODY, Ground, contest

_MOST = 2**44  # work left; times the number of queues it stays below 2**63


class Queues:
    """The requests of a view in queues, each in the order of service."""

    def __init__(self, requests: Requests, order: Places, starts: Integers, before: "Queues | None" = None) -> None:
        """``order``: one queue after the other; queue n from ``starts[n]`` to before ``starts[n + 1]``.

        ``before``: of the last plan, with the same groups in each queue. What has not changed since is kept.
        """
        self.requests, self.order, self.starts = requests, order, starts
        self.ids, self.demands = requests.request[order], requests.remaining[order]
        self.names: list[tuple[RequestId, ...]] = []
        self.ends: list[list[int]] = []  # running sums of remaining demands
        first, last = self._changed(before) if before else (0, len(starts) - 1)
        bounds = starts[first : last + 1].tolist()
        ids, demands = (column[bounds[0] : bounds[-1]].tolist() for column in (self.ids, self.demands))
        parts = [(start - bounds[0], after - bounds[0]) for start, after in pairwise(bounds)]
        self.names = [tuple(ids[start:after]) for start, after in parts]
        self.ends = [list(accumulate(demands[start:after])) for start, after in parts]
        if before:
            self.names = before.names[:first] + self.names + before.names[last:]
            self.ends = before.ends[:first] + self.ends + before.ends[last:]

    def _changed(self, before: "Queues") -> tuple[int, int]:
        """The first queue that is not as before, and the one after the last."""
        count, former = len(self.ids), len(before.ids)
        both, number = min(count, former), len(self.starts) - 1
        ahead = (self.ids[:both] == before.ids[:both]) & (self.demands[:both] == before.demands[:both])
        behind = self.ids[count - both :] == before.ids[former - both :]
        behind &= self.demands[count - both :] == before.demands[former - both :]
        alike = (self.starts[1:] == before.starts[1:]) & (self.starts[1:] <= _true(ahead))
        first = _true(alike)
        alike = (count - self.starts[:-1] == former - before.starts[:-1]) & (
            count - self.starts[:-1] <= _true(behind[::-1])
        )
        return first, max(number - _true(alike[::-1]), first)

    def jobs(self, queue: int) -> list[JobId]:
        """Whose requests, in their order."""
        return [self.requests.jobs[place] for place in self.places(queue)]

    def places(self, queue: int) -> list[int]:
        """The places of its requests in the view, in their order."""
        places: list[int] = self.order[self.starts[queue] : self.starts[queue + 1]].tolist()
        return places


def _true(flags: NDArray[np.bool_]) -> int:
    """How many of the first ones are True."""
    first = int(flags.argmin()) if len(flags) else 0
    return len(flags) if len(flags) and flags[first] else first


class Landscape:
    """What groups and supply alone decide. It holds for many plans: most differ in a few requests only.

    Groups whose regions with supply are the same are one queue; so is each group without any. Scarcest first: by
    (supply of all that its devices can be, group id).
    """

    def __init__(self, groups: tuple[GroupView, ...], supply: Mapping[RegionId, int]) -> None:
        self._groups, self._supply = groups, supply
        merged = _merged(groups, supply)
        queue_of = {group.group: index for index, one in enumerate(merged) for group in one.groups}
        self.queue_of = np.array([queue_of[group.group] for group in groups], np.intp)  # of each group
        self.number = len(merged)  # of queues
        self.unsupplied = sum(one.rate == 0 for one in merged)  # queues: they come first and take no part
        self.ground = contest([one.regions for one in merged[self.unsupplied :]], supply)
        self._owner = self.ground.owner  # of the last plan: contender by region, and ...

    @cached_property
    def _owners(self) -> dict[RegionId, int]:
        """The queue that owns each region. A simulation in bulk does without."""
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

    def queues(self, requests: Requests, demands: Integers | Reals, before: Queues | None = None) -> Queues:
        """Least of ``demands`` first; ties go by job arrival and job id, in which order the requests come.

        ``before``: those of the last plan in this landscape.
        """
        queue, starts = self.queue_of[requests.group], np.zeros(self.number + 1, np.int64)
        np.cumsum(np.bincount(queue, minlength=self.number), out=starts[1:])
        if demands.dtype == np.int64 and demands.max(initial=0) < _MOST:  # in half the time
            order = np.argsort(queue * _MOST + demands, kind="stable")
        else:
            order = np.lexsort((demands, queue))
        return Queues(requests, order, starts, before)


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
