"""Requests in a random order, drawn once for each: rounds fill one after the other, not all of them late."""

from functools import partial

from coordinator.engine.chance import Purpose, draw
from coordinator.engine.plan import Plan, View
from coordinator.policies.reasons import by_chance


class RandomOrder:
    """one random order of requests, drawn once per request (the paper's optimised random)"""

    name = "random-order"
    planner = "random-order"  # the simulator's compiled twin of this class

    def plan(self, view: View) -> Plan:
        # Sorted by 64-bit draws, every order is as likely as the others, but for ties, which never happen.
        queue = sorted(view.requests, key=lambda request: draw(view.seed, Purpose.ORDER, request.request))
        return Plan(
            queues=(tuple(request.request for request in queue),),
            why=partial(by_chance, view, "requests are served in an order that was drawn at random"),
        )
