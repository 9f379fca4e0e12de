"""Matching of devices to requests, on arrays: who gets a device, and what a device may still take.

By the present plan, as in ``coordinator.engine.matching``, within its limits in a session and in a day, and in each
job's round once.

What a device's latest lease was for stands in the device's own row, which is at hand when it is leased and when it is
matched again: that is the round, unless the lease has ended without a response. Rounds that are still on offer when
another lease takes that place go into a hash table for each job, and so do all responses of an asynchronous one, for
they may count in a later round than the lease was granted in. Few devices ever do.

A row of that table counts if it has the round's stamp, and is free otherwise: so a new round empties the table at
once. A table has at least twice as many rows as responses close a round, and those after the one that a device should
have are tried in turn.
"""

import numpy as np

from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.kernel_cooling import cools
from testbed.simulate.compiled.kernel_lists import sort
from testbed.simulate.compiled.kernel_tiers import at_target, unmet
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import SPREAD_DEVICE, Tables

_HALF = np.uint64(32)
_DAY_S = 86_400.0
_MOST = 1 << 32  # tasks of a device in a day
ROUND = 1 << 32  # what a stamp grows by with each round; the rest of it is the job


# -- who gets a device


@compiled
def choose(t: Tables, cell: int, device: int, seq: int, draws: int) -> int:
    """The job that a device of this cell gets, or NONE. ``draws``: of its session by chance, so far."""
    if t.cells[cell].listed != t.run.plans:
        _list(t, cell)
    jobs, listed, count = t.jobs, t.candidates[cell], t.cells[cell].count
    if t.run.uniform == 0:
        for place in range(count):
            job = listed[place]
            if jobs[job].places > jobs[job].placed + jobs[job].responses and not _barred(t, job, device):
                return int(job)
        return NONE
    able = below = 0
    for place in range(count):
        if _takes(t, listed[place], device):
            able += 1
            below += not at_target(t, listed[place])
    if able == 0:
        return NONE
    spare = below == 0
    able = able if spare else below
    bits = mixed(mixed(t.run.match_draw ^ np.uint64(seq)) ^ np.uint64(draws))
    left = np.int64(((bits >> _HALF) * np.uint64(able)) >> _HALF)
    for place in range(count):
        if _takes(t, listed[place], device) and (spare or not at_target(t, listed[place])):
            if left == 0:
                return int(listed[place])
            left -= 1
    return NONE


@compiled
def _takes(t: Tables, job: int, device: int) -> bool:
    return bool(unmet(t, job) > 0 and not _barred(t, job, device))


@compiled
def _barred(t: Tables, job: int, device: int) -> bool:
    """Whether the device is not to be leased to the job now: it counts in the round, or cools."""
    return used_up(t, job, device) or cools(t, job, device)


@compiled
def wanted(t: Tables, cell: int) -> bool:
    """Whether a device of this cell would be taken, were it not barred. Its candidates are those of this plan."""
    open_ = 0
    for place in range(t.cells[cell].count):
        open_ += unmet(t, t.candidates[cell, place]) > 0
    return open_ > 0


@compiled
def _list(t: Tables, cell: int) -> None:
    """The open requests that the devices of a cell can serve, in the plan's order, those below their target first."""
    cells, count = t.cells, 0
    owner, tier = cells[cell].owner, NONE if t.run.tiers == 1 else cell % (t.run.tiers + 1) - 1
    for spare in range(2 if t.run.aimed == 1 else 1):
        for turn in range(-1, t.run.queues):
            queue = owner if turn == -1 else turn
            if queue == NONE or (turn == owner and turn >= 0):
                continue
            for place in range(t.queues[queue], t.queues[queue + 1]):
                job = t.queued[place]
                if t.jobs[job].open == 0 or not t.serves[cell, t.jobs[job].group]:
                    continue
                if at_target(t, job) == (spare == 1) and _is_within(t, tier, t.jobs[job].tier):
                    t.candidates[cell, count] = job
                    count += 1
    if t.run.uniform == 1:  # drawn from by chance they go by job
        sort(t.candidates[cell, :count], t.candidates[cell, :count].copy())
    cells[cell].count, cells[cell].listed = count, t.run.plans


