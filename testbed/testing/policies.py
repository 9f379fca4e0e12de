"""The rules that every policy keeps, checked: ``check_policy(RareFirst)`` in a test of a policy.

A policy is shown views that it may meet, drawn at random but the same each time, and schedules a few jobs on an engine
that checks all of its invariants after each event. Then it does so again in two other processes, which seed their
hashes differently.
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId
from coordinator.engine.lifecycle import InvariantError, PlanError
from coordinator.engine.plan import (
    ANY_TIER,
    UNDECIDED,
    Collecting,
    CollectingView,
    GroupView,
    JobView,
    Plan,
    Policy,
    Requests,
    RequestView,
    View,
    flaw,
)
from coordinator.engine.scale import BINS
from coordinator.policies.registry import load_policy
from testbed.testing.arena import response_times
from testbed.testing.engine import random_script

Make = Callable[[], Policy]
VIEWS = 30
STEPS = 120  # of the script that is played on an engine
HASH_SEEDS = ("0", "4711")
MOST_REGIONS, MOST_REQUESTS, TIERS = 8, 9, 3


class BrokenRule(AssertionError):
    """A rule of docs/testing-a-policy.md that a policy breaks. The text names the policy, the rule and the view."""


def check_policy(*policies: str | Make) -> None:
    """Check that policies keep the rules of docs/testing-a-policy.md. It takes a second or two.

    ``policies``: a class, or a function that makes a policy; or a name as after ``venn run --policy``. Classes and
    functions must be at the top of a module, so that other processes can import them.

    Raises BrokenRule for the first rule that one breaks, whatever the policy itself raises, PolicyError for a name that
    is not known, and TypeError for a class that other processes cannot import.
    """
    makes = [partial(load_policy, policy) if isinstance(policy, str) else policy for policy in policies]
    views = _views()
    for make in makes:
        _check_views(make, views)
        try:
            random_script(1, make(), steps=STEPS)
        except (InvariantError, PlanError) as error:
            raise BrokenRule(f"{make().name}: {error}") from error
    _check_hash_seeds(makes)


def check_plan(policy: Policy, view: View, fresh: Policy | None = None) -> Plan:
    """Make the plan of a view, and check it. Returns the plan.

    ``fresh``: the same policy, which has seen no view yet; it must make the same plan. Raises BrokenRule.
    """
    seen = _mutable(view)
    plan = policy.plan(view)

    def need(holds: bool, rule: str) -> None:
        if not holds:
            raise BrokenRule(f"{policy.name}: {rule}, with {view}")

    need(_mutable(view) == seen, "it changes the view")
    problem = flaw(plan, view, Plan())
    need(not problem, problem)
    requests = {request.request: request for request in view.requests}
    for id_, target in plan.targets.items():
        one = requests.get(id_)
        need(one is not None and one.needed <= target <= one.places, f"request {id_} has a target of {target} places")
    for id_, tier in plan.tiers.items():
        one = requests.get(id_)
        may = one is not None and (tier == ANY_TIER or (one.tier == UNDECIDED and 0 <= tier < view.tiers))
        need(may, f"request {id_} is not to be restricted to tier {tier}")
    reasons = list(plan.why())
    need(len(reasons) == len(plan.reasons), "it gives two reasons for one job")
    need(plan.reasons.keys() <= {one.job for one in view.requests}, "it gives a reason for a job that asks for nothing")
    queued = {id_ for queue in plan.queues for id_ in queue}
    left = [one.job for one in view.requests if one.request not in queued and one.job not in plan.reasons]
    need(not left, f"the requests of {left} are in no queue, and no reason says why")
    said = _text(plan)
    need(_text(policy.plan(view)) == said, "it makes two plans of one view")
    need(fresh is None or _text(fresh.plan(view)) == said, "its plan depends on what it saw before")
    return plan


def random_view(rng: Random) -> View:
    """A view that a policy may meet: up to 9 requests of up to 6 groups on up to 8 regions, one job each."""
    now, tiers = float(rng.randint(0, 50)), rng.choice((1, TIERS))
    regions = [RegionId(number) for number in range(MOST_REGIONS)]
    names = sorted(rng.sample("abcdef", rng.randint(0, 6)))
    groups = tuple(
        GroupView(GroupId(name), tuple(sorted(rng.sample(regions, rng.randint(0, MOST_REGIONS))))) for name in names
    )
    number = rng.randint(0, MOST_REQUESTS) if groups else 0
    requests = [_random_request(rng, RequestId(each), rng.choice(groups).group, now) for each in range(number)]
    requests.sort(key=lambda request: (request.arrival, request.job, request.request))
    tier_supply = [{each: rng.choice((0, rng.randint(1, 9))) for each in regions} for _ in range(tiers)]
    supply = {each: sum(one[each] for one in tier_supply) for each in regions}
    collecting = tuple(
        CollectingView(JobId(f"z-{each}"), 3.0, rng.choice(groups).group, 4, rng.choice((None, 2)))
        for each in range(rng.randint(0, 2) if groups else 0)
    )
    return View(
        now=now,
        seed=rng.randint(0, 3),
        plan_number=rng.randint(1, 9),
        groups=groups,
        requests=Requests.of(requests, groups),
        supply={each: count for each, count in supply.items() if count},
        supply_span_s=60.0,
        jobs={one.job: _random_job(rng, one, tiers) for one in requests},
        tiers=tiers,
        tier_supply=tier_supply,
        collecting=Collecting.of(collecting, groups),
        attained={one.job: float(rng.randint(0, 3)) for one in requests},
    )


def _random_request(rng: Random, request: RequestId, group: GroupId, now: float) -> RequestView:
    remaining = rng.randint(1, 20)
    places = rng.randint(remaining, 30)
    needed = rng.randint(1, places)
    return RequestView(
        request=request,
        job=JobId(f"job-{request}"),
        arrival=float(rng.randint(0, 2)),
        group=group,
        remaining=remaining,
        remaining_all_rounds=rng.choice((None, rng.randint(remaining, 90))),
        places=places,
        needed=needed,
        lacking=max(needed - places + remaining, 0),
        opened_at=now,
        deadline_at=now + rng.randint(1, 100),
    )


def _random_job(rng: Random, request: RequestView, tiers: int) -> JobView:
    """A job of which few response times are known, or none."""
    everyone, *some, lost = ([0] * BINS for _ in range(tiers + 2))
    for row in (everyone, *some, lost):
        for _ in range(rng.randint(0, 4)):
            row[rng.randrange(BINS)] = rng.randint(1, 40)
    places = [one + other for one, other in zip(everyone, lost, strict=True)]
    times = response_times(everyone, *some, places)
    return JobView(request.arrival, request.group, request.places, 1, (), times)


def _mutable(view: View) -> object:
    """A copy of what a policy could change."""
    return dict(view.supply), dict(view.jobs), dict(view.attained), [dict(supply) for supply in view.tier_supply]


def _text(plan: Plan) -> str:
    """All that a plan says."""
    parts = [sorted(part.items()) for part in (plan.owner, plan.tiers, plan.targets, dict(plan.why()))]
    return repr((plan.queues, plan.mode, plan.or_faster, plan.review_at, parts))


def _views() -> list[View]:
    return [random_view(Random(number)) for number in range(VIEWS)]


def _check_views(make: Make, views: Sequence[View]) -> None:
    policy, before, said = make(), Plan(), _text(Plan())
    for view in views:
        plan = check_plan(policy, view, make())
        if _text(before) != said:
            raise BrokenRule(f"{policy.name}: it changes a plan that it has returned, with {view}")
        before, said = plan, _text(plan)


def _check_hash_seeds(makes: Sequence[Make]) -> None:
    try:
        given = pickle.dumps(list(makes))
    except (pickle.PicklingError, AttributeError) as error:
        raise TypeError(f"{error}: put the policy at the top of a module that can be imported") from error
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    running = [
        subprocess.Popen(
            [sys.executable, "-m", __name__],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for seed in HASH_SEEDS
    ]
    first, second = ([json.loads(line) for line in one.communicate(given)[0].splitlines()] for one in running)
    if any(one.returncode for one in running):
        raise TypeError("a process that imports the policy failed: it says why on its standard error")
    for (name, one), (_, other) in zip(first, second, strict=True):
        if one != other:
            raise BrokenRule(f"{name}: its plan depends on the hash seed of the process: {one}, or {other}")


def _decisions(makes: Sequence[Make]) -> Iterator[tuple[str, str]]:
    """The name of each policy, and all that it decides."""
    views = _views()
    for make in makes:
        policy = make()
        for view in views:
            yield policy.name, _text(policy.plan(view))
        for _, event, effects in random_script(1, make(), steps=STEPS).journal:
            yield policy.name, f"{event}: {effects}"


if __name__ == "__main__":
    for decision in _decisions(pickle.load(sys.stdin.buffer)):
        sys.stdout.write(json.dumps(decision) + "\n")
