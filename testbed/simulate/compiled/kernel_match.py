"""Who gets a device, by the present plan: ``coordinator.engine.matching``, on arrays."""

import numpy as np

from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.kernel_lists import sort
from testbed.simulate.compiled.kernel_once import used_up
from testbed.simulate.compiled.kernel_tiers import unmet
from testbed.simulate.compiled.layout import (
    AIMED,
    FREE_LEASE,
    FREE_SESSION,
    HEAP,
    J_GROUP,
    J_OPEN,
    J_PLACED,
    J_PLACES,
    J_RESPONSES,
    J_TARGET,
    J_TIER,
    MATCH_DRAW,
    NONE,
    OR_FASTER,
    PLANS,
    QUEUES,
    R_GROUPS,
    R_LIST,
    R_LISTED,
    R_OWNER,
    TIERS,
    UNIFORM,
)
from testbed.simulate.compiled.tables import Tables

_HALF = np.uint64(32)


@compiled
def choose(t: Tables, cell: int, device: int, seq: int, draws: int) -> int:
    """The job that a device of this cell gets, or NONE. ``draws``: of its session by chance, so far."""
    if t.cells[cell, R_LISTED] != t.numbers[PLANS]:
        _list(t, cell)
    jobs, listed, count = t.jobs, t.candidates[cell], t.cells[cell, R_LIST]
    if t.numbers[UNIFORM] == 0:
        for place in range(count):
            job = listed[place]
            if jobs[job, J_PLACES] > jobs[job, J_PLACED] + jobs[job, J_RESPONSES] and not used_up(t, job, device):
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
    bits = mixed(mixed(t.bits[MATCH_DRAW] ^ np.uint64(seq)) ^ np.uint64(draws))
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
    for place in range(t.cells[cell, R_LIST]):
        open_ += unmet(t, t.candidates[cell, place]) > 0
    return open_ > 0


@compiled
def _list(t: Tables, cell: int) -> None:
    """The open requests that the devices of a cell can serve, in the plan's order, those below their target first."""
    cells, count = t.cells, 0
    owner, tier = cells[cell, R_OWNER], NONE if t.numbers[TIERS] == 1 else cell % (t.numbers[TIERS] + 1) - 1
    for spare in range(2 if t.numbers[AIMED] == 1 else 1):
        for turn in range(-1, t.numbers[QUEUES]):
            queue = owner if turn == -1 else turn
            if queue == NONE or (turn == owner and turn >= 0):
                continue
            for place in range(t.queues[queue], t.queues[queue + 1]):
                job = t.queued[place]
                if t.jobs[job, J_OPEN] == 0 or cells[cell, R_GROUPS + t.jobs[job, J_GROUP]] == 0:
                    continue
                if at_target(t, job) == (spare == 1) and _is_within(t, tier, t.jobs[job, J_TIER]):
                    t.candidates[cell, count] = job
                    count += 1
    if t.numbers[UNIFORM] == 1:  # drawn from by chance they go by job
        sort(t.candidates[cell, :count], t.candidates[cell, :count].copy())
    cells[cell, R_LIST], cells[cell, R_LISTED] = count, t.numbers[PLANS]


@compiled
def _is_within(t: Tables, tier: int, asked: int) -> bool:
    """``coordinator.engine.tiers.is_within``."""
    return bool(asked < 0 or tier == asked or (t.numbers[OR_FASTER] == 1 and NONE < tier < asked))


@compiled
def at_target(t: Tables, job: int) -> bool:
    """Only spare places of its request are left."""
    target = t.jobs[job, J_TARGET]
    return bool(t.jobs[job, J_PLACED] + t.jobs[job, J_RESPONSES] >= target < t.jobs[job, J_PLACES])


@compiled
def room(t: Tables) -> bool:
    """For one more session and one more lease, and what they bring about."""
    numbers = t.numbers
    return bool(numbers[FREE_LEASE] != NONE and numbers[FREE_SESSION] != NONE and numbers[HEAP] + 3 <= len(t.heap_at))
