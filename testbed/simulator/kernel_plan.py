"""Plans that the kernel makes without leaving it: what the policies of these names in ``coordinator.policies`` make.

The tables of a plan: ``queues`` and ``queued``, R_OWNER per region, UNIFORM.
"""

import math

import numpy as np

from testbed.simulator.compiled import compiled, mixed
from testbed.simulator.kernel_lists import sort
from testbed.simulator.kernel_tiers import wanted
from testbed.simulator.kernel_venn import allocate
from testbed.simulator.layout import (
    ARRIVED,
    AT_ENOUGH,
    J_GROUP,
    J_KNOWN,
    J_LIVE,
    J_OPEN,
    J_ROUND,
    J_SIZE,
    J_SPARE,
    JR_ATTAINED,
    JR_GRANTED_SUM,
    MERGED,
    NEARNESS,
    NONE,
    NOW,
    ORDER_DRAW,
    PLAN,
    PLANNER,
    QUEUES,
    R_OWNER,
    SCARCITY,
    UNIFORM,
)
from testbed.simulator.tables import Tables

RANDOM, RANDOM_ORDER, FIFO, SRSF, SRSF_JOB, LAS, VENN_PLUS, VENN_NOMATCH, VENN, VENN_QUEUE, VENN_QUEUE_NOMATCH = range(
    11
)
PLANNERS = {
    "random": RANDOM,
    "random-order": RANDOM_ORDER,
    "fifo": FIFO,
    "srsf": SRSF,
    "srsf-job": SRSF_JOB,
    "las": LAS,
    "venn-plus": VENN_PLUS,
    "venn": VENN,
    "venn-queue": VENN_QUEUE,
}
WITHOUT_TIERS = {VENN: VENN_NOMATCH, VENN_QUEUE: VENN_QUEUE_NOMATCH}
_TOP = np.uint64(2**63)


@compiled
def make_plan(t: Tables) -> bool:
    """Fill the tables of the plan. False: a comparison is too close for floats, and Python is to make this one."""
    planner, queued, count = t.numbers[PLANNER], t.queued, 0
    for job in range(t.numbers[ARRIVED]):  # by arrival, then id
        if t.jobs[job, J_OPEN] == 1 and wanted(t, job) > 0:
            queued[count] = job
            count += 1
    t.numbers[UNIFORM] = 1 if planner == RANDOM else 0
    t.numbers[QUEUES] = 1
    t.queues[0], t.queues[1] = 0, count
    if planner >= VENN_NOMATCH:
        return _plan_by_group(t, count)
    t.cells[:, R_OWNER] = NONE
    if planner in (LAS, VENN_PLUS):
        values = np.empty(count)
        for place in range(count):
            values[place] = _attained(t, queued[place]) if planner == LAS else _index(t, queued[place])
        sort(queued[:count], values)
        if planner == VENN_PLUS and t.numbers[AT_ENOUGH] == 1:
            _put_spare_last(t, count)
    elif planner not in (RANDOM, FIFO):
        keys = np.empty(count, np.int64)
        for place in range(count):
            job = queued[place]
            if planner == SRSF:
                keys[place] = wanted(t, job)
            elif planner == SRSF_JOB:
                keys[place] = _left_of_job(t, job)
            else:
                bits = mixed(mixed(t.bits[ORDER_DRAW] ^ np.uint64(t.numbers[PLAN])) ^ np.uint64(place))
                keys[place] = np.int64(bits ^ _TOP)  # in the same order, with a sign
        sort(queued[:count], keys)
    return True


@compiled
def _plan_by_group(t: Tables, count: int) -> bool:
    """A queue per merged group, least left of the job first; then lines 1 to 9."""
    queues, queued = t.queues, t.queued
    jobs, keys = queued[:count].copy(), np.empty(count, np.int64)
    merged, place = t.numbers[MERGED], 0
    t.numbers[QUEUES] = merged
    for queue in range(merged):
        first = place
        for job in jobs:
            if t.merged_of[t.jobs[job, J_GROUP]] == queue:
                queued[place], keys[place] = job, _left_of_job(t, job)
                place += 1
        queues[queue], queues[queue + 1] = first, place
        sort(queued[first:place], keys[first:place])
    planner = t.numbers[PLANNER]
    return allocate(t, planner >= VENN_QUEUE, planner in (VENN, VENN_QUEUE))


@compiled
def _left_of_job(t: Tables, job: int) -> int:
    """``coordinator.policies.order.left_of_job``."""
    left, known = wanted(t, job), t.jobs[job, J_KNOWN]
    if known != NONE:
        left += max(known - t.jobs[job, J_ROUND], 0) * t.jobs[job, J_SIZE]
    return int(left)


@compiled
def _index(t: Tables, job: int) -> float:
    """``coordinator.policies.venn_plus``."""
    value, rate = float(_left_of_job(t, job)), t.group_rates[t.jobs[job, J_GROUP]]
    for _ in range(t.numbers[SCARCITY]):
        value *= rate
    return value * math.sqrt(wanted(t, job) / t.jobs[job, J_SIZE]) if t.numbers[NEARNESS] == 1 else value


@compiled
def _put_spare_last(t: Tables, count: int) -> None:
    """Requests that have enough come after those that lack some; otherwise they stay in order."""
    before, place = t.queued[:count].copy(), 0
    for spare in range(2):
        for job in before:
            if (wanted(t, job) <= t.jobs[job, J_SPARE]) == (spare == 1):
                t.queued[place] = job
                place += 1


@compiled
def _attained(t: Tables, job: int) -> float:
    """Device-seconds leased so far, added up as ``coordinator.engine.state`` does."""
    reals = t.job_reals
    return float(reals[job, JR_ATTAINED] + t.jobs[job, J_LIVE] * t.reals[NOW] - reals[job, JR_GRANTED_SUM])
