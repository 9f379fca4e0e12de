"""Uniformly random: the state of practice, and what the others are held against."""

from coordinator.engine.plan import Mode, Plan, View
from coordinator.policies.reasons import drawn


class Random:
    """a uniformly random eligible open request per check-in (the state of practice)"""

    name = "random"

    def plan(self, view: View) -> Plan:
        return Plan(
            queues=(tuple(request.request for request in view.requests),),
            default=(0,),
            mode=Mode.UNIFORM,
            reasons=drawn(view.requests, view.groups),
        )
