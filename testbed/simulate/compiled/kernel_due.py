"""What is due by the clock: deadlines of attempts, expiries of leases, ticks of the supply, reviews of the plan."""

import numpy as np

from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.kernel_rules import abort, expire
from testbed.simulate.compiled.layout import GO_ON, NONE, OVER, TICKED
from testbed.simulate.compiled.tables import Tables


@compiled
def give_up(t: Tables) -> int:
    """The next event is after the end of the simulation."""
    t.run.now = t.run.until
    return OVER


@compiled
def pass_time(t: Tables, due: float) -> int:
    """Deadlines of attempts, by request; then expiries, by lease; then the tick of the supply and the plan's review."""
    if t.run.due <= due:  # it may have moved on
        t.run.due = _next_due(t)
        if min(t.run.due, t.run.tick, t.run.review) > due:
            return GO_ON
    if due > t.run.until:
        return give_up(t)
    t.run.now = due
    while True:
        first = NONE
        for job in range(t.run.arrived):
            if t.jobs[job].deadline <= due and (first == NONE or t.jobs[job].request < t.jobs[first].request):
                first = job
        if first == NONE:
            break
        abort(t, first)
    while True:
        lease = NONE
        for job in range(t.run.arrived):
            head = t.jobs[job].head
            if head == NONE or t.leases[head].granted + t.jobs[job].lease_s > due:
                continue
            if lease == NONE or t.leases[head].seq < t.leases[lease].seq:
                lease = head
        if lease == NONE:
            break
        expire(t, lease)
    if t.run.review <= due:
        t.run.review, t.run.dirty = np.inf, 1
    return TICKED if t.run.tick <= due else GO_ON


@compiled
def _next_due(t: Tables) -> float:
    """Of attempts and leases. Leases of a job run equally long, so its oldest one is its first."""
    due = np.inf
    for job in range(t.run.arrived):
        due = min(due, t.jobs[job].deadline)
        head = t.jobs[job].head
        if head != NONE:
            due = min(due, t.leases[head].granted + t.jobs[job].lease_s)
    return float(due)
