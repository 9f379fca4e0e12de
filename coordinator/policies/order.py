"""One order of all open requests, whatever the device: what most policies come down to."""

from collections.abc import Callable
from functools import partial

from coordinator.engine.plan import Plan, RequestView, View
from coordinator.policies.reasons import behind


def in_order(view: View, key: Callable[[RequestView], float], rule: str) -> Plan:
    """Least ``key`` first; equal ones by job arrival, then job id. ``rule``: why one is behind another, for people."""
    queue = sorted(view.requests, key=key)  # stable, and the view has them by arrival and job
    return Plan(
        queues=(tuple(request.request for request in queue),),
        why=partial(behind, queue, view.groups, rule),
    )


def left_of_job(request: RequestView) -> int:
    """Remaining demand over all rounds left where their number is known, otherwise that of the open request."""
    return request.remaining if request.remaining_all_rounds is None else request.remaining_all_rounds


def left_of_request(request: RequestView) -> int:
    """Remaining demand of the open request."""
    return request.remaining
