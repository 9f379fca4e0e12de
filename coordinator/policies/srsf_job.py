"""Smallest remaining service first, by job."""

from coordinator.engine.plan import Integers, Plan, Requests, View
from coordinator.policies.order import in_order


class SrsfJob:
    """smallest remaining service first: remaining demand over all rounds left, where their number is known"""

    name = "srsf-job"

    @staticmethod
    def key(requests: Requests) -> Integers:
        return requests.left

    def plan(self, view: View) -> Plan:
        return in_order(view, self.key(view.requests), "its job has less left to do")
