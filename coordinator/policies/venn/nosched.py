"""Tier matching alone, to see what Venn's order of requests is worth."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from coordinator.engine.ids import GroupId, RegionId
from coordinator.engine.plan import Plan, RequestView, View
from coordinator.policies.fifo import Fifo
from coordinator.policies.venn.tiers import MOST_TIERS, Drawn, Holding, restricted, restrictions


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
    """Each group's requests, by arrival; a region is the first group's whose request could use it."""
    queues: dict[GroupId, list[RequestView]] = {}
    for request in view.requests:
        queues.setdefault(request.group, []).append(request)
    regions = {group.group: group.regions for group in view.groups}
    taken: set[RegionId] = set()
    for group, queue in queues.items():
        owned = [region for region in regions[group] if region not in taken]
        taken.update(owned)
        yield Holding(queue, restricted(queue), partial(list, owned))
