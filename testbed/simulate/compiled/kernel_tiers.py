"""Tiers of devices, profiles of responses and targets of requests, on arrays.

They are those of ``coordinator.engine.tiers`` and ``profiles``, and, as far as policies decide them in the loop, of
``venn.tiers``, ``spares`` and ``venn_plus`` in ``coordinator.policies``.
"""

from typing import Any

import numpy as np

from coordinator.engine import profiles
from coordinator.engine.plan import ANY_TIER, LIFTED, UNDECIDED
from coordinator.engine.profiles import ENOUGH, FULL, STRIDE, TURN
from coordinator.engine.scale import BINS
from coordinator.policies import spares, venn_plus
from coordinator.policies.venn import tiers
from testbed.simulate.compiled.compiled import compiled, compiled_with, mixed
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Integers, Tables

WITH, LAST, AUTO = range(3)  # places in ``coordinator.policies.spares.Spares``
_HALF = np.uint64(32)
_bin_at, _latest_s = compiled(profiles.bin_at), compiled(tiers.latest_s)
_pays, _pays_by_paper = compiled(tiers.pays), compiled(tiers.pays_by_paper)
_best_places, _gain = compiled_with(spares.best_places, _bin_at), compiled(venn_plus.gain)


# -- what a request lacks


@compiled
def unmet(t: Tables, job: int) -> int:
    """Places of its request that are still to be leased."""
    return int(t.jobs[job].places - t.jobs[job].placed - t.jobs[job].responses)


@compiled
def wanted(t: Tables, job: int) -> int:
    """What is left of its round in plans: places to be leased, asynchronously responses that its buffer lacks."""
    if t.jobs[job].asynchronous == 1:
        return int(t.jobs[job].needed - t.jobs[job].held)
    return unmet(t, job)


@compiled
def lacking(t: Tables, job: int) -> int:
    """Devices that its request lacks to close; asynchronously places that no lease has."""
    if t.jobs[job].asynchronous == 1:
        return int(t.jobs[job].places - t.jobs[job].placed)
    return int(max(t.jobs[job].needed - t.jobs[job].placed - t.jobs[job].responses, 0))


@compiled
def at_target(t: Tables, job: int) -> bool:
    """Whether only spare places of the job's request are left."""
    target = t.jobs[job].target
    return bool(t.jobs[job].placed + t.jobs[job].responses >= target < t.jobs[job].places)


# -- profiles


@compiled
def _bin_of(t: Tables, seconds: float) -> int:
    """``coordinator.engine.scale.bin_of``."""
    first, after = 0, BINS
    while first < after:
        middle = (first + after) // 2
        if t.edges[middle] < seconds:
            first = middle + 1
        else:
            after = middle
    return min(first, BINS - 1)


@compiled
def profile(t: Tables, job: int, seconds: float, tier: int, chosen: int) -> None:
    """A response of a device of this tier."""
    bin_ = _bin_of(t, seconds)
    if tier >= 0:
        _add(t.profiles[job, 1 + tier], bin_)
    if chosen == 0:
        _add(t.profiles[job, 0], bin_)
        _add(t.profiles[job, -1], bin_)


@compiled
def profile_loss(t: Tables, job: int, seconds: float, chosen: int) -> None:
    """A place of an open request was given back."""
    row = t.profiles.shape[1] - 1
    total = t.profiles[job, row].total
    if chosen == 0 and total >= ENOUGH:
        again_s = quantile(t, job, row, 1 + total * STRIDE % TURN, TURN)
        _add(t.profiles[job, row], _bin_of(t, seconds + again_s))


@compiled
def _add(one: Any, bin_: int) -> None:
    counts = one.counts
    counts[bin_] += 1
    one.total += 1
    if bin_ <= one.at:
        one.upto += 1
    if one.total == FULL:
        total = upto = 0
        for each in range(BINS):
            counts[each] //= 2
            total += counts[each]
            if each <= one.at:
                upto += counts[each]
        one.total, one.upto = total, upto
    wanted = (one.percent * one.total + 99) // 100
    one.at, one.upto = _bin_at(counts, wanted, one.at, one.upto)


@compiled
def tail_s(t: Tables, job: int, tier: int) -> float:
    """Tail of the response time in a tier; that over all where there were few."""
    row = profile_of(t, job, tier)
    return 0.0 if row == NONE else float(t.edges[t.profiles[job, row].at])


@compiled
def profile_of(t: Tables, job: int, tier: int) -> int:
    """Row of its response times in a tier; of those over all (0) for -1, and where there were few; NONE: few there."""
    if tier >= 0 and t.profiles[job, 1 + tier].total >= ENOUGH:
        return 1 + tier
    return 0 if t.profiles[job, 0].total >= ENOUGH else NONE


