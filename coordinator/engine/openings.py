"""The open requests as policies see them, kept from plan to plan: only those that changed since are looked at again.

What a view shows of a request changes where its places, responses, rounds or tier do, and where its job is paused or
its driver goes or comes. Whoever changes that says so (``World.changed``); the invariants hold what is kept against all
of it made anew.
"""

from bisect import bisect_left
from typing import Generic, TypeVar

from coordinator.engine.ids import JobId, RequestId
from coordinator.engine.plan import CollectingView, RequestView
from coordinator.engine.state import Request
from coordinator.engine.world import World

Key = tuple[float, JobId, RequestId]  # the order of a view: job arrival, job id, request
Row = TypeVar("Row", RequestView, CollectingView)


class Openings:
    def __init__(self, world: World) -> None:
        self._world = world
        self._requests: _Rows[RequestView] = _Rows()
        self._collecting: _Rows[CollectingView] = _Rows()

    def seen(self) -> tuple[tuple[RequestView, ...], tuple[CollectingView, ...]]:
        """``requests`` and ``collecting`` of a view that is made now."""
        changed = self._world.changed
        for request in changed.values():
            key = _key(request)
            self._requests.put(key, _wanting(request))
            self._collecting.put(key, _collecting(request))
        changed.clear()
        return self._requests.in_order(), self._collecting.in_order()

    def anew(self) -> tuple[tuple[RequestView, ...], tuple[CollectingView, ...]]:
        """The same from all open requests: the slow way."""
        requests = sorted(self._world.open_requests.values(), key=_key)
        wanting, collecting = map(_wanting, requests), map(_collecting, requests)
        return tuple(one for one in wanting if one is not None), tuple(one for one in collecting if one is not None)


class _Rows(Generic[Row]):
    """Rows in the order of their keys."""

    __slots__ = ("_keys", "_known", "_rows")

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._rows: list[Row] = []
        self._known: tuple[Row, ...] | None = ()  # the rows; None: they have changed since

    def put(self, key: Key, row: Row | None) -> None:
        """The row of this key from here on; None: it has none."""
        keys, at = self._keys, bisect_left(self._keys, key)
        if at < len(keys) and keys[at] == key:
            if row is None:
                del keys[at], self._rows[at]
            else:
                self._rows[at] = row
        elif row is None:
            return
        else:
            keys.insert(at, key)
            self._rows.insert(at, row)
        self._known = None

    def in_order(self) -> tuple[Row, ...]:
        if self._known is None:
            self._known = tuple(self._rows)
        return self._known


def _key(request: Request) -> Key:
    return request.job.arrival, request.job.spec.job, request.id


def _wanting(request: Request) -> RequestView | None:
    """None: it is over, may not be served, or has no unmet demand."""
    job, places, needed, left = request.job, request.places, request.needed, request.rounds_left
    if request.ended_at is not None or not job.followed or job.pauses:
        return None
    if request.asynchronous:
        lacking = places - request.placed
        places, wanted = needed, needed - request.held
    else:
        wanted = places - request.placed - request.counted
        lacking = wanted - places + needed
    if wanted <= 0:
        return None
    return RequestView(
        request.id,
        job.spec.job,
        job.arrival,
        job.group.id,
        wanted,
        left if left is None else wanted + (left - 1) * places if left > 1 else wanted,
        places,
        needed,
        lacking if lacking > 0 else 0,
        request.tier,
        request.opened_at,
        request.deadline_at,
    )


def _collecting(request: Request) -> CollectingView | None:
    """None: it is over, may not be served, or lacks devices, or it is the last of its job; or asynchronous."""
    job, left = request.job, request.rounds_left
    if request.ended_at is not None or request.asynchronous or not job.followed or job.pauses or left == 1:
        return None
    if request.placed + request.counted < request.needed:
        return None
    return CollectingView(job.spec.job, job.arrival, job.group.id, request.places, left if left is None else left - 1)
