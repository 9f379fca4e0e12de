"""Whatever the view, every policy's plan is sound; and the allocation is the published one, line by line."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from coordinator.engine.ids import RegionId
from coordinator.engine.plan import View
from coordinator.policies.registry import load_policy, policy_names
from testbed.testing.policies import check_plan, check_policy, random_view
from tests.unit.policies.test_irs import Contender, allocate, contender

BUILT_IN = (
    "random",
    "random-order",
    "random-job",
    "fifo",
    "srsf",
    "srsf-job",
    "las",
    "venn",
    "venn-queue",
    "venn-nomatch",
    "venn-nosched",
    "venn-plus",
    "venn(order=request; tail=95; tiers=paper)",
    "random(spares=last)",
    "fifo(spares=auto)",
    "venn(spares=auto)",
    "venn-plus(spares=last; tiers=1)",
)
POLICIES = {name: load_policy(name) for name in BUILT_IN}  # as a coordinator has them: one for many views
VIEWS = st.integers(0, 2**32).map(lambda seed: random_view(Random(seed)))


@given(view=VIEWS, name=st.sampled_from(BUILT_IN))
def test_every_plan_is_sound(view: View, name: str) -> None:
    plan = check_plan(POLICIES[name], view, load_policy(name))
    queued = [request for queue in plan.queues for request in queue]
    assert sorted(queued) == sorted(request.request for request in view.requests)
    group_of = {request.request: request.group for request in view.requests}
    regions = {group.group: group.regions for group in view.groups}
    for region, owner in plan.owner.items():
        assert view.supply[region] > 0
        assert all(region in regions[group_of[request]] for request in plan.queues[owner])


def test_every_policy_keeps_the_rules() -> None:
    check_policy(*policy_names())


@st.composite
def contentions(draw: st.DrawFn) -> tuple[list[Contender], dict[RegionId, int]]:
    supply = {RegionId(index): draw(st.integers(1, 9)) for index in range(draw(st.integers(1, 7)))}
    sets = draw(st.lists(st.frozensets(st.sampled_from(sorted(supply)), min_size=1), unique=True, max_size=6))
    demands = st.lists(st.integers(1, 12), max_size=5).map(tuple)
    sets.sort(key=lambda regions: (sum(supply[region] for region in regions), sorted(regions)))
    return [contender(sorted(regions), *draw(demands)) for regions in sets], supply


@given(contentions(), st.booleans())
def test_the_allocation_is_the_published_one(
    contention: tuple[list[Contender], dict[RegionId, int]], whole_queues: bool
) -> None:
    contenders, supply = contention
    owners = allocate(contenders, supply, whole_queues=whole_queues)
    assert owners == by_the_lines(contenders, supply, whole_queues)
    assert all(region in contenders[owner][0] for region, owner in owners.items())


def by_the_lines(
    contenders: Sequence[Contender], supply: Mapping[RegionId, int], whole_queues: bool
) -> dict[RegionId, int]:
    """Lines 1 to 9, as literally as they can be written: one supply per request, sets of regions, fractions."""

    def rate(regions: set[RegionId]) -> int:
        return sum(supply[region] for region in regions)

    S = [set(regions) for regions, _ in contenders]
    own = [len(demands) for _, demands in contenders]
    Q = [list(demands) for _, demands in contenders]
    A: list[set[RegionId]] = []
    for regions in S:
        A.append(regions - set().union(*A))
    R = [[rate(regions)] * count for regions, count in zip(A, own, strict=True)]

    def affected(j: int, m: int, limit: Fraction) -> int:
        if whole_queues or (all(R[j]) and sum(Fraction(d, r) for d, r in zip(Q[j], R[j], strict=True)) <= limit):
            return len(Q[j])
        done, count = Fraction(0), 0
        for demand, supplied in zip(Q[j], R[j], strict=True):
            done += Fraction(demand, supplied or m)
            if done > limit:
                break
            count += 1
        return count

    for j in reversed(range(len(S))):
        if not Q[j]:
            continue
        for k in reversed(range(j)):
            meet = A[k] & S[j]
            if not meet:
                continue
            m = rate(meet)
            if own[k]:
                held_up = affected(j, m, sum((Fraction(d, r) for d, r in zip(Q[k], R[k], strict=True)), Fraction(0)))
                take = held_up > own[k] if rate(A[j]) == 0 else held_up * rate(A[k]) > own[k] * rate(A[j])
                if not take:
                    break
            A[j] |= meet
            A[k] -= meet
            R[j] = [supplied + m for supplied in R[j]] + list(R[k])
            Q[j] += Q[k]
            R[k] = [supplied - m for supplied in R[k]]
    return {region: j for j, regions in enumerate(A) for region in regions}
