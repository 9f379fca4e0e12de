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
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import RegionId, RequestId
from coordinator.engine.plan import GroupView, Integers, Plan, Policy, Reasons, Requests, View
from coordinator.engine.profiles import Counts, Edges, bin_at
from coordinator.engine.scale import EDGES


class Spares(StrEnum):
    WITH = "with"
    LAST = "last"
    AUTO = "auto"


def spares_of(text: str) -> Spares:
    """The member of this name. Raises ValueError."""
    if text not in list(Spares):
        raise ValueError(f"spares is {text!r}; it is {', '.join(Spares)}")
    return Spares(text)


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
        requests = view.requests
        goals = requests.needed if self.spares is Spares.LAST else self._priced(view, plan)
        at = requests.placed >= goals
        if plan.owner and at.any():
            names = set(requests.ids(at))
            spare = tuple([id_ for id_ in chain.from_iterable(plan.queues) if id_ in names])
            plan = self.policy.plan(replace(view, requests=requests.take(np.flatnonzero(~at))))
            plan = replace(plan, queues=(*plan.queues, spare))
        return replace(plan, targets=targets(requests, goals), why=partial(with_spare, requests, goals, plan.why))

    def _priced(self, view: View, plan: Plan) -> Integers:
        if not self._contention.is_of(view):
            self._contention = contention(view)
        place = {id_: place for place, id_ in enumerate(view.requests.request.tolist())}
        order = [place[id_] for id_ in chain.from_iterable(plan.queues) if id_ in place]
        stands = Stands(view.requests.group, view.requests.lacking > 0)
        return priced(view, stands, np.array(order, np.intp), self._contention)


def contention(view: View) -> Contention:
    return Contention(view.groups, view.supply, view.supply_span_s)


def targets(requests: Requests, goals: Integers) -> dict[RequestId, int]:
    """The targets of a plan, of requests with spare places. ``goals``: how many places each request is to have."""
    some = requests.needed < requests.places
    return dict(zip(requests.ids(some), goals[some].tolist(), strict=True))


class Stands(NamedTuple):
    """The requests of a view, and any number of others after them: what waits for devices, or soon will."""

    group: Integers
    lacks: NDArray[np.bool_]  # devices for its K


def priced(view: View, stands: Stands, order: NDArray[np.intp], between: Contention) -> Integers:
    """How many places each request is to have under ``auto``. ``order``: places in ``stands``, who comes first, first.

    Who is not in the order costs nobody anything.
    """
    requests = view.requests
    last, group = order[::-1], stands.group
    costs = np.cumsum(np.where(stands.lacks[last, np.newaxis], between.seconds[group[last]], 0.0), axis=0)
    prices = np.zeros(len(group))  # of one more place for each: what it costs those behind
    prices[last[1:]] = costs[np.arange(len(last) - 1), group[last[1:]]]
    prices, goals = prices[: len(requests)], requests.places.copy()
    some = np.flatnonzero((requests.needed < requests.places) & (prices > 0.0))
    columns = (requests.tier, requests.needed, goals, requests.deadline_at - view.now, prices)
    rows = zip(*[one[some].tolist() for one in columns], strict=True)
    for place, (tier, needed, places, left_s, price) in zip(some.tolist(), rows, strict=True):
        times = view.jobs[requests.jobs[place]].responses.until_response(tier)
        if times is not None:
            known = times.counts, times.total, times.at, times.upto
            goals[place] = best_places(*known, EDGES, needed, places, left_s, price)
    return goals


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


def with_spare(requests: Requests, goals: Integers, why: Callable[[], Reasons]) -> Reasons:
    """The reasons, with those of requests that have their goal and share devices with one that does not."""
    at = requests.placed >= goals
    bits = [group.bits for group in requests.groups]
    wanted = 0
    for group in np.unique(requests.group[~at]).tolist():
        wanted |= bits[group]
    full = requests.take(np.flatnonzero(at))
    names = set(full.jobs)
    yield from ((job, text) for job, text in why() if job not in names)
    for job, group in zip(full.jobs, full.group.tolist(), strict=True):
        if bits[group] & wanted:
            yield job, "it has the devices that it needs: more come after those that others need"
