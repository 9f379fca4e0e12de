"""Whatever the view, every policy's plan is sound; and the allocation is the published one, line by line."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId
from coordinator.engine.plan import CollectingView, GroupView, JobView, RequestView, View
from coordinator.engine.scale import BINS
from coordinator.policies.registry import load_policy
from testbed.testing.arena import response_times
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
REGIONS = st.integers(0, 7).map(RegionId)
RESPONSES = st.dictionaries(st.integers(0, BINS - 1), st.integers(1, 40), max_size=9).map(
    lambda found: response_times([found.get(bin_, 0) for bin_ in range(BINS)])
)


@st.composite
def views(draw: st.DrawFn) -> View:
    names = draw(st.lists(st.sampled_from("abcdefg"), unique=True, max_size=6))
    groups = tuple(GroupView(GroupId(name), tuple(sorted(draw(st.sets(REGIONS))))) for name in sorted(names))
    requests: list[RequestView] = []
    for number in range(draw(st.integers(0, 9)) if groups else 0):
        remaining = draw(st.integers(1, 20))
        requests.append(
            RequestView(
                request=RequestId(number),
                job=JobId(f"job-{number}"),
                arrival=float(draw(st.integers(0, 2))),
                group=draw(st.sampled_from(groups)).group,
                remaining=remaining,
                remaining_all_rounds=draw(st.none() | st.integers(remaining, 90)),
                places=(places := draw(st.integers(remaining, 30))),
                needed=(needed := draw(st.integers(1, places))),
                lacking=max(needed - places + remaining, 0),
            )
        )
    requests.sort(key=lambda request: (request.arrival, request.job, request.request))
    supply = draw(st.dictionaries(REGIONS, st.integers(1, 9)))
    jobs = {one.job: JobView(one.arrival, one.group, one.places, 1, (), draw(RESPONSES)) for one in requests}
    collecting = tuple(
        CollectingView(JobId(f"z-{number}"), 3.0, draw(st.sampled_from(groups)).group, 4, draw(st.none() | st.just(2)))
        for number in range(draw(st.integers(0, 2)) if groups else 0)
    )
    seed = draw(st.integers(0, 3))
    attained = {one.job: float(draw(st.integers(0, 3))) for one in requests}
    return View(0.0, seed, 1, groups, tuple(requests), supply, 60.0, jobs, collecting=collecting, attained=attained)


@given(view=views(), name=st.sampled_from(BUILT_IN))
def test_every_plan_is_sound(view: View, name: str) -> None:
    plan = POLICIES[name].plan(view)
    queued = [request for queue in plan.queues for request in queue]
    assert sorted(queued) == sorted(request.request for request in view.requests)
    assert all(0 <= owner < len(plan.queues) for owner in plan.owner.values())
    bounds = {request.request: (request.needed, request.places) for request in view.requests}
    assert all(bounds[request][0] <= target <= bounds[request][1] for request, target in plan.targets.items())
    group_of = {request.request: request.group for request in view.requests}
    regions = {group.group: group.regions for group in view.groups}
    for region, owner in plan.owner.items():
        assert view.supply[region] > 0
        assert all(region in regions[group_of[request]] for request in plan.queues[owner])
    assert plan.reasons.keys() <= {request.job for request in view.requests}
    assert len(plan.reasons) == len(list(plan.why()))


@given(view=views(), name=st.sampled_from(BUILT_IN))
def test_a_plan_is_a_function_of_the_view(view: View, name: str) -> None:
    """Whatever its policy has seen before."""
    assert POLICIES[name].plan(view) == load_policy(name).plan(view)


def test_a_plan_does_not_depend_on_the_hash_seed() -> None:
    script = (
        "from coordinator.policies.registry import load_policy\n"
        "from testbed.testing.arena import CASES, view\n"
        f"for name in {BUILT_IN}:\n"
        "    for world in CASES.values():\n"
        "        plan = load_policy(name).plan(view(world, world.demands))\n"
        "        print(plan, plan.reasons)\n"
    )

    def printed(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert printed("0") == printed("4711") != ""


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
