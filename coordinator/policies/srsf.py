"""Smallest remaining service first."""

from coordinator.engine.plan import Integers, Plan, Requests, View
from coordinator.policies.order import in_order


class Srsf:
    """smallest remaining service first: remaining demand of the request"""

    name = "srsf"

    @staticmethod
    def key(requests: Requests) -> Integers:
        return requests.remaining

    def plan(self, view: View) -> Plan:
        return in_order(view, self.key(view.requests), "its request needs fewer devices")
