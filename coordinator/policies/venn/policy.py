"""The Venn policy: scarce groups first across groups, least remaining demand first within a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.engine.ids import GroupId, JobId, RegionId
from coordinator.engine.plan import GroupView, Plan, RequestView, View
from coordinator.policies.order import left_of_job
from coordinator.policies.reasons import Reasons
from coordinator.policies.venn.irs import Contender, allocate


@dataclass(frozen=True, slots=True)
class _Queue:
    """One group, or several that the same regions supply, merged."""

    groups: tuple[GroupView, ...]
    supplied: tuple[RegionId, ...]  # regions with supply; none: the group takes no part in the allocation
    rate: int  # their supply
    requests: tuple[RequestView, ...]  # in the order in which they are served


class Venn:
    """Intersection Resource Scheduling: scarce devices are kept for those who need them, short requests go first"""

    name = "venn"
    whole_queues = False  # of line 6: count only the requests that are held up, or all

    def plan(self, view: View) -> Plan:
        queues = _queues(view)
        supplied = [index for index, queue in enumerate(queues) if queue.supplied]
        contenders = [
            Contender(queues[index].supplied, tuple(request.remaining for request in queues[index].requests))
            for index in supplied
        ]
        allocated = allocate(contenders, view.supply, whole_queues=self.whole_queues)
        owners = {region: supplied[owner] for region, owner in allocated.items()}
        return Plan(
            queues=tuple(tuple(request.request for request in queue.requests) for queue in queues),
            orders=_orders(queues, owners),
            default=tuple(range(len(queues))),
            reasons=_reasons(queues, owners),
        )


def _queues(view: View) -> list[_Queue]:
    """Scarcest first: by (supply of all that its devices can be, group id)."""
    alike: dict[tuple[RegionId, ...] | GroupId, list[GroupView]] = {}
    for group in view.groups:
        supplied = _supplied(group, view.supply)
        alike.setdefault(supplied or group.group, []).append(group)
    requests: dict[GroupId, list[RequestView]] = {}
    for request in view.requests:
        requests.setdefault(request.group, []).append(request)
    queues = []
    for groups in alike.values():
        regions = _supplied(groups[0], view.supply)
        queued = [request for group in groups for request in requests.get(group.group, [])]
        queued.sort(key=lambda request: (left_of_job(request), request.arrival, request.job, request.request))
        rate = sum(view.supply[region] for region in regions)
        queues.append(_Queue(tuple(groups), regions, rate, tuple(queued)))
    return sorted(queues, key=lambda queue: (queue.rate, queue.groups[0].group))


def _supplied(group: GroupView, supply: Mapping[RegionId, int]) -> tuple[RegionId, ...]:
    return tuple(region for region in group.regions if supply.get(region, 0) > 0)


def _orders(queues: Sequence[_Queue], owners: Mapping[RegionId, int]) -> dict[RegionId, tuple[int, ...]]:
    """Each region's owner, then every other queue that its devices could serve, scarcest first."""
    eligible: dict[RegionId, list[int]] = {}
    for index, queue in enumerate(queues):
        for region in sorted({region for group in queue.groups for region in group.regions}):
            eligible.setdefault(region, []).append(index)
    orders = {}
    for region, indexes in sorted(eligible.items()):
        owner = owners.get(region)
        first = () if owner is None else (owner,)
        orders[region] = (*first, *(index for index in indexes if index != owner))
    return orders


def _reasons(queues: Sequence[_Queue], owners: Mapping[RegionId, int]) -> Reasons:
    found: list[tuple[JobId, str]] = []
    for index, queue in enumerate(queues):
        if not queue.requests:
            continue
        head, *others = queue.requests
        holders = {owners[region] for region in queue.supplied}
        rival = next(
            (queues[holder].requests[0] for holder in sorted(holders - {index}) if queues[holder].requests), None
        )
        if rival is not None:
            what = "some" if index in holders else "all"
            found.append((head.job, f"{what} of its devices go first to {rival.job}, in a scarcer or busier group"))
        found += ((request.job, f"behind {head.job}: less is left to do there") for request in others)
    return tuple(found)
