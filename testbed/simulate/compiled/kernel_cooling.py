"""Cooling for places that were held in vain, as of ``coordinator.engine.cooling``, on arrays.

A hash table has a row for each device and job where the device has held a place without a response since its last one.
A device's own row, which is at hand when it is matched, says of how many jobs: nearly always of none. Rows after the
one that a pair should have are tried in turn. A row that was forgotten stays until the table is made anew.

Nobody notes when cooling ends. Whoever is passed over because it cools sets the time at which the devices that wait are
matched again, by the same plan: those that nothing has changed for are not taken then either.
"""

from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import SPREAD_DEVICE, SPREAD_JOB, Tables

_MOST_DOUBLINGS = 30


@compiled
def hold_in_vain(t: Tables, lease: int) -> None:
    """A lease with a place ends, or its session, without a response. There is room for a row."""
    job, device, now = t.leases[lease].job, t.leases[lease].device_no, t.run.now
    held = now - t.leases[lease].granted
    if held <= 0.0:
        return
    row = _row(t, job, device)
    one = t.vain[row]
    if one.device_no == NONE:
        one.device_no, one.job = device, job
        t.run.vains += 1
    if one.held == 0.0:
        t.devices[device].vain += 1
    long_ago = t.leases[lease].granted - max(one.at, one.until) > t.run.cooling_most_s
    total = held if long_ago else one.held + held
    one.held, one.at = total, now
    if total > t.run.vain_leases * t.jobs[job].lease_s:
        doubled = 1 << min(one.failures, _MOST_DOUBLINGS)
        one.until = now + min(t.run.cooling_most_s, t.run.cooling_first_s * doubled)
        one.failures += 1


@compiled
def cools(t: Tables, job: int, device: int) -> bool:
    """Whether the device gets no lease of the job now."""
    if t.devices[device].vain == 0:
        return False
    until = t.vain[_row(t, job, device)].until
    if until <= t.run.now:
        return False
    t.run.wake = min(t.run.wake, until)
    return True


@compiled
def end_cooling(t: Tables, job: int, device: int) -> None:
    """The device has brought a response."""
    if t.devices[device].vain == 0:
        return
    one = t.vain[_row(t, job, device)]
    if one.held > 0.0:
        t.devices[device].vain -= 1
        one.held = one.until = 0.0
        one.failures = 0


@compiled
def _row(t: Tables, job: int, device: int) -> int:
    """The row that the pair has, or a free one, where it belongs."""
    vain, mask = t.vain, len(t.vain) - 1
    place = (device * SPREAD_DEVICE + job * SPREAD_JOB >> 16) & mask
    while vain[place].device_no != NONE and (vain[place].device_no != device or vain[place].job != job):
        place = (place + 1) & mask
    return int(place)
