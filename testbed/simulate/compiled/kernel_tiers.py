"""Tiers of devices and profiles of responses, as ``coordinator.engine.tiers`` and ``profiles``, on arrays."""

from typing import Any

import numpy as np

from coordinator.engine import profiles
from coordinator.engine.plan import ANY_TIER, LIFTED, UNDECIDED
from coordinator.engine.profiles import ENOUGH, FULL, STRIDE, TURN
from coordinator.engine.scale import BINS
from coordinator.policies.venn import tiers
from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Integers, Tables

bin_at, latest_s = compiled(profiles.bin_at), compiled(tiers.latest_s)
_pays, _pays_by_paper = compiled(tiers.pays), compiled(tiers.pays_by_paper)
_HALF = np.uint64(32)


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
def tier_of(t: Tables, reference_s: float, again: bool) -> int:
    """Of a device that checks in, which counts unless it did so before in this interval."""
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
    one.at, one.upto = bin_at(counts, wanted, one.at, one.upto)


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
                tier = _choice(t, job, owner, contender)
                if tier != UNDECIDED:
                    decide(t, job, tier)
            if tier < 0:
                continue
            work, rate = wanted(t, job) * t.run.span_s, _owned(t, t.tier_supply[tier], owner, contender)
            latest = latest_s(jobs[job].deadline, work, rate, tail_s(t, job, tier))
            if now >= latest:
                decide(t, job, ANY_TIER)
            else:
                review = min(review, latest)
    t.run.review = review


@compiled
def _choice(t: Tables, job: int, owner: Integers, contender: int) -> int:
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
    at, _ = bin_at(one.counts, (part * one.total + whole - 1) // whole, one.at, one.upto)
    return float(t.edges[at])


@compiled
def _owned(t: Tables, supply: Integers, owner: Integers, contender: int) -> int:
    """Check-ins of what a contender owns."""
    total = 0
    for region in range(len(owner)):
        if owner[region] == contender:
            total += supply[region]
    return total


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
