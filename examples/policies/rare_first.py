"""Scarce and short first: a policy of one line.

What serving a request costs the others grows with the work that it still brings, and with how many devices could serve
others meanwhile. So requests go by the product of the two, the supply squared.
"""

from functools import partial

from coordinator.engine.ids import GroupId
from coordinator.engine.plan import Plan, RequestView, View
from coordinator.policies.reasons import behind


class RareFirst:
    """smallest (devices still needed over all rounds) x (supply of its group) squared first"""

    name = "rare-first"

    def plan(self, view: View) -> Plan:
        supply = {group.group: sum(view.supply.get(region, 0) for region in group.regions) for group in view.groups}
        queue = sorted(view.requests, key=lambda request: cost(request, supply))
        return Plan(
            queues=(tuple(request.request for request in queue),),
            why=partial(behind, queue, view.groups, "it is shorter, or its devices are scarcer"),
        )


def cost(request: RequestView, supply: dict[GroupId, int]) -> int:
    return request.left * supply[request.group] ** 2
