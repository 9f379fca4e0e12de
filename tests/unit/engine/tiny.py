"""Policies that do one thing, and who is served by them, for tests of the engine."""

import math
from dataclasses import replace

from coordinator.engine.chance import Purpose, draw, index
from coordinator.engine.ids import RegionId, RequestId
from coordinator.engine.plan import ANY_TIER, UNDECIDED, Mode, Plan, View
from coordinator.policies.fifo import Fifo
from testbed.testing.engine import ScriptedEngine


class Tiered:
    """By job arrival. A request is for one tier, or all, by chance; 3 s before its deadline at the latest for all."""

    name = "tiny-tiered"

    def plan(self, view: View) -> Plan:
        tiers: dict[RequestId, int] = {}
        for request in view.requests:
            if request.tier == UNDECIDED:
                drawn = index(draw(view.seed, Purpose.TIER, request.request), view.tiers + 1)
                endless = request.deadline_at == math.inf
                tiers[request.request] = ANY_TIER if endless or drawn == view.tiers else drawn
            elif request.tier >= 0 and view.now >= request.deadline_at - 3.0:
                tiers[request.request] = ANY_TIER
        queue = tuple(request.request for request in view.requests)
        mode = Mode.UNIFORM if view.plan_number % 7 == 0 else Mode.ORDERED
        return Plan((queue,), mode=mode, tiers=tiers, review_at=view.now + 5.0 if queue else None)


class Uniform:
    """Any of them."""

    name = "tiny-uniform"

    def plan(self, view: View) -> Plan:
        return Plan(queues=(tuple(request.request for request in view.requests),), mode=Mode.UNIFORM)


class Standing:
    """A queue for each group, by job arrival, and the very same objects for whatever is as in a plan before."""

    name = "tiny-standing"

    def __init__(self) -> None:
        self.queues: dict[tuple[RequestId, ...], tuple[RequestId, ...]] = {}
        self.owners: dict[tuple[tuple[RegionId, int], ...], dict[RegionId, int]] = {}

    def plan(self, view: View) -> Plan:
        queues = [tuple(one.request for one in view.requests if one.group == each.group) for each in view.groups]
        owners = {region: number for number, group in enumerate(view.groups) for region in group.regions}
        return Plan(
            queues=tuple(self.queues.setdefault(queue, queue) for queue in queues),
            owner=self.owners.setdefault(tuple(owners.items()), owners),
            mode=Mode.UNIFORM if view.plan_number % 11 == 0 else Mode.ORDERED,
        )


class Recorder(Fifo):
    """Keeps what it saw."""

    def __init__(self) -> None:
        self.views: list[View] = []

    def plan(self, view: View) -> Plan:
        self.views.append(view)
        return super().plan(view)


class SparesLast(Recorder):
    """Each request is to have what it needs before one gets more."""

    def plan(self, view: View) -> Plan:
        return replace(super().plan(view), targets={request.request: request.needed for request in view.requests})


def served(play: ScriptedEngine, devices: int) -> list[str]:
    """The jobs that so many new devices are leased to, by name."""
    names = [f"device-{len(play.all)}-{number}" for number in range(devices)]
    return [play.engine.leases[play.offer(name)].request.job.id.split("/")[1] for name in names]