@compiled
def _is_within(t: Tables, tier: int, asked: int) -> bool:
    """``coordinator.engine.tiers.is_within``."""
    return bool(asked < 0 or tier == asked or (t.run.or_faster == 1 and NONE < tier < asked))


@compiled
def room(t: Tables) -> bool:
    """Whether there is room for one more session and one more lease, and what they bring about."""
    run = t.run
    slots = min(run.free_lease, run.free_session) > NONE and run.heap + 3 <= len(t.heap)
    return bool(slots and 2 * (run.vains + run.live + 1) <= len(t.vain))


# -- limits


@compiled
def count_task(t: Tables, device: int) -> None:
    """Count a lease that the device accepts."""
    t.devices[device].tasks += 1
    if t.run.daily == 1:
        t.devices[device].today = max(t.devices[device].today, _today(t)) + 1


@compiled
def forget_tasks(t: Tables, job: int, after: int) -> None:
    """The job's leases after this number are taken back in the instant of their grant: none had been accepted."""
    lease = t.jobs[job].tail
    while lease != NONE and t.leases[lease].seq > after:
        device = t.leases[lease].device_no
        t.devices[device].tasks -= 1
        if t.run.daily == 1:
            t.devices[device].today -= 1
        lease = t.leases[lease].previous


@compiled
def limited(t: Tables, device: int) -> bool:
    """Whether the device has reached a limit of its own."""
    devices, kind = t.devices, t.devices[device].kind
    per_session, per_day = t.kinds[kind].per_session, t.kinds[kind].per_day
    if 0 < per_session <= devices[device].tasks:
        return True
    return bool(0 < per_day <= devices[device].today - _today(t))


@compiled
def _today(t: Tables) -> int:
    """What a day's tasks are counted from: more than a device ever has counted before."""
    return int(np.int64(t.run.now // _DAY_S) * _MOST)


# -- once a round


@compiled
def used_up(t: Tables, job: int, device: int) -> bool:
    """Whether the device is not to be leased to the job now."""
    jobs = t.jobs
    if jobs[job].mask == NONE:
        return False
    if t.devices[device].counts_in == jobs[job].stamp:
        return True
    return bool(jobs[job].tabled == 1 and t.used[_row(t, job, device)].stamp == jobs[job].stamp)


@compiled
def lease_round(t: Tables, job: int, device: int) -> None:
    """Count the device, which is leased to the job, in the round, unless ``forget_round`` is called."""
    jobs, before = t.jobs, t.devices[device].counts_in
    other = before & (ROUND - 1)
    if jobs[other].stamp == before and jobs[other].open == 1:
        use(t, other, device)
    once = jobs[job].mask != NONE and jobs[job].asynchronous == 0
    t.devices[device].counts_in = jobs[job].stamp if once else 0


@compiled
def forget_round(t: Tables, device: int) -> None:
    """Forget the latest lease, which has ended without a response while the round may be on offer."""
    t.devices[device].counts_in = 0


@compiled
def use(t: Tables, job: int, device: int) -> None:
    """Count the device in the round."""
    if t.jobs[job].mask != NONE:
        row = _row(t, job, device)
        t.used[row].device_no, t.used[row].stamp = device, t.jobs[job].stamp
        t.jobs[job].tabled = 1


@compiled
def _row(t: Tables, job: int, device: int) -> int:
    """The row that the device has, or a free one, where it belongs."""
    used, first, mask, stamp = t.used, t.jobs[job].used, t.jobs[job].mask, t.jobs[job].stamp
    place = (device * SPREAD_DEVICE >> 16) & mask
    while used[first + place].stamp == stamp and used[first + place].device_no != device:
        place = (place + 1) & mask
    return int(first + place)
