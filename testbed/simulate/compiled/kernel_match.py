"""Who gets a device, by the present plan: ``coordinator.engine.matching``, on arrays."""

import numpy as np

from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.kernel_devices import used_up
from testbed.simulate.compiled.kernel_lists import sort
from testbed.simulate.compiled.kernel_tiers import unmet
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables

_HALF = np.uint64(32)


@compiled
def choose(t: Tables, cell: int, device: int, seq: int, draws: int) -> int:
    """The job that a device of this cell gets, or NONE. ``draws``: of its session by chance, so far."""
    if t.cells[cell].listed != t.run.plans:
        _list(t, cell)
    jobs, listed, count = t.jobs, t.candidates[cell], t.cells[cell].count
    if t.run.uniform == 0:
        for place in range(count):
            job = listed[place]
            if jobs[job].places > jobs[job].placed + jobs[job].responses and not used_up(t, job, device):
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
    return bool(unmet(t, job) > 0 and not used_up(t, job, device))


@compiled
def wanted(t: Tables, cell: int) -> bool:
    """Would a device of this cell be taken, were it not used up? Its candidates are those of the present plan."""
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
def at_target(t: Tables, job: int) -> bool:
    """Only spare places of its request are left."""
    target = t.jobs[job].target
    return bool(t.jobs[job].placed + t.jobs[job].responses >= target < t.jobs[job].places)


@compiled
def room(t: Tables) -> bool:
    """For one more session and one more lease, and what they bring about."""
    run = t.run
    return bool(min(run.free_lease, run.free_session) > NONE and run.heap + 3 <= len(t.heap))
