"""What a device may still take: limits of its own, in a session and in a day, and each job's round once.

What a device's latest lease was for stands in the device's own row, which is at hand when it is leased and when it is
matched again: that is the round, unless the lease has ended without a response. Rounds that are still on offer when
another lease takes that place go into a hash table for each job, and so do all responses of an asynchronous one, for
they may count in a later round than the lease was granted in. Few devices ever do.

A row of that table counts if it has the round's stamp, and is free otherwise: so a new round empties the table at
once. A table has at least twice as many rows as responses close a round, and those after the one that a device should
have are tried in turn.
"""

import numpy as np

from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables

_DAY_S = 86_400.0
_MOST = 1 << 32  # tasks of a device in a day
ROUND = 1 << 32  # what a stamp grows by with each round; the rest of it is the job
_SPREAD = 2_654_435_761  # 2^32 over the golden ratio; devices are numbered below 2^31


# -- limits


@compiled
def count_task(t: Tables, device: int) -> None:
    """It accepts a lease."""
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
    """It has reached a limit of its own."""
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
    """It is not to be leased to the job now."""
    jobs = t.jobs
    if jobs[job].mask == NONE:
        return False
    if t.devices[device].counts_in == jobs[job].stamp:
        return True
    return bool(jobs[job].tabled == 1 and t.used[_row(t, job, device)].stamp == jobs[job].stamp)


@compiled
def lease_round(t: Tables, job: int, device: int) -> None:
    """It is leased to the job, and counts in the round, unless ``forget_round`` is called."""
    jobs, before = t.jobs, t.devices[device].counts_in
    other = before & (ROUND - 1)
    if jobs[other].stamp == before and jobs[other].open == 1:
        use(t, other, device)
    once = jobs[job].mask != NONE and jobs[job].asynchronous == 0
    t.devices[device].counts_in = jobs[job].stamp if once else 0


@compiled
def forget_round(t: Tables, device: int) -> None:
    """Its latest lease has ended without a response, while the round may be on offer."""
    t.devices[device].counts_in = 0


@compiled
def use(t: Tables, job: int, device: int) -> None:
    """It counts in the round."""
    if t.jobs[job].mask != NONE:
        row = _row(t, job, device)
        t.used[row].device_no, t.used[row].stamp = device, t.jobs[job].stamp
        t.jobs[job].tabled = 1


@compiled
def _row(t: Tables, job: int, device: int) -> int:
    """That the device has, or a free one, where it belongs."""
    used, first, mask, stamp = t.used, t.jobs[job].used, t.jobs[job].mask, t.jobs[job].stamp
    place = (device * _SPREAD >> 16) & mask
    while used[first + place].stamp == stamp and used[first + place].device_no != device:
        place = (place + 1) & mask
    return int(first + place)
