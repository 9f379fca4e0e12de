"""Tiers of devices and profiles of responses, as ``coordinator.engine.tiers`` and ``profiles``, on arrays."""

import numpy as np

from coordinator.engine import profiles
from coordinator.engine.plan import ANY_TIER, LIFTED, UNDECIDED
from coordinator.engine.profiles import ENOUGH, FULL, STRIDE, TURN
from coordinator.engine.scale import BINS
from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.layout import (
    CUTS,
    J_ASYNCHRONOUS,
    J_HEAD,
    J_HELD,
    J_NEEDED,
    J_PLACED,
    J_PLACES,
    J_REQUEST,
    J_RESPONSES,
    J_TIER,
    JR_DEADLINE,
    L_CHOSEN,
    L_NEXT,
    L_REQUEST,
    MERGED,
    NONE,
    NOW,
    P_AT,
    P_COUNTS,
    P_PERCENT,
    P_TOTAL,
    P_UPTO,
    PAPER,
    REVIEW,
    SPAN_S,
    TIER_DRAW,
    TIERS,
    UNSUPPLIED,
)
from testbed.simulate.compiled.tables import Integers, Tables

bin_at = compiled(profiles.bin_at)
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
    if t.numbers[CUTS] == 0:
        return NONE
    tier = 0
    while tier < t.numbers[CUTS] and t.cuts[tier] < bin_:
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
    total = t.profiles[job, row, P_TOTAL]
    if chosen == 0 and total >= ENOUGH:
        again_s = quantile(t, job, row, 1 + total * STRIDE % TURN, TURN)
        _add(t.profiles[job, row], _bin_of(t, seconds + again_s))


@compiled
def _add(one: Integers, bin_: int) -> None:
    counts = one[P_COUNTS:]
    counts[bin_] += 1
    one[P_TOTAL] += 1
    if bin_ <= one[P_AT]:
        one[P_UPTO] += 1
    if one[P_TOTAL] == FULL:
        total = upto = 0
        for each in range(BINS):
            counts[each] //= 2
            total += counts[each]
            if each <= one[P_AT]:
                upto += counts[each]
        one[P_TOTAL], one[P_UPTO] = total, upto
    wanted = (one[P_PERCENT] * one[P_TOTAL] + 99) // 100
    one[P_AT], one[P_UPTO] = bin_at(counts, wanted, one[P_AT], one[P_UPTO])


@compiled
def decide(t: Tables, job: int, tier: int) -> None:
    """Which tier the job's request is for, from now on; a negative one lifts that."""
    before = t.jobs[job, J_TIER]
    if tier >= 0:
        t.jobs[job, J_TIER] = tier
        lease = t.jobs[job, J_HEAD]
        while lease != NONE:
            if t.leases[lease, L_REQUEST] == t.jobs[job, J_REQUEST]:
                t.leases[lease, L_CHOSEN] = 1
            lease = t.leases[lease, L_NEXT]
    elif before >= 0:
        t.jobs[job, J_TIER] = LIFTED
    elif before == UNDECIDED:
        t.jobs[job, J_TIER] = ANY_TIER


@compiled
def restrict(t: Tables, owner: Integers) -> None:
    """``coordinator.policies.venn.tiers``, for the queues in the tables; ``owner``: contender of each region."""
    numbers, reals = t.numbers, t.job_reals
    now, unsupplied = t.reals[NOW], numbers[UNSUPPLIED]
    review = np.inf
    for contender in range(numbers[MERGED] - unsupplied):
        first, after = t.queues[unsupplied + contender], t.queues[unsupplied + contender + 1]
        for place in range(first, after):
            job = t.queued[place]
            tier = t.jobs[job, J_TIER]
            if tier == UNDECIDED and place == first:
                tier = _choice(t, job, owner, contender)
                if tier != UNDECIDED:
                    decide(t, job, tier)
            if tier < 0:
                continue
            rate = _owned(t, t.tier_supply[tier], owner, contender)
            latest = -np.inf
            if rate > 0:
                needs_s = wanted(t, job) * t.reals[SPAN_S] / rate + tail_s(t, job, tier)
                latest = reals[job, JR_DEADLINE] - needs_s
            if now >= latest:
                decide(t, job, ANY_TIER)
            else:
                review = min(review, latest)
    t.reals[REVIEW] = review


@compiled
def _choice(t: Tables, job: int, owner: Integers, contender: int) -> int:
    rate = _owned(t, t.ground[:, 0], owner, contender)
    if rate == 0:
        return UNDECIDED
    everyone = t.profiles[job, 0]
    if everyone[P_TOTAL] < ENOUGH or t.jobs[job, J_ASYNCHRONOUS] == 1:
        return ANY_TIER
    bits = mixed(t.bits[TIER_DRAW] ^ np.uint64(t.jobs[job, J_REQUEST]))
    tier = int(np.int64(((bits >> _HALF) * np.uint64(t.numbers[TIERS])) >> _HALF))
    work, slow_s, fast_s = wanted(t, job) * t.reals[SPAN_S], t.edges[everyone[P_AT]], tail_s(t, job, tier)
    if t.numbers[PAPER] == 1:
        collecting = slow_s * rate / work
        return tier if t.numbers[TIERS] + fast_s / slow_s * collecting < 1.0 + collecting else ANY_TIER
    rate_u = _owned(t, t.tier_supply[tier], owner, contender)
    return tier if rate_u > 0 and work / rate_u - work / rate < slow_s - fast_s else ANY_TIER


@compiled
def tail_s(t: Tables, job: int, tier: int) -> float:
    """Tail of the response time in a tier; that over all where there were few."""
    row = profile_of(t, job, tier)
    return 0.0 if row == NONE else float(t.edges[t.profiles[job, row, P_AT]])


@compiled
def profile_of(t: Tables, job: int, tier: int) -> int:
    """Row of its response times in a tier; of those over all (0) for -1, and where there were few; NONE: few there."""
    if tier >= 0 and t.profiles[job, 1 + tier, P_TOTAL] >= ENOUGH:
        return 1 + tier
    return 0 if t.profiles[job, 0, P_TOTAL] >= ENOUGH else NONE


@compiled
def quantile(t: Tables, job: int, row: int, part: int, whole: int) -> float:
    """``coordinator.engine.profiles.quantile`` of one row of its profiles."""
    one = t.profiles[job, row]
    at, _ = bin_at(one[P_COUNTS:], (part * one[P_TOTAL] + whole - 1) // whole, one[P_AT], one[P_UPTO])
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
    return int(t.jobs[job, J_PLACES] - t.jobs[job, J_PLACED] - t.jobs[job, J_RESPONSES])


@compiled
def wanted(t: Tables, job: int) -> int:
    """What is left of its round in plans: places to be leased, asynchronously responses that its buffer lacks."""
    if t.jobs[job, J_ASYNCHRONOUS] == 1:
        return int(t.jobs[job, J_NEEDED] - t.jobs[job, J_HELD])
    return unmet(t, job)
