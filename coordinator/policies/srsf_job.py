"""Smallest remaining service first, by job."""

from coordinator.engine.plan import Plan, View
from coordinator.policies.order import in_order, left_of_job


class SrsfJob:
    """smallest remaining service first: remaining demand over all rounds left, where their number is known"""

    name = "srsf-job"
    planner = "srsf-job"  # the simulator's compiled twin of this class

    def plan(self, view: View) -> Plan:
        return in_order(view, left_of_job, "its job has less left to do")
