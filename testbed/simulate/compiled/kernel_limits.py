"""How many tasks a device takes, in a session and in a day."""

import numpy as np

from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables

_DAY_S = 86_400.0
_MOST = 1 << 32  # tasks of a device in a day


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
