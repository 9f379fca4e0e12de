"""Plans that the kernel makes without leaving it: what the policies of these names in ``coordinator.policies`` make.

The tables of a plan: ``queues`` and ``queued``, R_OWNER per region, UNIFORM.
"""

import math

import numpy as np

from coordinator.policies import venn_plus
from coordinator.policies.fifo import Fifo
from coordinator.policies.las import Las
from coordinator.policies.random import Random
from coordinator.policies.random_job import RandomJob
from coordinator.policies.random_order import RandomOrder
from coordinator.policies.srsf import Srsf
from coordinator.policies.srsf_job import SrsfJob
from coordinator.policies.venn.nomatch import VennNomatch
from coordinator.policies.venn.policy import Venn
from coordinator.policies.venn.whole_queues import VennQueue
from coordinator.policies.venn_plus import VennPlus
from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.kernel_fairness import fair_demand, unfinished, weights
from testbed.simulate.compiled.kernel_lists import sort
from testbed.simulate.compiled.kernel_match import at_target
from testbed.simulate.compiled.kernel_spares import AUTO, WITH, aim, lacking, restrict_priced
from testbed.simulate.compiled.kernel_tiers import wanted
from testbed.simulate.compiled.kernel_venn import allocate
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables

(
    RANDOM,
    RANDOM_ORDER,
    RANDOM_JOB,
    FIFO,
    SRSF,
    SRSF_JOB,
    LAS,
    VENN_PLUS,
    VENN_PLUS_NOMATCH,
    VENN_NOMATCH,
    VENN,
    VENN_QUEUE,
    VENN_QUEUE_NOMATCH,
) = range(13)
PLANNERS: dict[type, int] = {  # of these very classes: one that is derived from them makes its plans itself
    Random: RANDOM,
    RandomOrder: RANDOM_ORDER,
    RandomJob: RANDOM_JOB,
    Fifo: FIFO,
    Srsf: SRSF,
    SrsfJob: SRSF_JOB,
    Las: LAS,
    VennPlus: VENN_PLUS,
    Venn: VENN,
    VennNomatch: VENN,
    VennQueue: VENN_QUEUE,
}
WITHOUT_TIERS = {VENN_PLUS: VENN_PLUS_NOMATCH, VENN: VENN_NOMATCH, VENN_QUEUE: VENN_QUEUE_NOMATCH}
_TOP = np.uint64(2**63)
_scarce = compiled(venn_plus.index)


@compiled
def make_plan(t: Tables) -> bool:
    """Fill the tables of the plan. False: a comparison is too close for floats, and Python is to make this one."""
    planner, queued, count = t.run.planner, t.queued, 0
    for job in range(t.run.arrived):  # by arrival, then id
        if t.jobs[job].open == 1 and wanted(t, job) > 0:
            queued[count] = job
            count += 1
    t.run.uniform = 1 if planner == RANDOM else 0
    t.run.queues = 1
    t.queues[0], t.queues[1] = 0, count
    if planner >= VENN_NOMATCH:
        return _plan_by_group(t, count)
    t.cells["owner"][:] = NONE
    if planner in (VENN_PLUS, VENN_PLUS_NOMATCH):
        _plan_plus(t, count)
        return True
    if planner == LAS:
        values = np.empty(count)
        for place in range(count):
            values[place] = _attained(t, queued[place])
        sort(queued[:count], values)
    elif planner not in (RANDOM, FIFO):
        keys = np.empty(count, np.int64)
        for place in range(count):
            keys[place] = _key(t, queued[place])
        sort(queued[:count], keys)
    if t.run.spares != WITH:
        aim(t, queued[:count])
    return True


@compiled
def _key(t: Tables, job: int) -> int:
    planner = t.run.planner
    if planner == SRSF:
        return wanted(t, job)
    if planner == SRSF_JOB:
        return _left_of_job(t, job)
    if planner == RANDOM_JOB:
        bits = mixed(t.run.job_order_draw ^ t.jobs[job].draws_by)
    else:
        bits = mixed(t.run.order_draw ^ np.uint64(t.jobs[job].request))
    return int(np.int64(bits ^ _TOP))  # in the same order, with a sign


