"""Jobs in a random order, drawn once for each: what an order is worth that knows nothing, held from round to round."""

from functools import partial

from coordinator.engine.chance import Purpose, draw, number_of
from coordinator.engine.plan import Plan, View
from coordinator.policies.reasons import by_chance


class RandomJob:
    """one random order of jobs, drawn once per job"""

    name = "random-job"
    planner = "random-job"  # the simulator's compiled twin of this class

    def plan(self, view: View) -> Plan:
        queue = sorted(view.requests, key=lambda request: draw(view.seed, Purpose.JOB_ORDER, number_of(request.job)))
        return Plan(
            queues=(tuple(request.request for request in queue),),
            why=partial(by_chance, view, "jobs are served in an order that was drawn at random"),
        )
