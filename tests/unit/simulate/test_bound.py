"""The lower bound on the mean JCT: by hand where it is exact, and below every policy on small worlds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from coordinator.engine.model import Asynchronous
from coordinator.policies.registry import load_policy
from testbed.simulate import bound
from testbed.simulate.bound import lower_bound
from testbed.simulate.model import SimulatedJob, Simulation
from testbed.simulate.run import simulate
from testbed.testing.worlds import Session, has, job, needs, world
from testbed.world.arrays import Matching
from venn.wire.errors import UsageError

KINDS = (has("a"), has("ab"), has("b"), has(""))


def made(jobs: Sequence[SimulatedJob], sessions: Sequence[Session]) -> Simulation:
    return world(jobs, sessions, kinds=KINDS, matching=Matching.AT_CHECK_IN)


def drawn(seed: int) -> Simulation:
    """A few jobs that contend for devices, and more of those than all need."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1.0, 1500).cumsum()
    sessions = [
        Session(start, start + rng.uniform(3, 30), number, int(rng.integers(4)), rng.uniform(0.5, 2))
        for number, start in enumerate(gaps.tolist())
    ]
    wanted = (needs("a"), needs("b"), needs("a", "b"), needs("a"))
    jobs = [
        job(
            f"job-{number}",
            int(rng.integers(1, 9)),
            requirement,
            rounds=int(rng.integers(1, 5)),
            arrives=float(rng.uniform(0, 40)),
            min_response="0.8",
            compute=float(rng.uniform(0, 4)),
            deadline=60.0,
        )
        for number, requirement in enumerate(wanted)
    ]
    return made(jobs, sessions)


@pytest.mark.parametrize("seed", range(6))
def test_no_policy_is_below_it(seed: int) -> None:
    simulation = drawn(seed)
    found = lower_bound(simulation)
    arrives = np.array([one.arrives_s for one in simulation.jobs])
    for policy in ("random", "fifo", "srsf", "venn"):
        jct = simulate(simulation, load_policy(policy)).ended_s - arrives
        assert not np.isnan(jct).any()
        assert (found.alone_s <= jct + 1e-9).all()
        assert 0 < found.mean_jct_s <= jct.mean() + 1e-6


def every_second(count: int, kind: int = 0, slow: float = 1.0) -> list[Session]:
    return [Session(float(second), second + 100.0, second, kind, slow) for second in range(1, count)]


def test_a_job_alone_is_bound_by_its_rounds() -> None:
    """Devices at 1, 2, 3 ... take 5 s: those of 1 and 2 close at 7, of 7 and 8 at 13, of 13 and 14 at 19."""
    simulation = made([job("only", 2, needs("a"), rounds=3, compute=5.0)], every_second(200))
    outcome = simulate(simulation, load_policy("fifo"))
    assert lower_bound(simulation).mean_jct_s == pytest.approx(float(outcome.ended_s[0]))


def test_a_slow_device_is_not_waited_for_where_a_later_one_is_faster() -> None:
    """Of 2 devices at 1 and 2 that take 50 s, and the one at 3 that takes 1 s, the last responds first, at 4."""
    slow = [Session(1.0, 100.0, 0, 0, 50.0), Session(2.0, 100.0, 1, 0, 50.0), Session(3.0, 100.0, 2)]
    more = [Session(60.0 + second, 200.0, 3 + second) for second in range(60)]
    simulation = made([job("only", 1, needs("a"), compute=1.0)], [*slow, *more])
    assert lower_bound(simulation).alone_s.tolist() == [4.0]


def test_the_rounds_of_an_asynchronous_job_overlap() -> None:
    """It closes 3 rounds of 2 with the sixth response, at 11: each device has its lease beside the others."""
    apart = job("only", 6, needs("a"), rounds=3, compute=5.0)
    together = replace(apart, spec=replace(apart.spec, asynchronous=Asynchronous(buffer=2)))
    simulation = made([together], every_second(200))
    assert simulate(simulation, load_policy("fifo")).ended_s.tolist() == [11.0]
    assert lower_bound(simulation).mean_jct_s == pytest.approx(11.0)


def test_jobs_that_share_devices_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 check-ins for the one, 300 for the other: at best done at 100 and 400, and little is lost."""
    monkeypatch.setattr(bound, "SPANS", 1000)
    jobs = [job("long", 300, needs("a"), min_response="1"), job("short", 100, needs("a"), min_response="1")]
    assert 247 < lower_bound(made(jobs, every_second(1000))).mean_jct_s <= 250
    # Of different devices neither waits for the other.
    apart = [job("long", 300, needs("a")), job("short", 100, needs("b"))]
    both = sorted([*every_second(1000), *every_second(1000, kind=2)], key=lambda one: one.start)
    assert 198 < lower_bound(made(apart, both)).mean_jct_s <= 200


def test_devices_that_serve_nobody_do_not_count() -> None:
    jobs = [job("only", 100, needs("a"))]
    idle = [Session(second + 0.5, second + 1.0, 5000 + second, 3) for second in range(1000)]
    alone = lower_bound(made(jobs, every_second(1000))).mean_jct_s
    assert lower_bound(made(jobs, [*every_second(1000), *idle])).mean_jct_s == pytest.approx(alone)


def test_where_there_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [job("only", 100, needs("a"))]
    with pytest.raises(UsageError, match="where devices wait"):
        lower_bound(world(jobs, every_second(300), kinds=KINDS))
    with pytest.raises(UsageError, match="ends before all jobs can be done"):
        lower_bound(made(jobs, every_second(90)))
    monkeypatch.setattr(bound, "MOST_CHECK_INS", 100)
    with pytest.raises(UsageError, match="more than 100 check-ins are too many"):
        lower_bound(
            world(
                [job("only", 500, needs("a"))], every_second(900), kinds=KINDS, matching=Matching.AT_CHECK_IN, blocks=9
            )
        )
