"""What is due by the clock: deadlines of attempts, expiries of leases, ticks of the supply, reviews of the plan."""

import numpy as np

from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.kernel_rules import abort, expire
from testbed.simulate.compiled.layout import (
    ARRIVED,
    DIRTY,
    DUE,
    GO_ON,
    J_HEAD,
    J_REQUEST,
    JR_DEADLINE,
    JR_LEASE_S,
    L_SEQ,
    NONE,
    NOW,
    OVER,
    REVIEW,
    TICK,
    TICKED,
    UNTIL,
)
from testbed.simulate.compiled.tables import Tables


@compiled
def give_up(t: Tables) -> int:
    """The next event is after the end of the simulation."""
    t.reals[NOW] = t.reals[UNTIL]
    return OVER


@compiled
def pass_time(t: Tables, due: float) -> int:
    """Deadlines of attempts, by request; then expiries, by lease; then the tick of the supply and the plan's review."""
    if t.reals[DUE] <= due:  # it may have moved on
        t.reals[DUE] = _next_due(t)
        if min(t.reals[DUE], t.reals[TICK], t.reals[REVIEW]) > due:
            return GO_ON
    if due > t.reals[UNTIL]:
        return give_up(t)
    t.reals[NOW] = due
    while True:
        first = NONE
        for job in range(t.numbers[ARRIVED]):
            if t.job_reals[job, JR_DEADLINE] <= due and (
                first == NONE or t.jobs[job, J_REQUEST] < t.jobs[first, J_REQUEST]
            ):
                first = job
        if first == NONE:
            break
        abort(t, first)
    while True:
        lease = NONE
        for job in range(t.numbers[ARRIVED]):
            head = t.jobs[job, J_HEAD]
            if head == NONE or t.granted[head] + t.job_reals[job, JR_LEASE_S] > due:
                continue
            if lease == NONE or t.leases[head, L_SEQ] < t.leases[lease, L_SEQ]:
                lease = head
        if lease == NONE:
            break
        expire(t, lease)
    if t.reals[REVIEW] <= due:
        t.reals[REVIEW], t.numbers[DIRTY] = np.inf, 1
    return TICKED if t.reals[TICK] <= due else GO_ON


@compiled
def _next_due(t: Tables) -> float:
    """Of attempts and leases. Leases of a job run equally long, so its oldest one is its first."""
    due = np.inf
    for job in range(t.numbers[ARRIVED]):
        due = min(due, t.job_reals[job, JR_DEADLINE])
        head = t.jobs[job, J_HEAD]
        if head != NONE:
            due = min(due, t.granted[head] + t.job_reals[job, JR_LEASE_S])
    return float(due)
