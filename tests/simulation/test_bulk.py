"""In bulk everything comes out as it does event by event, to the last bit."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.engine.ids import RegionId, RequestId
from coordinator.engine.lifecycle import InvariantError
from coordinator.engine.model import Asynchronous, Repeat, StragglerRule
from coordinator.engine.plan import ANY_TIER, UNDECIDED, Mode, Plan, Policy, View
from coordinator.engine.profiles import ResponseTimes
from coordinator.policies.registry import load_policy
from testbed.scenario.loader import parse
from testbed.simulate.build import build
from testbed.simulate.compiled.bulk import planner_of, simulate_in_bulk, why_not
from testbed.simulate.compiled.compiled import COMPILES
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Outcome, Progress, SimulatedJob, Simulation
from testbed.simulate.run import at_least_leases, simulate
from testbed.testing.worlds import Session, has, job, needs, world
from testbed.world.arrays import Matching
from testbed.world.limits import Limits
from testbed.world.links import link_schedule
from tests.simulation.test_random_worlds import KINDS, REQUIREMENTS, chooser, random_world

POLICIES = (
    *("fifo", "random", "random-order", "srsf", "srsf-job", "las"),
    *("venn", "venn(tiers=2)", "venn-nomatch", "venn-queue", "venn-nosched", "venn(fairness=2)"),
    *("venn(fairness=0.3)", "venn(fairness=50; tiers=1)", "venn-queue(fairness=1.5; order=request)"),
    *("venn-plus", "venn-plus(scarcity=2; nearness=no; spares=with)", "venn-plus(spares=last)"),
    *("venn-plus(tiers=1)", "venn-plus(collecting=no)"),
    *("random-job", "venn(order=request; tail=95; tiers=paper)", "venn-queue(order=request)"),
    *("random(spares=last)", "random(spares=auto)", "fifo(spares=auto)", "las(spares=last)", "srsf-job(spares=auto)"),
    *("venn(spares=last)", "venn(spares=auto)", "venn(fairness=1; spares=auto)", "venn-nomatch(spares=auto)"),
)


def assert_equal(one: Outcome, other: Outcome) -> None:
    for field in fields(Outcome):
        if field.name not in ("path", "why", "wall_s", "attempts"):
            _assert_same(field.name, getattr(one, field.name), getattr(other, field.name))
    for column in fields(one.attempts):
        _assert_same(column.name, getattr(one.attempts, column.name), getattr(other.attempts, column.name))


def _assert_same(name: str, one: object, other: object) -> None:
    if isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray), name
        assert one.dtype == other.dtype, name
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), name
    else:
        assert one == other, name


def check(made: Simulation, make: Callable[[], Policy]) -> Outcome:
    assert not why_not(made)
    outcome = simulate_in_bulk(made, make())
    assert_equal(simulate_events(made, make()), outcome)
    return outcome


@settings(max_examples=80)
@given(st.integers(0, 2**32), st.sampled_from(POLICIES))
def test_small_worlds(seed: int, policy: str) -> None:
    check(random_world(seed), lambda: load_policy(policy))


def busy_world(seed: int, **more: object) -> Simulation:
    """Long enough for ticks, profiles of responses and tiers; intervals of several sessions, kinds that change."""
    pick = chooser(seed)
    jobs = [busy_job(f"job-{number}", pick) for number in range(2 + pick(3))]
    sessions = []
    for device in range(20):
        kind, slow, at = pick(4), (0.5, 1.0, 4.0)[pick(3)], pick(60) / 4
        for _ in range(25):
            end = at + 2 + pick(60) / 4
            kind = pick(4) if not pick(30) else kind
            sessions.append(Session(at, end, device, kind=kind, slow=slow, crash=not pick(3)))
            at = end + pick(40) / 4
    return world(
        jobs,
        sessions,
        kinds=[has(letters) for letters in KINDS],
        seed=seed,
        blocks=1 + pick(3),
        matching=Matching.AT_CHECK_IN if pick(2) else Matching.WHILE_PRESENT,
        tasks_per_session=pick(3),
        limits=tuple((pick(3), pick(20)) for _ in KINDS) if pick(2) else (),
        noise_sigma=0.3 * pick(2),
        until_s=400.0,
        **more,
    )


def busy_job(name: str, pick: Callable[[int], int]) -> SimulatedJob:
    demand = 1 + pick(4)
    asynchronous = Asynchronous(1 + pick(demand + 1), (None, 0, 1, 4)[pick(4)]) if not pick(3) else None
    return job(
        name,
        demand,
        needs(*REQUIREMENTS[pick(4)]),
        rounds=20 + pick(40),
        known=bool(pick(2)),
        arrives=float(pick(60)),
        min_response=("1/2", "4/5", "1")[pick(3)],
        over_commit=("0", "1/4", "1")[pick(3)] if asynchronous is None else "0",
        deadline=float(20 + pick(40)),
        lease=float(20 + pick(20)),
        stragglers=list(StragglerRule)[pick(2)],
        compute=0.5 + pick(12) / 4,
        asynchronous=asynchronous,
        repeat=Repeat.ONCE if pick(3) else Repeat.ALLOW,
    )


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from(POLICIES))
def test_busy_worlds(seed: int, policy: str) -> None:
    check(busy_world(seed), lambda: load_policy(policy))


class Whimsical:
    """every liberty that a plan can take: modes, owners, several queues, tiers, reviews, targets"""

    name = "whimsical"

    def plan(self, view: View) -> Plan:
        pick = chooser(view.plan_number)
        half = len(view.requests) // 2
        queues = [[one.request for one in view.requests[half:]], [one.request for one in view.requests[:half]], []]
        tiers: dict[RequestId, int] = {}
        for one in view.requests:
            if one.tier == UNDECIDED and not pick(2):
                known = view.jobs[one.job].tails_s and view.tier_supply[0] and one.deadline_at < math.inf
                tiers[one.request] = pick(view.tiers) if known else ANY_TIER
            elif one.tier >= 0 and not pick(3):
                tiers[one.request] = ANY_TIER
        targets = {
            one.request: one.needed + pick(one.places - one.needed + 1)
            for one in view.requests
            if one.deadline_at < math.inf and not pick(3)
        }
        return Plan(
            queues=(*(tuple(queue) for queue in queues), (RequestId(10**6),)),
            owner={RegionId(-1): 0, **{region: pick(3) for region in view.supply}},  # -1: no region has it
            mode=Mode.UNIFORM if not pick(3) else Mode.ORDERED,
            tiers=tiers,
            or_faster=view.plan_number % 2 == 1,
            targets=targets,
            review_at=view.now + 0.25 + pick(20) if pick(2) else None,
        )


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_a_policy_that_is_asked_for_each_plan(seed: int) -> None:
    check(busy_world(seed), Whimsical)


_NONE = ResponseTimes()


def _counts(known: ResponseTimes, tier: int) -> list[tuple[int, ...]]:
    """Of a tier, and of places."""
    return [() if one is None else tuple(one.counts) for one in (known.of_tier(tier), known.until_response(tier))]


class Noting:
    """keeps what it is shown"""

    name = "noting"

    def __init__(self) -> None:
        self.seen: list[object] = []

    def plan(self, view: View) -> Plan:
        known = view.jobs
        times = {job: [_counts(known[job].responses, tier) for tier in range(-1, view.tiers)] for job in known}
        jobs = {job: known[job]._replace(responses=_NONE) for job in known}
        tiers = [dict(supply) for supply in view.tier_supply]
        self.seen.append((replace(view, jobs=jobs, tier_supply=tiers), len(known), times))
        return Plan(queues=(tuple(request.request for request in view.requests),))


@settings(max_examples=8)
@given(st.integers(0, 2**32))
def test_a_policy_sees_the_same(seed: int) -> None:
    made, bulk, events = busy_world(seed), Noting(), Noting()
    simulate_in_bulk(made, bulk)
    simulate_events(made, events)
    assert bulk.seen == events.seen


def test_a_false_tier_ends_the_run() -> None:
    class Wrong(Whimsical):
        def plan(self, view: View) -> Plan:
            return Plan(tiers={request.request: 99 for request in view.requests})

    with pytest.raises(InvariantError, match="tier 99"):
        simulate_in_bulk(busy_world(1), Wrong())


def test_more_devices_than_there_was_room_for() -> None:
    sessions = [Session(number / 100, 1e3 + number, number) for number in range(3000)]
    made = world([job("a", 2500, arrives=20.0, compute=5.0, rounds=3)], sessions)
    assert check(made, lambda: load_policy("fifo")).path == "bulk"


def test_an_offer_that_ends_before_it_is_accepted_is_no_task() -> None:
    """The last flush of a job without a known number of rounds leases its place again, and the job ends."""
    flying = job("a", 1, rounds=1, known=False, compute=1.0, asynchronous=Asynchronous(1))
    there = [Session(0.0, 100.0, device) for device in range(2)]
    made = world([flying, job("b", 1, arrives=5.0, compute=1.0)], there, tasks_per_session=1)
    assert check(made, lambda: load_policy("fifo")).ended_s.tolist() == [1.0, 6.0]


@pytest.mark.parametrize("name", POLICIES)
def test_no_plan_of_a_policy_with_a_compiled_twin_is_made_in_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load_policy(name)
    if name == "venn-nosched":  # has none
        return
    asked: list[View] = []
    monkeypatch.setattr(type(policy), "plan", lambda _, view: asked.append(view))
    assert simulate_in_bulk(random_world(3), policy).plans > 3
    assert not asked


def test_a_derived_policy_is_asked_itself() -> None:
    class Mine(type(load_policy("fifo"))):  # type: ignore[misc]  # whatever the registry gives
        """another order under an inherited name"""

    assert planner_of(load_policy("fifo")) >= 0
    assert planner_of(Mine()) < 0


NAMED = """
version: 1
name: named
backend: sim
fleets:
  a: {count: 12, cpu: 2, session: exp(30s), gap: exp(9s)}
  b: {count: 9, cpu: 1..4, session: exp(20s), gap: exp(9s)}
