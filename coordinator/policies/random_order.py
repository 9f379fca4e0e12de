"""Requests in a random order, drawn once for each: rounds fill one after the other, not all of them late."""

import numpy as np

from coordinator.engine.chance import Purpose, begun, mix
from coordinator.engine.plan import Plan, View
from coordinator.policies.order import by_draw


class RandomOrder:
    """one random order of requests, drawn once per request (the paper's optimised random)"""

    name = "random-order"

    def plan(self, view: View) -> Plan:
        ids = view.requests.request.astype(np.uint64)
        draws = mix(ids ^ np.uint64(begun(view.seed, Purpose.ORDER)))
        return by_draw(view, draws, "requests are served in an order that was drawn at random")
