"""Tier matching alone, to see what Venn's order of requests is worth."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from coordinator.engine.ids import RegionId
from coordinator.engine.plan import Plan, View
from coordinator.policies.fifo import Fifo
from coordinator.policies.venn.tiers import MOST_TIERS, Drawn, Holding, restrictions


class VennNosched:
    """tier matching as in venn, with requests in the order of fifo (an ablation)"""

    name = "venn-nosched"

    def __init__(self, tiers: int = 3) -> None:
        if not 1 <= tiers <= MOST_TIERS:
            raise ValueError(f"tiers is {tiers}; it is 1, for none, to {MOST_TIERS}")
        self.tiers = tiers
        self._order = Fifo()

    def plan(self, view: View) -> Plan:
        plan = self._order.plan(view)
        if view.tiers == 1 or self.tiers == 1:
            return plan
        limits = restrictions(view, _holdings(view), Drawn())
        return replace(plan, tiers=limits.tiers, review_at=limits.review_at)


def _holdings(view: View) -> Iterator[Holding]:
    """Holdings of each group's requests, by arrival; a region is the first group's whose request could use it."""
    requests, taken = view.requests, set[RegionId]()
    for first in np.sort(np.unique(requests.group, return_index=True)[1]).tolist():
        group = requests.group[first]
        owned = [region for region in view.groups[group].regions if region not in taken]
        taken.update(owned)
        restricted = np.flatnonzero((requests.group == group) & (requests.tier >= 0)).tolist()
        yield Holding(requests[first], [requests[place] for place in restricted], partial(list, owned))
