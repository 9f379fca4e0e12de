"""Plans that the kernel makes without leaving it: what the policies of these names in ``coordinator.policies`` make.

The tables of a plan: ``queues`` and ``queued``, ``owner`` of each cell, ``uniform`` of the run.
"""

from typing import Any

import numpy as np

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
from coordinator.policies.venn_plus import VennPlus, index
from testbed.simulate.compiled.compiled import compiled, compiled_with, mixed
from testbed.simulate.compiled.kernel_lists import sort
from testbed.simulate.compiled.kernel_tiers import AUTO, WITH, aim, at_target, lacking, restrict_priced
from testbed.simulate.compiled.kernel_venn import allocate, fair_demand, unfinished, weights
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
NAMES, KEYS, ALL = range(3)
_TOP = np.uint64(2**63)
_srsf, _srsf_job = compiled(Srsf.key), compiled(SrsfJob.key)
_scarce = compiled(index)
_index, _next_index = compiled_with(VennPlus.key, _scarce), compiled_with(VennPlus.opening_key, _scarce)


@compiled
def make_plan(t: Tables) -> bool:
    """Fill the tables of the plan. False: Python is to make this one, as it makes all of its policy, or since a
    comparison is too close for floats.
    """
    planner, t.run.again = t.run.planner, 0
    if planner != NONE and _plan(t, _show(t, NAMES if planner in (RANDOM, FIFO, LAS) else KEYS)):
        return True
    t.run.asking = _show(t, ALL)
    t.run.again = _show_collecting(t, t.run.asking)
    return False


@compiled
def _plan(t: Tables, count: int) -> bool:
    planner, queued = t.run.planner, t.queued
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
            keys[place] = _key(t, t.requests[place])
        sort(queued[:count], keys)
    if t.run.spares != WITH:
        aim(t, queued[:count])
    return True


@compiled
def _show(t: Tables, what: int) -> int:
    """What a policy sees of open requests, as ``coordinator.engine.views``: by (job arrival, job id).

    ``what``: all of it, what the keys of policies read, or nothing but whose requests they are.
    """
    jobs, requests, queued, count = t.jobs, t.requests, t.queued, 0
    for job in range(t.run.arrived):
        one = jobs[job]
        if one.open == 0:
            continue
        left = one.needed - one.held if one.asynchronous == 1 else one.places - one.placed - one.responses
        if left <= 0:
            continue
        queued[count] = job
        if what != NAMES:
            row = requests[count]
            row.request, row.draws_by, row.group, row.places = one.request, one.draws_by, one.group, one.plan_places
            row.remaining = left
            if one.known > one.round_no:
                left += (one.known - one.round_no) * one.plan_places
            row.left = left
            if what == ALL:
                row.arrival, row.rounds_known = one.arrival, 0 if one.known == NONE else 1
                row.needed, row.lacking, row.tier = one.needed, lacking(t, job), one.tier
                row.opened_at, row.deadline_at = one.opened, one.deadline
        count += 1
    return count


@compiled
def _show_collecting(t: Tables, first: int) -> int:
    """The same of jobs in collection: their rounds have all the devices that they need, and others are to come.

    The jobs are put into ``queued`` from place ``first`` on.
    """
    count = 0
    for job in range(t.run.arrived):
        one = t.jobs[job]
        if one.open == 0 or one.asynchronous == 1 or lacking(t, job) > 0:
            continue
        if one.known == NONE or one.known > one.round_no:
            row = t.collecting[count]
            row.arrival, row.group, row.places = one.arrival, one.group, one.plan_places
            row.rounds_left = 0 if one.known == NONE else one.known - one.round_no
            t.queued[first + count] = job
            count += 1
    return count


@compiled
def _key(t: Tables, request: Any) -> int:
    planner = t.run.planner
    if planner == SRSF:
        return int(_srsf(request))
    if planner == SRSF_JOB:
        return int(_srsf_job(request))
    if planner == RANDOM_JOB:
        bits = mixed(t.run.job_order_draw ^ request.draws_by)
    else:
        bits = mixed(t.run.order_draw ^ np.uint64(request.request))
    return int(np.int64(bits ^ _TOP))  # in the same order, with a sign


@compiled
def _plan_plus(t: Tables, count: int) -> None:
    """One queue, of the least index first; targets by the order of requests and jobs in collection."""
    run, rates = t.run, t.group_rates
    if run.collecting == 1 and run.spares == AUTO:
        run.again = _show_collecting(t, count)
    total = count + run.again
    stands, values = t.queued[:total].copy(), np.empty(total)
    for place in range(count):
        values[place] = _index(t.requests[place], rates, run.scarcity, run.nearness)
    for place in range(run.again):
        stands[count + place] = ~stands[count + place]
        values[count + place] = _next_index(t.collecting[place], rates, run.scarcity)
    sort(stands, values)
    place = 0
    for stand in stands:
        if stand >= 0:
            t.queued[place] = stand
            place += 1
    if run.spares != WITH:
        aim(t, stands)
    if run.planner == VENN_PLUS:
        restrict_priced(t, t.queued[:count])


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
        for row, job in enumerate(jobs):
            if t.merged_of[t.jobs[job].group] == queue:
                left = t.requests[row].remaining if t.run.by_request == 1 else t.requests[row].left
                queued[place], keys[place] = job, fair_demand(t, job, left, fair) if fair > 0 else left
                place += 1
        queues[queue], queues[queue + 1] = first, place
        sort(queued[first:place], keys[first:place])


@compiled
def _attained(t: Tables, job: int) -> float:
    """Device-seconds leased so far, added up as ``coordinator.engine.state`` does."""
    one = t.jobs[job]
    return float(one.attained + one.live * t.run.now - one.granted_sum)
