"""How many tasks a device takes, in a session and in a day."""

import numpy as np

from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.layout import (
    D_KIND,
    D_TASKS,
    D_TODAY,
    DAILY,
    J_TAIL,
    K_PER_DAY,
    K_PER_SESSION,
    L_DEVICE,
    L_PREVIOUS,
    L_SEQ,
    NONE,
    NOW,
)
from testbed.simulate.compiled.tables import Tables

_DAY_S = 86_400.0
_MOST = 1 << 32  # tasks of a device in a day


@compiled
def count_task(t: Tables, device: int) -> None:
    """It accepts a lease."""
    t.devices[device, D_TASKS] += 1
    if t.numbers[DAILY] == 1:
        t.devices[device, D_TODAY] = max(t.devices[device, D_TODAY], _today(t)) + 1


@compiled
def forget_tasks(t: Tables, job: int, after: int) -> None:
    """The job's leases after this number are taken back in the instant of their grant: none had been accepted."""
    lease = t.jobs[job, J_TAIL]
    while lease != NONE and t.leases[lease, L_SEQ] > after:
        device = t.leases[lease, L_DEVICE]
        t.devices[device, D_TASKS] -= 1
        if t.numbers[DAILY] == 1:
            t.devices[device, D_TODAY] -= 1
        lease = t.leases[lease, L_PREVIOUS]


@compiled
def limited(t: Tables, device: int) -> bool:
    """It has reached a limit of its own."""
    devices, kind = t.devices, t.devices[device, D_KIND]
    per_session, per_day = t.kinds[kind, K_PER_SESSION], t.kinds[kind, K_PER_DAY]
    if 0 < per_session <= devices[device, D_TASKS]:
        return True
    return bool(0 < per_day <= devices[device, D_TODAY] - _today(t))


@compiled
def _today(t: Tables) -> int:
    """What a day's tasks are counted from: more than a device ever has counted before."""
    return int(np.int64(t.reals[NOW] // _DAY_S) * _MOST)
