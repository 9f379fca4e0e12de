"""Smallest remaining service first."""

from coordinator.engine.plan import Plan, View
from coordinator.policies.reasons import behind


class Srsf:
    """smallest remaining service first: remaining demand of the request"""

    name = "srsf"

    def plan(self, view: View) -> Plan:
        queue = sorted(
            view.requests, key=lambda request: (request.remaining, request.arrival, request.job, request.request)
        )
        return Plan(
            queues=(tuple(request.request for request in queue),),
            default=(0,),
            reasons=behind(queue, view.groups, "its request needs fewer devices"),
        )
