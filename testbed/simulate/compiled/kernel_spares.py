"""Targets of requests, and tiers at a price: ``coordinator.policies.spares`` and ``venn_plus``, on arrays."""

import numpy as np

from coordinator.engine.plan import ANY_TIER, UNDECIDED
from coordinator.engine.profiles import ENOUGH
from coordinator.engine.scale import BINS
from coordinator.policies import spares, venn_plus
from testbed.simulate.compiled.compiled import compiled, compiled_with
from testbed.simulate.compiled.kernel_match import at_target
from testbed.simulate.compiled.kernel_tiers import bin_at, decide, latest_s, profile_of, quantile, tail_s, wanted
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Integers, Tables

WITH, LAST, AUTO = range(3)  # places in ``coordinator.policies.spares.Spares``


_best_places, _gain = compiled_with(spares.best_places, bin_at), compiled(venn_plus.gain)


@compiled
def lacking(t: Tables, job: int) -> int:
    """Devices that its request lacks to close; asynchronously places that no lease has."""
    if t.jobs[job].asynchronous == 1:
        return int(t.jobs[job].places - t.jobs[job].placed)
    return int(max(t.jobs[job].needed - t.jobs[job].placed - t.jobs[job].responses, 0))


@compiled
def aim(t: Tables, stands: Integers) -> None:
    """The targets of requests. ``stands``: who comes first, first: jobs, and ~job for one with its next opening."""
    jobs, prices = t.jobs, np.zeros(len(t.seconds))
    for job in range(t.run.arrived):
        jobs[job].target = jobs[job].places
    for place in range(len(stands) - 1, -1, -1):
        job, opens = stands[place], stands[place] < 0
        if opens:
            job = ~job
        group = jobs[job].group
        if not opens and jobs[job].needed < jobs[job].places and jobs[job].asynchronous == 0:
            auto = t.run.spares == AUTO
            jobs[job].target = _target(t, job, prices[group]) if auto else jobs[job].needed
        if opens or lacking(t, job) > 0:
            prices += t.seconds[group]


@compiled
def _target(t: Tables, job: int, price: float) -> int:
    needed, places = t.jobs[job].needed, t.jobs[job].places
    row = profile_of(t, job, t.jobs[job].tier) if price > 0.0 else NONE
    if row == NONE:
        return int(places)
    if row == 0:
        row = t.profiles.shape[1] - 1  # losses included
    one, left_s = t.profiles[job, row], t.jobs[job].deadline - t.run.now
    return int(_best_places(one.counts, one.total, one.at, one.upto, t.edges, needed, places, left_s, price))


@compiled
def restrict_priced(t: Tables, queue: Integers) -> None:
    """Tiers under venn-plus. ``queue``: jobs in the order of their requests."""
    waiting = np.zeros(len(t.seconds), np.int64)
    for job in queue:
        if lacking(t, job) > 0:
            waiting[t.jobs[job].group] += 1
    now, review = t.run.now, np.inf
    for job in queue:
        if t.jobs[job].tier == UNDECIDED and not at_target(t, job):
            tier = _choice(t, job, waiting)
            if tier != UNDECIDED:
                decide(t, job, tier)
        tier, group = t.jobs[job].tier, t.jobs[job].group
        if tier < 0:
            continue
        work, rate = wanted(t, job) * t.run.span_s, t.group_tiers[tier, group]
        latest = latest_s(t.jobs[job].deadline, work, rate, tail_s(t, job, tier))
        if now >= latest:
            decide(t, job, ANY_TIER)
        else:
            review = min(review, latest)
    t.run.review = review


@compiled
def _choice(t: Tables, job: int, waiting: Integers) -> int:
    jobs, group = t.jobs, t.jobs[job].group
    rate, needed, target = t.group_rates[group], jobs[job].needed, jobs[job].target
    if rate == 0:
        return UNDECIDED
    if jobs[job].asynchronous == 1 or profile_of(t, job, NONE) == NONE:
        return ANY_TIER
    todo, lost = target - jobs[job].placed - jobs[job].responses, 0.0
    for other in range(len(waiting)):
        itself = 1 if other == group and lacking(t, job) > 0 else 0
        lost += t.seconds[group, other] * (waiting[other] - itself)
    best, most, all_s = ANY_TIER, 0.0, quantile(t, job, 0, needed, target + 1)
    faster, total = np.zeros(BINS, np.int64), 0  # responses of the tiers so far
    for tier in range(t.run.tiers - 1):
        total += t.profiles[job, 1 + tier].total
        faster += t.profiles[job, 1 + tier].counts
        rate_u = t.group_tiers[tier, group]
        if rate_u == 0 or total < ENOUGH:
            continue
        at, _ = bin_at(faster, (needed * total + target) // (target + 1), 0, faster[0])
        found = _gain(all_s - t.edges[at], todo, t.run.span_s, rate, rate_u, lost)
        if found > most:
            best, most = tier, found
    return int(best)