@compiled
def quantile(t: Tables, job: int, row: int, part: int, whole: int) -> float:
    """``coordinator.engine.profiles.quantile`` of one row of its profiles."""
    one = t.profiles[job, row]
    at, _ = _bin_at(one.counts, (part * one.total + whole - 1) // whole, one.at, one.upto)
    return float(t.edges[at])


# -- tiers


@compiled
def tier_of(t: Tables, reference_s: float, again: bool) -> int:
    """The tier of a device that checks in, which counts unless it did so before in this interval."""
    bin_ = _bin_of(t, reference_s)
    if not again:
        t.scores[bin_] += 1
    if t.run.cuts == 0:
        return NONE
    tier = 0
    while tier < t.run.cuts and t.cuts[tier] < bin_:
        tier += 1
    return tier


@compiled
def is_chosen(tier: int) -> bool:
    """Whether a request of this tier is or was for one tier."""
    return tier >= 0 or tier == LIFTED


@compiled
def decide(t: Tables, job: int, tier: int) -> None:
    """Which tier the job's request is for, from now on; a negative one lifts that."""
    before = t.jobs[job].tier
    if tier >= 0:
        t.jobs[job].tier = tier
        lease = t.jobs[job].head
        while lease != NONE:
            if t.leases[lease].request == t.jobs[job].request:
                t.leases[lease].chosen = 1
            lease = t.leases[lease].next
    elif before >= 0:
        t.jobs[job].tier = LIFTED
    elif before == UNDECIDED:
        t.jobs[job].tier = ANY_TIER


@compiled
def restrict(t: Tables, owner: Integers) -> None:
    """``coordinator.policies.venn.tiers``, for the queues in the tables; ``owner``: contender of each region."""
    run, jobs = t.run, t.jobs
    now, unsupplied = t.run.now, run.unsupplied
    review = np.inf
    for contender in range(run.merged - unsupplied):
        first, after = t.queues[unsupplied + contender], t.queues[unsupplied + contender + 1]
        for place in range(first, after):
            job = t.queued[place]
            tier = t.jobs[job].tier
            if tier == UNDECIDED and place == first:
                tier = _choose(t, job, owner, contender)
                if tier != UNDECIDED:
                    decide(t, job, tier)
            if tier < 0:
                continue
            work, rate = wanted(t, job) * t.run.span_s, _owned(t, t.tier_supply[tier], owner, contender)
            latest = _latest_s(jobs[job].deadline, work, rate, tail_s(t, job, tier))
            if now >= latest:
                decide(t, job, ANY_TIER)
            else:
                review = min(review, latest)
    t.run.review = review


@compiled
def _choose(t: Tables, job: int, owner: Integers, contender: int) -> int:
    rate = _owned(t, t.ground["supply"], owner, contender)
    if rate == 0:
        return UNDECIDED
    everyone = t.profiles[job, 0]
    if everyone.total < ENOUGH or t.jobs[job].asynchronous == 1:
        return ANY_TIER
    bits = mixed(t.run.tier_draw ^ np.uint64(t.jobs[job].request))
    tier = int(np.int64(((bits >> _HALF) * np.uint64(t.run.tiers)) >> _HALF))
    work, slow_s, fast_s = wanted(t, job) * t.run.span_s, t.edges[everyone.at], tail_s(t, job, tier)
    if t.run.paper == 1:
        return tier if _pays_by_paper(t.run.tiers, work, rate, slow_s, fast_s) else ANY_TIER
    rate_u = _owned(t, t.tier_supply[tier], owner, contender)
    return tier if _pays(work, rate, rate_u, slow_s, fast_s) else ANY_TIER


@compiled
def _owned(t: Tables, supply: Integers, owner: Integers, contender: int) -> int:
    """Check-ins of what a contender owns."""
    total = 0
    for region in range(len(owner)):
        if owner[region] == contender:
            total += supply[region]
    return total


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
            tier = _choose_priced(t, job, waiting)
            if tier != UNDECIDED:
                decide(t, job, tier)
        tier, group = t.jobs[job].tier, t.jobs[job].group
        if tier < 0:
            continue
        work, rate = wanted(t, job) * t.run.span_s, t.group_tiers[tier, group]
        latest = _latest_s(t.jobs[job].deadline, work, rate, tail_s(t, job, tier))
        if now >= latest:
            decide(t, job, ANY_TIER)
        else:
            review = min(review, latest)
    t.run.review = review


@compiled
def _choose_priced(t: Tables, job: int, waiting: Integers) -> int:
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
        at, _ = _bin_at(faster, (needed * total + target) // (target + 1), 0, faster[0])
        found = _gain(all_s - t.edges[at], todo, t.run.span_s, rate, rate_u, lost)
        if found > most:
            best, most = tier, found
    return int(best)


# -- targets


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
