"""Least attained service first."""

from coordinator.engine.plan import Plan, View
from coordinator.policies.order import in_order


class Las:
    """least attained service: fewest device-seconds leased to the job so far"""

    name = "las"
    planner = "las"  # the simulator's compiled twin of this class

    def plan(self, view: View) -> Plan:
        return in_order(view, lambda request: view.attained[request.job], "its job has had less service")
