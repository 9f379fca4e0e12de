"""First in, first out."""

from coordinator.engine.plan import Plan, View
from coordinator.policies.reasons import behind


class Fifo:
    """by job arrival"""

    name = "fifo"

    def plan(self, view: View) -> Plan:
        queue = sorted(view.requests, key=lambda request: (request.arrival, request.job, request.request))
        return Plan(
            queues=(tuple(request.request for request in queue),),
            default=(0,),
            reasons=behind(queue, view.groups, "its job arrived earlier"),
        )
