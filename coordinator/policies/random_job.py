"""Jobs in a random order, drawn once for each: what an order is worth that knows nothing, held from round to round."""

import numpy as np

from coordinator.engine.chance import Purpose, begun, mix
from coordinator.engine.plan import Plan, View
from coordinator.policies.order import by_draw


class RandomJob:
    """one random order of jobs, drawn once per job"""

    name = "random-job"

    def plan(self, view: View) -> Plan:
        ids = view.requests.draws_by.astype(np.uint64)
        draws = mix(ids ^ np.uint64(begun(view.seed, Purpose.JOB_ORDER)))
        return by_draw(view, draws, "jobs are served in an order that was drawn at random")