@compiled
def _plan_plus(t: Tables, count: int) -> None:
    """One queue, of the least index first; targets by the order of requests and jobs in collection."""
    stands, values, total = np.empty(count + t.run.arrived, np.int64), np.empty(count + t.run.arrived), count
    for place in range(count):
        stands[place], values[place] = t.queued[place], _index(t, t.queued[place])
    if t.run.collecting == 1 and t.run.spares == AUTO:
        for job in range(t.run.arrived):
            if _opens_again(t, job):
                stands[total], values[total] = ~job, _next_index(t, job)
                total += 1
    sort(stands[:total], values[:total])
    place = 0
    for stand in stands[:total]:
        if stand >= 0:
            t.queued[place] = stand
            place += 1
    if t.run.spares != WITH:
        aim(t, stands[:total])
    if t.run.planner == VENN_PLUS:
        restrict_priced(t, t.queued[:count])


@compiled
def _opens_again(t: Tables, job: int) -> bool:
    """Its round has all the devices that it needs, and another one is to come."""
    if t.jobs[job].open == 0 or t.jobs[job].asynchronous == 1 or lacking(t, job) > 0:
        return False
    return bool(t.jobs[job].known == NONE or t.jobs[job].known > t.jobs[job].round_no)


@compiled
def _plan_by_group(t: Tables, count: int) -> bool:
    """A queue per merged group, least left first; then lines 1 to 9.

    Where places are spare those at their target take no part, and are a queue of their own.
    """
    planner = t.run.planner
    _queue_by_group(t, count)
    if t.run.spares != WITH:
        aim(t, t.queued[:count])
        _part(t, count)
    return allocate(t, weights(t), planner >= VENN_QUEUE, planner in (VENN, VENN_QUEUE))


@compiled
def _part(t: Tables, count: int) -> None:
    """Take those at their target out of the queues, in order, into one after them."""
    queued, merged = t.queued, t.run.merged
    spare, spares, place = np.empty(count, np.int64), 0, 0
    for queue in range(merged):
        first, after = t.queues[queue], t.queues[queue + 1]
        t.queues[queue] = place
        for each in range(first, after):
            job = queued[each]
            if at_target(t, job):
                spare[spares] = job
                spares += 1
            else:
                queued[place] = job
                place += 1
    t.queues[merged], t.queues[merged + 1] = place, count
    t.run.queues = merged + 1
    for each in range(spares):
        queued[place + each] = spare[each]


@compiled
def _queue_by_group(t: Tables, count: int) -> None:
    queues, queued = t.queues, t.queued
    jobs, keys = queued[:count].copy(), np.empty(count)  # whole numbers below 2**53, or what fairness makes of them
    merged, place = t.run.merged, 0
    fair = unfinished(t) if t.run.fairness > 0.0 else 0
    t.run.queues = merged
    for queue in range(merged):
        first = place
        for job in jobs:
            if t.merged_of[t.jobs[job].group] == queue:
                left = wanted(t, job) if t.run.by_request == 1 else _left_of_job(t, job)
                queued[place], keys[place] = job, fair_demand(t, job, left, fair) if fair > 0 else left
                place += 1
        queues[queue], queues[queue + 1] = first, place
        sort(queued[first:place], keys[first:place])


@compiled
def _left_of_job(t: Tables, job: int) -> int:
    """Devices that a job still needs: over all rounds left where their number is known, else for its open request."""
    left, known = wanted(t, job), t.jobs[job].known
    if known != NONE:
        left += max(known - t.jobs[job].round_no, 0) * t.jobs[job].plan_places
    return int(left)


@compiled
def _index(t: Tables, job: int) -> float:
    """``coordinator.policies.venn_plus``."""
    value = _scarce(float(_left_of_job(t, job)), float(t.group_rates[t.jobs[job].group]), t.run.scarcity)
    return value * math.sqrt(wanted(t, job) / t.jobs[job].plan_places) if t.run.nearness == 1 else value


@compiled
def _next_index(t: Tables, job: int) -> float:
    """The same of its next opening."""
    known = t.jobs[job].known
    rounds = 1 if known == NONE else known - t.jobs[job].round_no
    return _scarce(float(rounds * t.jobs[job].places), float(t.group_rates[t.jobs[job].group]), t.run.scarcity)


@compiled
def _attained(t: Tables, job: int) -> float:
    """Device-seconds leased so far, added up as ``coordinator.engine.state`` does."""
    one = t.jobs[job]
    return float(one.attained + one.live * t.run.now - one.granted_sum)
