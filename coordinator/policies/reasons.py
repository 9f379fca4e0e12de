"""Why a request waits, for people: at most one line a job, without numbers that change from plan to plan."""

from collections import Counter
from collections.abc import Sequence

from coordinator.engine.ids import GroupId, JobId
from coordinator.engine.plan import GroupView, Reasons, RequestView, View


def behind(queue: Sequence[RequestView], groups: Sequence[GroupView], rule: str) -> Reasons:
    """Reasons that name the first request ahead of each one in ``queue`` that some device could serve as well."""
    eligible = {view.group: view.bits for view in groups}
    heads: dict[GroupId, JobId] = {}
    texts: dict[GroupId, str] = {}  # of groups with somebody ahead: who is first there stays first
    for request in queue:
        group = request.group
        if group not in texts:
            mine = eligible[group]
            rival = next((job for other, job in heads.items() if eligible[other] & mine), None)
            heads.setdefault(group, request.job)
            if rival is None:
                continue
            texts[group] = f"behind {rival}: {rule}"
        yield request.job, texts[group]


def by_chance(view: View, why: str) -> Reasons:
    """``why`` for each request that shares a device with another one."""
    eligible = {group.group: group.bits for group in view.groups}
    open_in = Counter(request.group for request in view.requests)
    contended = {
        group: sum(count for other, count in open_in.items() if eligible[other] & eligible[group]) > 1
        for group in open_in
    }
    return ((request.job, why) for request in view.requests if contended[request.group])
