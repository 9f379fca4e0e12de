"""Random small worlds: the invariants hold after every event, sums add up, and nobody gets what is not for it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.engine.chance import Purpose, draw
from coordinator.engine.effects import Effect, EndLease, OfferLease
from coordinator.engine.events import Event
from coordinator.engine.model import Asynchronous, Repeat, StragglerRule
from coordinator.policies.registry import load_policy
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import SimulatedJob, Simulation
from testbed.testing.worlds import Session, has, job, needs, world
from testbed.world.arrays import Matching
from testbed.world.limits import Limits
from testbed.world.links import LinkSchedule, link_schedule

KINDS = ("", "a", "b", "ab")
REQUIREMENTS = ("", "a", "b", "ab")
POLICIES = (
    "fifo",
    "random",
    "random-order",
    "random-job",
    "srsf",
    "srsf-job",
    "las",
    "venn",
    "venn-nosched",
    "venn-queue",
    "venn-plus",
    "venn(fairness=2)",
    "venn(order=request; tail=95; tiers=paper)",
    "venn(spares=auto)",
    "random(spares=last)",
)


def chooser(seed: int) -> Callable[[int], int]:
    """Whole numbers below a bound, drawn one after the other."""
    state = iter(range(1_000_000))
    return lambda below: draw(seed, Purpose.MATCH, next(state)) % below


def random_world(seed: int) -> Simulation:
    """In whole seconds, so that ties are the rule."""
    pick = chooser(seed)
    jobs = [random_job(f"job-{number}", pick) for number in range(1 + pick(4))]
    sessions = [one for device in range(3 + pick(12)) for one in random_sessions(device, pick)]
    return world(
        jobs,
        sessions,
        kinds=[has(letters) for letters in KINDS],
        seed=seed,
        matching=Matching.AT_CHECK_IN if pick(2) else Matching.WHILE_PRESENT,
        tasks_per_session=pick(3),
        tasks_per_day=pick(3) * 2,
        noise_sigma=0.3 * pick(2),
        until_s=150.0 + 200.0 * pick(2),
    )


def random_job(name: str, pick: Callable[[int], int]) -> SimulatedJob:
    demand = 1 + pick(5)
    asynchronous = Asynchronous(1 + pick(demand), (None, 0, 2)[pick(3)]) if not pick(3) else None
    return job(
        name,
        demand,
        needs(*REQUIREMENTS[pick(4)]),
        rounds=1 + pick(4),
        known=bool(pick(2)),
        arrives=float(pick(20)),
        min_response=("1/2", "4/5", "1")[pick(3)],
        over_commit=("0", "1/4", "1")[pick(3)] if asynchronous is None else "0",
        deadline=float(5 + pick(20)),
        lease=float(3 + pick(20)),
        stragglers=list(StragglerRule)[pick(2)],
        compute=float(pick(6)),
        asynchronous=asynchronous,
        repeat=Repeat.ONCE if pick(3) else Repeat.ALLOW,
    )


def random_sessions(device: int, pick: Callable[[int], int]) -> list[Session]:
    kind, slow, at, found = pick(4), float(1 + pick(3)), float(pick(15)), []
    for _ in range(1 + pick(8)):
        end = at + 1 + pick(20)
        found.append(Session(at, end, device, kind=kind, slow=slow, crash=not pick(3)))
        at = end + pick(10)
    return found


def random_links(made: Simulation, seed: int) -> Simulation:
    """The same world, with limited links for two in three devices, that change for half of these."""
    pick = chooser(seed + 1)

    def limits() -> Limits:
        return Limits(up_bits=(None, 8000.0)[pick(2)], delay_s=float(pick(4)), jitter_s=0.0, loss=0.1 * pick(2))

    def link() -> LinkSchedule:
        return link_schedule(limits(), [(float(pick(30)), float(30 + pick(30)), limits())] if pick(2) else ())

    devices = 1 + max(int(block.device.max()) for block in made.trace())
    return replace(made, links=tuple(link() if pick(3) else None for _ in range(devices)))


@settings(max_examples=90)
@given(st.integers(0, 2**32), st.sampled_from(POLICIES), st.booleans())
def test_invariants_and_sums(seed: int, policy: str, linked: bool) -> None:
    made = random_links(random_world(seed), seed) if linked else random_world(seed)
    leased: dict[str, float] = dict.fromkeys((one.spec.job for one in made.jobs), 0.0)
    counts: Counter[str] = Counter()
    specs = {one.spec.job: one.spec for one in made.jobs}
    kind_of = {
        str(number): made.kinds[kind]
        for block in made.trace()
        for number, kind in zip(block.device, block.kind, strict=True)
    }

    def journal(now: float, event: Event, effects: list[Effect]) -> None:
        for one in effects:
            if isinstance(one, OfferLease):
                assert specs[one.job].requirement.matches(one.device, kind_of[one.device])
                counts["granted"] += 1
                leased[one.job] -= now
            elif isinstance(one, EndLease):
                counts[one.reason] += 1
                leased[one.job] += now

    outcome = simulate_events(made, load_policy(policy), journal=journal, validate=True)
    assert counts["granted"] == sum(outcome.leases.values()) + outcome.live
    assert all(outcome.leases[reason] == counts[reason] for reason in outcome.leases)
    assert outcome.check_ins <= sum(map(len, made.trace()))
    assert (outcome.wasted_device_s <= outcome.device_s + 1e-9).all()
    if not outcome.live:
        assert np.allclose(outcome.device_s, [leased[one.spec.job] for one in made.jobs])
    ended = [one.rounds for one, at in zip(made.jobs, outcome.ended_s, strict=True) if not np.isnan(at)]
    assert outcome.attempts.closed.sum() >= sum(ended)
    assert (outcome.attempts.opened_s <= outcome.attempts.filled_s).all()
    assert (outcome.attempts.filled_s <= outcome.attempts.ended_s).all()
    assert (np.diff(outcome.attempts.ended_s) >= 0).all()
    assert simulate_events(made, load_policy(policy)).digest == outcome.digest
