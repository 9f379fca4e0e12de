"""Why a request waits, for people: at most one line a job, without numbers that change from plan to plan."""

from collections import Counter
from collections.abc import Sequence

from coordinator.engine.ids import GroupId, JobId
from coordinator.engine.plan import GroupView, RequestView, View

Reasons = tuple[tuple[JobId, str], ...]


def behind(queue: Sequence[RequestView], groups: Sequence[GroupView], rule: str) -> Reasons:
    """For each request the first one ahead of it in ``queue`` that some device could serve as well."""
    eligible = {view.group: region_bits(view) for view in groups}
    heads: dict[GroupId, JobId] = {}
    found: list[tuple[JobId, str]] = []
    for request in queue:
        mine = eligible[request.group]
        rival = next((job for group, job in heads.items() if eligible[group] & mine), None)
        if rival is not None:
            found.append((request.job, f"behind {rival}: {rule}"))
        heads.setdefault(request.group, request.job)
    return tuple(found)


def by_chance(view: View, why: str) -> Reasons:
    """``why`` for each request that shares a device with another one."""
    eligible = {group.group: region_bits(group) for group in view.groups}
    open_in = Counter(request.group for request in view.requests)
    contended = {
        group: sum(count for other, count in open_in.items() if eligible[other] & eligible[group]) > 1
        for group in open_in
    }
    return tuple((request.job, why) for request in view.requests if contended[request.group])


def region_bits(view: GroupView) -> int:
    """A group's regions as the bits of one number: two groups share devices where it is not 0 in both."""
    bits = 0
    for region in view.regions:
        bits |= 1 << region
    return bits
