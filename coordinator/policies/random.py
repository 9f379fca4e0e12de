"""Uniformly random: the state of practice, and what the others are held against."""

from functools import partial

from coordinator.engine.plan import Mode, Plan, View
from coordinator.policies.reasons import by_chance


class Random:
    """a uniformly random eligible open request per check-in (the state of practice)"""

    name = "random"

    def plan(self, view: View) -> Plan:
        return Plan(
            queues=(tuple(view.requests.request.tolist()),),
            mode=Mode.UNIFORM,
            why=partial(by_chance, view, "a device is drawn at random among the open requests that it could serve"),
        )
