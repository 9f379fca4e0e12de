"""First in, first out."""

from coordinator.engine.plan import Plan, View
from coordinator.policies.order import in_order


class Fifo:
    """by job arrival"""

    name = "fifo"
    planner = "fifo"  # the simulator's compiled twin of this class

    def plan(self, view: View) -> Plan:
        return in_order(view, lambda request: request.arrival, "its job arrived earlier")
