"""One order of all open requests, whatever the device: what most policies come down to.

Such a policy has a function ``key``, of the columns of the requests. The simulator compiles it, for one request at a
time: so it takes numbers as well as arrays.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.plan import Integers, Plan, Reals, Reasons, Requests, View
from coordinator.policies.reasons import behind, by_chance

Places = NDArray[np.intp]


def in_order(view: View, keys: Integers | Reals, rule: str) -> Plan:
    """Least key first; equal ones by job arrival, then job id.

    ``keys``: of each request. ``rule``: why one is behind another, for people.
    """
    order = np.argsort(keys, kind="stable")  # the view has them by arrival and job
    return Plan(queues=(view.requests.ids(order),), why=partial(behind_in, view.requests, order, rule))


def by_draw(view: View, draws: NDArray[np.uint64], rule: str) -> Plan:
    """The same by 64 random bits for each: all orders are alike likely, but for ties, which never happen."""
    order = np.argsort(draws, kind="stable")
    return Plan(queues=(view.requests.ids(order),), why=partial(by_chance, view, rule))


def behind_in(requests: Requests, order: Places, rule: str) -> Reasons:
    """Why requests wait that are served in this order."""
    return behind(requests.take(order), requests.groups, rule)
