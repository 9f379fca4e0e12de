"""Jobs in a random order: all devices go to one job at a time, so that rounds fill sooner than under ``random``."""

from functools import partial

from coordinator.engine.chance import Purpose, draw
from coordinator.engine.plan import Plan, View
from coordinator.policies.reasons import by_chance


class RandomOrder:
    """one random order of jobs, redrawn per plan (the paper's optimised random)"""

    name = "random-order"
    planner = "random-order"  # the simulator's compiled twin of this class

    def plan(self, view: View) -> Plan:
        # Sorted by 64-bit draws, every order is as likely as the others, but for ties, which never happen.
        drawn = sorted(
            (draw(view.seed, Purpose.ORDER, view.plan_number, index), request.request)
            for index, request in enumerate(view.requests)
        )
        return Plan(
            queues=(tuple(request for _, request in drawn),),
            why=partial(by_chance, view, "jobs are served in an order that each plan draws at random"),
        )
