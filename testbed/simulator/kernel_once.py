"""Once a round: which devices count in the round that a job has on offer, a hash table for each job.

A row counts if it has the round's stamp, and is free otherwise: so a new round empties the table at once. A table has
at least twice as many rows as responses close a round, and those after the one that a device should have are tried in
turn.
"""

from testbed.simulator.compiled import compiled
from testbed.simulator.layout import J_MASK, J_STAMP, J_USED, NONE, U_DEVICE, U_STAMP
from testbed.simulator.tables import Tables

_SPREAD = 2_654_435_761  # 2^32 over the golden ratio; devices are numbered below 2^31


@compiled
def used_up(t: Tables, job: int, device: int) -> bool:
    """It is not to be leased to the job now."""
    return bool(t.jobs[job, J_MASK] != NONE and t.used[_row(t, job, device), U_STAMP] == t.jobs[job, J_STAMP])


@compiled
def use(t: Tables, job: int, device: int) -> None:
    """It counts in the round."""
    if t.jobs[job, J_MASK] != NONE:
        row = _row(t, job, device)
        t.used[row, U_DEVICE], t.used[row, U_STAMP] = device, t.jobs[job, J_STAMP]


@compiled
def _row(t: Tables, job: int, device: int) -> int:
    """That the device has, or a free one, where it belongs."""
    used, first, mask, stamp = t.used, t.jobs[job, J_USED], t.jobs[job, J_MASK], t.jobs[job, J_STAMP]
    place = (device * _SPREAD >> 16) & mask
    while used[first + place, U_STAMP] == stamp and used[first + place, U_DEVICE] != device:
        place = (place + 1) & mask
    return int(first + place)
