"""Why a request waits, for people: at most one line a job, without numbers that change from plan to plan."""

from collections.abc import Mapping, Sequence

from coordinator.engine.ids import GroupId, JobId
from coordinator.engine.plan import GroupView, RequestView

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


def drawn(requests: Sequence[RequestView], groups: Sequence[GroupView]) -> Reasons:
    """For each request that shares a device with another one."""
    eligible = {view.group: region_bits(view) for view in groups}
    open_in = _count(requests)
    return tuple(
        (request.job, "a device is drawn at random among the open requests that it could serve")
        for request in requests
        if sum(count for group, count in open_in.items() if eligible[group] & eligible[request.group]) > 1
    )


def region_bits(view: GroupView) -> int:
    """A group's regions as the bits of one number: two groups share devices where it is not 0 in both."""
    bits = 0
    for region in view.regions:
        bits |= 1 << region
    return bits


def _count(requests: Sequence[RequestView]) -> Mapping[GroupId, int]:
    counts: dict[GroupId, int] = {}
    for request in requests:
        counts[request.group] = counts.get(request.group, 0) + 1
    return counts
