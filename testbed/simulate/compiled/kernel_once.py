"""Once a round: which devices count in the round that a job has on offer.

What a device's latest lease was for stands in the device's own row, which is at hand when it is leased and when it is
matched again: that is the round, unless the lease has ended without a response. Rounds that are still on offer when
another lease takes that place go into a hash table for each job, and so do all responses of an asynchronous one, for
they may count in a later round than the lease was granted in. Few devices ever do.

A row counts if it has the round's stamp, and is free otherwise: so a new round empties the table at once. A table has
at least twice as many rows as responses close a round, and those after the one that a device should have are tried in
turn.
"""

from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.layout import (
    D_ROUND,
    J_ASYNCHRONOUS,
    J_MASK,
    J_OPEN,
    J_STAMP,
    J_TABLED,
    J_USED,
    NONE,
    U_DEVICE,
    U_STAMP,
)
from testbed.simulate.compiled.tables import Tables

ROUND = 1 << 32  # what a stamp grows by with each round; the rest of it is the job
_SPREAD = 2_654_435_761  # 2^32 over the golden ratio; devices are numbered below 2^31


@compiled
def used_up(t: Tables, job: int, device: int) -> bool:
    """It is not to be leased to the job now."""
    jobs = t.jobs
    if jobs[job, J_MASK] == NONE:
        return False
    if t.devices[device, D_ROUND] == jobs[job, J_STAMP]:
        return True
    return bool(jobs[job, J_TABLED] == 1 and t.used[_row(t, job, device), U_STAMP] == jobs[job, J_STAMP])


@compiled
def lease_round(t: Tables, job: int, device: int) -> None:
    """It is leased to the job, and counts in the round, unless ``forget_round`` is called."""
    jobs, before = t.jobs, t.devices[device, D_ROUND]
    other = before & (ROUND - 1)
    if jobs[other, J_STAMP] == before and jobs[other, J_OPEN] == 1:
        use(t, other, device)
    once = jobs[job, J_MASK] != NONE and jobs[job, J_ASYNCHRONOUS] == 0
    t.devices[device, D_ROUND] = jobs[job, J_STAMP] if once else 0


@compiled
def forget_round(t: Tables, device: int) -> None:
    """Its latest lease has ended without a response, while the round may be on offer."""
    t.devices[device, D_ROUND] = 0


@compiled
def use(t: Tables, job: int, device: int) -> None:
    """It counts in the round."""
    if t.jobs[job, J_MASK] != NONE:
        row = _row(t, job, device)
        t.used[row, U_DEVICE], t.used[row, U_STAMP] = device, t.jobs[job, J_STAMP]
        t.jobs[job, J_TABLED] = 1


@compiled
def _row(t: Tables, job: int, device: int) -> int:
    """That the device has, or a free one, where it belongs."""
    used, first, mask, stamp = t.used, t.jobs[job, J_USED], t.jobs[job, J_MASK], t.jobs[job, J_STAMP]
    place = (device * _SPREAD >> 16) & mask
    while used[first + place, U_STAMP] == stamp and used[first + place, U_DEVICE] != device:
        place = (place + 1) & mask
    return int(first + place)
