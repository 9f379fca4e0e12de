"""Lines 1 to 9 of Venn and its fairness knob, as ``coordinator.policies.venn.irs`` and ``fairness``, on arrays.

Merged groups without supply come first, as queues that own nothing; the others are the contenders, scarcest first.
Comparisons are those of ``irs``, exact: by floats where these are clear, else by integers of 64 bits where those
suffice. Where they do not, Python is to make the plan.
"""

import numpy as np

from coordinator.engine.profiles import ENOUGH
from coordinator.policies.venn import fairness
from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.kernel_tiers import restrict, wanted
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Integers, Tables
from testbed.world.arrays import Reals

_power, _share, _fair_s = compiled(fairness.power), compiled(fairness.share), compiled(fairness.fair_s)
NO, YES, UNCLEAR = range(3)
_CLEAR = 1e-9
_MOST = 4e18  # products of integers stay below it


@compiled
def allocate(t: Tables, weights: Reals, whole_queues: bool, tiers: bool) -> bool:
    """Who owns which region, for the queues in the tables. False: a comparison is too close."""
    unsupplied, count = t.run.unsupplied, t.run.merged - t.run.unsupplied
    ends = _ends(t)
    rates = t.rates.copy()
    owner = t.ground["owner"].copy()
    shared = np.zeros(count, np.int64)
    of, at = np.empty(count, np.int64), np.empty(count, np.int64)  # parts of a queue: whose requests, at what supply
    for taker in range(count - 1, -1, -1):
        waiting = t.queues[unsupplied + taker + 1] - t.queues[unsupplied + taker]
        if waiting == 0:
            continue
        shared[:] = 0
        for region in range(len(owner)):
            if t.usable[taker, region] == 1:
                shared[owner[region]] += t.ground[region].supply
        of[0], at[0] = taker, rates[taker]
        parts, size, grown, last = 1, int(waiting), 0, taker
        for holder in range(taker - 1, -1, -1):
            share = int(shared[holder])
            if share == 0:
                continue
            held = int(t.queues[unsupplied + holder + 1] - t.queues[unsupplied + holder])
            if held > 0:
                pays = _pays(
                    t, ends, rates, weights, (taker, holder, share), of[:parts], at[:parts], grown, size, whole_queues
                )
                if pays == UNCLEAR:
                    return False
                if pays == NO:
                    break
            grown += share
            if held > 0:
                of[parts], at[parts] = holder, rates[holder] - grown
                parts, size = parts + 1, size + held
            rates[taker] += share
            rates[holder] -= share
            last = holder
        if last < taker:
            for region in range(len(owner)):
                if t.usable[taker, region] == 1 and last <= owner[region] < taker:
                    owner[region] = taker
    t.cells["owner"][:] = NONE
    width = 1 if t.run.tiers == 1 else t.run.tiers + 1
    for region in range(len(owner)):
        if owner[region] != NONE:
            t.cells["owner"][region * width : (region + 1) * width] = unsupplied + owner[region]
    if tiers:
        restrict(t, owner)
    return True


@compiled
def _ends(t: Tables) -> Integers:
    """Running sums of remaining demands, in each queue from its first request on."""
    ends = np.empty(len(t.queued), np.int64)
    for queue in range(t.run.merged):
        demand = 0
        for place in range(t.queues[queue], t.queues[queue + 1]):
            job = t.queued[place]
            demand += wanted(t, job)
            ends[place] = demand
    return ends


@compiled
def _pays(
    t: Tables,
    ends: Integers,
    rates: Integers,
    weights: Reals,
    who: tuple[int, int, int],
    of: Integers,
    at: Integers,
    grown: int,
    size: int,
    whole_queues: bool,
) -> int:
    """Whether more requests wait per device of the taker than per device of the holder."""
    taker, holder, share = who
    queue = t.run.unsupplied + holder
    waiting = t.queues[queue + 1] - t.queues[queue]
    if len(weights) == 0:
        outnumbered = float(waiting if rates[taker] == 0 else waiting * rates[taker] // rates[holder])
    else:
        weighed = waiting * weights[holder] / weights[taker]
        outnumbered = np.floor(weighed if rates[taker] == 0 else weighed * rates[taker] / rates[holder])
    if size <= outnumbered:
        return NO
    enough = int(outnumbered) + 1
    if whole_queues:
        return YES
    demands, supplies, parts = np.empty(len(of), np.int64), np.empty(len(of), np.int64), 0
    left = enough
    while left > 0:
        queue = t.run.unsupplied + of[parts]
        first, after = t.queues[queue], t.queues[queue + 1]
        served = min(left, after - first)
        demands[parts] = ends[first + served - 1]
        supply = at[parts] + grown
        supplies[parts] = supply if supply != 0 else share
        left -= served
        parts += 1
    queue = t.run.unsupplied + holder
    return int(_within(demands[:parts], supplies[:parts], ends[t.queues[queue + 1] - 1], rates[holder]))


@compiled
def _within(demands: Integers, supplies: Integers, demand: int, supply: int) -> int:
    """Whether the sum of demands / supplies is at most demand / supply."""
    delay, limit = 0.0, demand / supply
    for part in range(len(demands)):
        delay += demands[part] / supplies[part]
    if abs(delay - limit) > _CLEAR * limit:
        return YES if delay < limit else NO
    above, below = np.int64(0), np.int64(1)  # the sum as a fraction
    for part in range(len(demands)):
        size = (float(above) * supplies[part] + float(demands[part]) * below) * supply
        if max(size, float(demand) * below * supplies[part], float(below) * supplies[part]) > _MOST:
            return UNCLEAR
        above = above * supplies[part] + demands[part] * below
        below = below * supplies[part]
    return YES if above * supply <= demand * below else NO


@compiled
def unfinished(t: Tables) -> int:
    """Jobs that have arrived and not ended."""
    count = 0
    for job in range(t.run.arrived):
        if np.isnan(t.jobs[job].ended):
            count += 1
    return count


@compiled
def fair_demand(t: Tables, job: int, left: int, jobs: int) -> float:
    """What orders it in its group; ``jobs`` are unfinished."""
    waited, fair = _times(t, job, jobs)
    return float(left / _power(_share(waited, fair), t.run.fairness))


@compiled
def weights(t: Tables) -> Reals:
    """What each request of a contender counts for; empty: they count alike."""
    if t.run.fairness == 0.0:
        return np.empty(0)
    unsupplied, jobs = t.run.unsupplied, unfinished(t)
    found = np.empty(t.run.merged - unsupplied)
    for contender in range(len(found)):
        waited = fair = 0.0
        for place in range(t.queues[unsupplied + contender], t.queues[unsupplied + contender + 1]):
            times = _times(t, t.queued[place], jobs)
            waited, fair = waited + times[0], fair + times[1]
        found[contender] = _power(_share(waited, fair), t.run.fairness)
    return found


@compiled
def _times(t: Tables, job: int, jobs: int) -> tuple[float, float]:
    """The time since a job arrived, and its fair one."""
    known, everyone, supply = t.jobs[job].known, t.profiles[job, 0], t.group_rates[t.jobs[job].group]
    rounds = max(t.jobs[job].round_no, 1) if known == NONE else known
    tail_s = t.edges[everyone.at] if everyone.total >= ENOUGH else 0.0
    fair = _fair_s(jobs, rounds, t.jobs[job].plan_places, t.run.span_s, supply, tail_s)
    return t.run.now - t.jobs[job].arrival, fair
