"""Spare places: those beyond the K that a round needs to close. A parameter of every policy, ``fifo(spares=auto)``.

Spare places shorten the wait for the K-th response, and cost devices that others wait for. They are filled

- ``with`` the others: in the policy's order, C places for each request;
- ``last``: once no request lacks devices for its K that the device could serve;
- ``auto``: as far as each is worth its price, and the rest last.

The price of a place is the seconds that one more device for the request costs those who stand behind it and lack
devices for their K. A device that serves group g is lost to group h as often as it could have served h; then every
request of h that waits for devices waits so much longer:

    W[g][h] = supply(S_g and S_h) x span / (supply(S_g) x supply(S_h))

With n places a request has its K-th response after about Q(K / (n + 1)), the expected K-th of n, Q being the quantile
of how long a place of its job takes to bring a response, lost devices included. So its target is the n from K to C with
the least Q(K / (n + 1)) + n x price, of equal ones the least, among those whose K-th response comes by the deadline. It
is C where none does, where nobody behind it lacks anything, or where fewer than 20 responses are known.
docs/venn-plus.md derives it. Floats are taken in the order that is written here.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import GroupId, RegionId, RequestId
from coordinator.engine.plan import GroupView, Plan, Policy, Reasons, RequestView, View
from coordinator.engine.profiles import Counts, Edges, bin_at
from coordinator.engine.scale import EDGES


class Spares(StrEnum):
    WITH = "with"
    LAST = "last"
    AUTO = "auto"


def spares_of(text: str) -> Spares:
    """Raises ValueError."""
    if text not in list(Spares):
        raise ValueError(f"spares is {text!r}; it is {', '.join(Spares)}")
    return Spares(text)


@dataclass(frozen=True, slots=True)
class Stand:
    """Somebody who waits for devices, or soon will."""

    group: GroupId
    lacks: bool  # devices for its K
    request: RequestView | None = None  # None: a job that will open its next round


class Contention:
    """What a device for one group costs another one. It holds for many plans: groups and supply change seldom."""

    def __init__(
        self, groups: tuple[GroupView, ...] = (), supply: Mapping[RegionId, int] | None = None, span_s: float = 0.0
    ) -> None:
        self._of = (groups, supply or {}, span_s)
        self.number = {group.group: number for number, group in enumerate(groups)}
        width = 1 + max(chain(supply or {}, *(group.regions for group in groups)), default=-1)
        counts, usable = np.zeros(width), np.zeros((len(groups), width))
        counts[list(supply or {})] = list((supply or {}).values())
        for number, group in enumerate(groups):
            usable[number, list(group.regions)] = 1.0
        self.rates: NDArray[np.float64] = usable @ counts  # whole numbers below 2**53: exact in any order
        both = np.outer(self.rates, self.rates)
        shared = (usable * counts) @ usable.T * span_s
        self.seconds = np.divide(shared, both, out=np.zeros_like(both), where=both > 0)  # W

    def is_of(self, view: View) -> bool:
        groups, supply, span_s = self._of
        same = view.groups is groups and view.supply is supply
        return span_s == view.supply_span_s and (same or (view.groups == groups and view.supply == supply))


class WithSpares:
    """A policy, and what is to be done with spare places."""

    def __init__(self, policy: Policy, spares: Spares) -> None:
        self.policy, self.spares, self.name = policy, spares, policy.name
        self.__doc__ = policy.__doc__
        self._contention = Contention()

    def plan(self, view: View) -> Plan:
        """Who is behind a request stands after it in its queue, or in a queue after that.

        Requests at their target do not wait for devices. So where regions have owners the policy is asked again, for a
        plan without these, which come in a queue of their own after the others.
        """
        plan = self.policy.plan(view)
        targets = last(view) if self.spares is Spares.LAST else self._priced(view, plan)
        below, at = by_target(view.requests, targets)
        if at and plan.owner:
            names = {request.request for request in at}
            spare = tuple([id_ for id_ in chain.from_iterable(plan.queues) if id_ in names])
            plan = self.policy.plan(replace(view, requests=tuple(below)))
            plan = replace(plan, queues=(*plan.queues, spare))
        return replace(plan, targets=targets, why=partial(with_spare, view, targets, plan.why))

    def _priced(self, view: View, plan: Plan) -> dict[RequestId, int]:
        if not self._contention.is_of(view):
            self._contention = contention(view)
        of = {request.request: request for request in view.requests}
        order = [of[id_] for id_ in chain.from_iterable(plan.queues) if id_ in of]
        return priced(view, [Stand(one.group, one.lacking > 0, one) for one in order], self._contention)


def contention(view: View) -> Contention:
    return Contention(view.groups, view.supply, view.supply_span_s)


def last(view: View) -> dict[RequestId, int]:
    """The targets under ``last``."""
    return {request.request: request.needed for request in view.requests if request.needed < request.places}


def priced(view: View, stands: Sequence[Stand], between: Contention) -> dict[RequestId, int]:
    """The targets under ``auto``; ``stands``: who comes first, first."""
    targets: dict[RequestId, int] = {}
    prices = np.zeros(len(between.number))  # by group: what one more device for it costs those behind
    for stand in reversed(stands):
        group, request = between.number[stand.group], stand.request
        if request is not None and request.needed < request.places:
            targets[request.request] = _target(view, request, float(prices[group]))
        if stand.lacks:
            prices += between.seconds[group]
    return targets


def _target(view: View, request: RequestView, price: float) -> int:
    needed, places = request.needed, request.places
    times = view.jobs[request.job].responses.until_response(request.tier) if price > 0.0 else None
    if times is None:
        return places
    left_s = request.deadline_at - view.now
    return best_places(times.counts, times.total, times.at, times.upto, EDGES, needed, places, left_s, price)


def best_places(
    counts: Counts,
    total: int,
    at: int,
    upto: int,
    edges: Edges,
    needed: int,
    places: int,
    left_s: float,
    price: float,
) -> int:
    """The n from ``needed`` to ``places`` with the least Q(needed / (n + 1)) + n x ``price``, Q at most ``left_s``.

    ``counts``: responses by bin, ``total`` in all, ``upto`` of them in bins 0 to ``at``; ``edges``: of bins, seconds.
    Only those n are tried at which the quantile Q falls. The simulator compiles this function.
    """
    best, least, n, work = places, math.inf, needed, needed * total
    while n <= places:
        at, upto = bin_at(counts, (work + n) // (n + 1), at, upto)
        cost = edges[at] + n * price
        if edges[at] <= left_s and cost < least:
            best, least = n, cost
        upto -= counts[at]
        if edges[at] <= min(price, left_s) or upto <= 0:  # one place more costs more than is left to save
            break
        at -= 1
        n = (work + upto - 1) // upto - 1
    return best


def with_spare(view: View, targets: Mapping[RequestId, int], why: Callable[[], Reasons]) -> Reasons:
    """The reasons, with those of requests that are at their target and share devices with one that is below."""
    eligible = {group.group: group.bits for group in view.groups}
    below, at = by_target(view.requests, targets)
    wanted = 0
    for group in {request.group for request in below}:
        wanted |= eligible[group]
    full = {request.job for request in at}
    yield from ((job, text) for job, text in why() if job not in full)
    for request in at:
        if eligible[request.group] & wanted:
            yield request.job, "it has the devices that it needs: more come after those that others need"


def by_target(
    requests: Iterable[RequestView], targets: Mapping[RequestId, int]
) -> tuple[list[RequestView], list[RequestView]]:
    """Split requests into those below their target and those at it."""
    below: list[RequestView] = []
    at: list[RequestView] = []
    for request in requests:
        (at if request.placed >= targets.get(request.request, request.places) else below).append(request)
    return below, at