jobs:
  some: {demand: 3, rounds: 6, deadline: 60s, requirement: id in (a-01; a-03; a-07; b-02), workload: {compute: 9s}}
  others: {demand: 4, rounds: 6, deadline: 60s, requirement: not id in (a-01; a-02), workload: {compute: 9s}}
  fast: {demand: 3, rounds: 6, deadline: 60s, arrives: 9s, requirement: cpu >= 2, workload: {compute: 9s}}
"""


@pytest.mark.parametrize("policy", ["fifo", "venn", "venn-plus", "venn-nosched"])
def test_requirements_that_name_devices(policy: str) -> None:
    made = build(parse(NAMED))
    assert (made.names[0], made.kinds[0].numbers, len(made.kinds)) == ("a-01", {"cpu": 2.0}, 4 + 9)
    assert why_not(made) == ""
    assert check(made, lambda: load_policy(policy)).attempts.closed.any()


def test_what_is_not_in_bulk() -> None:
    many = random_world(1)
    few = replace(many, settings=replace(many.settings, most_regions=1), jobs=(job("a", 1, needs("a")),))
    assert why_not(few) == "there are 2 classes of devices; at most 1"
    linked = replace(many, links=(link_schedule(Limits(up_bits=8000.0), ()),) * 99)
    assert why_not(linked) == "links are modelled"
    assert simulate(linked, load_policy("fifo")).path == "events"


def test_the_fastest_path_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.simulate.compiled.compiled.is_compiled", lambda function: True)
    made = random_world(3)
    outcome = simulate(made, load_policy("fifo"))
    assert (outcome.path, outcome.why) == (("bulk", "") if COMPILES else ("events", "Numba is not installed"))
    watched = simulate(made, load_policy("fifo"), validate=True)
    assert (watched.path, watched.why) == ("events", "every event is asked for")


@pytest.mark.skipif(not COMPILES, reason="Numba is not installed, or switched off")
def test_a_small_simulation_does_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.simulate.compiled.compiled.is_compiled", lambda function: False)
    monkeypatch.setattr("testbed.simulate.events.loop._LOOK_UP_EVERY", 1)
    made = random_world(3)
    compiled: list[bool] = []

    def played() -> Outcome:
        return simulate(made, load_policy("fifo"), compiling=lambda: compiled.append(True))

    small = played()
    assert (small.path, small.why, compiled) == ("events", "it is small, and the loop is not compiled yet", [])
    for few in (1, at_least_leases(made)):  # seen before it starts; only when more have checked in
        monkeypatch.setattr("testbed.simulate.run.FEW_CHECK_INS", few)
        compiled.clear()
        large = played()
        assert (large.path, large.why, compiled) == ("bulk", "", [True])
        assert large.digest == small.digest


def test_a_watch_stops_it() -> None:
    seen: list[Progress] = []

    def watch(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) < 3

    outcome = simulate_in_bulk(busy_world(1), load_policy("fifo"), watch=watch)
    assert len(seen) == 3
    assert outcome.now_s == seen[-1].now_s


def test_compiled_code_is_a_matter_of_speed() -> None:
    """Where nothing is compiled the same code runs as it stands."""
    script = """
from coordinator.policies.registry import load_policy
from tests.simulation.test_bulk import COMPILES, check, random_world
assert not COMPILES
for seed, policy in enumerate(("venn", "random", "las", "venn-plus")):
    check(random_world(seed), lambda: load_policy(policy))
"""
    command = [sys.executable, "-W", "error", "-c", script]
    subprocess.run(command, check=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"})
