"""Smallest remaining service first."""

from coordinator.engine.plan import Plan, View
from coordinator.policies.order import in_order, left_of_request


class Srsf:
    """smallest remaining service first: remaining demand of the request"""

    name = "srsf"
    planner = "srsf"  # the simulator's compiled twin of this class

    def plan(self, view: View) -> Plan:
        return in_order(view, left_of_request, "its request needs fewer devices")
