"""Least attained service first."""

import numpy as np

from coordinator.engine.plan import Plan, View
from coordinator.policies.order import in_order


class Las:
    """least attained service: fewest device-seconds leased to the job so far"""

    name = "las"

    def plan(self, view: View) -> Plan:
        attained = np.array([view.attained[job] for job in view.requests.jobs], np.float64)
        return in_order(view, attained, "its job has had less service")
