"""First in, first out."""

from coordinator.engine.plan import Plan, Reals, Requests, View
from coordinator.policies.order import in_order


class Fifo:
    """by job arrival"""

    name = "fifo"

    @staticmethod
    def key(requests: Requests) -> Reals:
        return requests.arrival

    def plan(self, view: View) -> Plan:
        return in_order(view, self.key(view.requests), "its job arrived earlier")
