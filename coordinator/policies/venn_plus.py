"""One order for all devices: least left to do on the scarcest devices first, and spare places after all others.

docs/venn-plus.md derives it and says what else was tried. The arithmetic, for whoever computes it elsewhere, in 64-bit
floats from left to right:

    left   remaining demand over all rounds left, or of the open request where their number is not known
    rate   check-ins counted over the window in the regions of its group, a whole number
    index  left * rate * rate * sqrt(remaining / places)

(``* rate`` as often as ``scarcity`` says, 2 times unless told otherwise; with ``nearness=no`` without the root.)

Requests that lack devices to close (``needed`` > 0) come before those that do not; then the least index; ties go by job
arrival, job id and request, in which order the view has them. There is one queue, no region has an owner, and the plan
asks for another one when a request comes to have enough (``at_enough``).
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from coordinator.engine.ids import GroupId, RegionId
from coordinator.engine.plan import GroupView, Plan, Reasons, RequestView, View
from coordinator.policies.order import left_of_job
from coordinator.policies.reasons import behind

MOST_SCARCITY = 8


class VennPlus:
    """least left to do on the scarcest devices first, for no more devices than a round needs while others lack some"""

    name = "venn-plus"
    planner = "venn-plus"  # the simulator's compiled twin of this class

    def __init__(self, scarcity: int = 2, nearness: bool = True, spare_last: bool = True) -> None:
        """``scarcity``: power of the supply in the index, 0 to 8; 0 leaves it out.

        ``nearness``: requests that are nearly full come forward. ``spare_last``: places that a request can close
        without are filled after all others. Raises ValueError.
        """
        if not 0 <= scarcity <= MOST_SCARCITY:
            raise ValueError(f"scarcity is {scarcity}; it is 0 to {MOST_SCARCITY}")
        self.scarcity, self.nearness, self.spare_last = scarcity, nearness, spare_last
        self._rates = _Rates((), {})

    def plan(self, view: View) -> Plan:
        if not self._rates.are_of(view):
            self._rates = _Rates(view.groups, view.supply)
        rates = self._rates.of_group

        def index(request: RequestView) -> float:
            value, rate = float(left_of_job(request)), rates[request.group]
            for _ in range(self.scarcity):
                value *= rate
            return value * math.sqrt(request.remaining / request.places) if self.nearness else value

        queue = sorted(view.requests, key=index)  # stable: ties as in the view
        spare: list[RequestView] = []
        if self.spare_last:
            spare = [request for request in queue if request.needed == 0]
            queue = [request for request in queue if request.needed > 0]
        return Plan(
            queues=(tuple([request.request for request in (*queue, *spare)]),),
            why=partial(_reasons, queue, spare, view.groups),
            at_enough=self.spare_last,
        )


class _Rates:
    """Supply of all that a group can use. It holds for many plans: groups and supply change seldom."""

    def __init__(self, groups: tuple[GroupView, ...], supply: Mapping[RegionId, int]) -> None:
        self._groups, self._supply = groups, supply
        self.of_group: dict[GroupId, float] = {
            group.group: float(sum(supply.get(region, 0) for region in group.regions)) for group in groups
        }

    def are_of(self, view: View) -> bool:
        same = view.groups is self._groups and view.supply is self._supply
        return same or (view.groups == self._groups and view.supply == self._supply)


def _reasons(queue: Sequence[RequestView], spare: Sequence[RequestView], groups: Sequence[GroupView]) -> Reasons:
    """Of those that lack some; then of those that have enough and share devices with one that has not."""
    yield from behind(queue, groups, "its job has less left to do, or needs scarcer devices")
    eligible = {view.group: view.bits for view in groups}
    wanted = 0
    for group in {request.group for request in queue}:
        wanted |= eligible[group]
    for request in spare:
        if eligible[request.group] & wanted:
            yield request.job, "it has devices for all the responses it needs: spare ones come last"
