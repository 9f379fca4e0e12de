"""A device counts once a round: event by event and in bulk, whether it waits or comes again."""

import numpy as np
import pytest

from coordinator.engine.model import Asynchronous, Repeat
from coordinator.policies.registry import load_policy
from testbed.simulate.compiled.bulk import simulate_in_bulk
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import SimulatedJob
from testbed.testing.worlds import Session, job, world
from testbed.world.arrays import Matching
from tests.simulation.test_bulk import assert_equal

POLICIES = ("fifo", "random", "venn")


def ended(jobs: list[SimulatedJob], sessions: list[Session], policy: str, **more: object) -> list[float]:
    """When each job has ended, the same on both paths; NaN: it never does."""
    made = world(jobs, sessions, **more)
    events = simulate_events(made, load_policy(policy), validate=True)
    assert_equal(events, simulate_in_bulk(made, load_policy(policy)))
    return events.ended_s.tolist()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("repeat", "at"), [(Repeat.ONCE, 55.0), (Repeat.ALLOW, 10.0)])
def test_a_device_that_waits_counts_once(policy: str, repeat: Repeat, at: float) -> None:
    sessions = [Session(0.0, 100.0, 0), Session(50.0, 100.0, 1)]
    assert ended([job("a", 2, compute=5.0, repeat=repeat)], sessions, policy) == [at]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("repeat", "at"), [(Repeat.ONCE, 55.0), (Repeat.ALLOW, 25.0)])
def test_a_device_that_comes_again_counts_once(policy: str, repeat: Repeat, at: float) -> None:
    sessions = [Session(0.0, 9.0, 0), Session(20.0, 29.0, 0), Session(50.0, 100.0, 1)]
    for matching in Matching:
        assert ended([job("a", 2, compute=5.0, repeat=repeat)], sessions, policy, matching=matching) == [at]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_device_that_is_used_up_does_not_keep_its_neighbour_waiting(policy: str) -> None:
    """Of those that wait it is the first, when a place is given back."""
    sessions = [Session(0.0, 100.0, 0), Session(0.0, 8.0, 1, slow=4.0), Session(1.0, 100.0, 2)]
    assert ended([job("a", 2, compute=5.0)], sessions, policy) == [13.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_once_in_each_buffer(policy: str) -> None:
    flying = job("a", 2, rounds=2, compute=1.0, asynchronous=Asynchronous(2))
    assert ended([flying], [Session(0.0, 100.0, 0), Session(10.0, 100.0, 1)], policy) == [12.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_counted_in_an_attempt_that_aborted_may_be_leased_again(policy: str) -> None:
    sessions = [Session(0.0, 100.0, 0), Session(31.0, 100.0, 1)]
    assert ended([job("a", 2, compute=1.0, deadline=30.0)], sessions, policy) == [32.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_lost_or_has_expired_in_a_round_may_be_leased_again(policy: str) -> None:
    """The only device is cut short, then too slow for the lease, and then serves."""
    sessions = [Session(0.0, 3.0, 0), Session(10.0, 20.0, 0), Session(30.0, 100.0, 0, slow=0.1)]
    lost = [job("a", 1, compute=5.0)]
    assert ended(lost, sessions[:2], policy) == [15.0]
    expired = [job("a", 1, compute=50.0, lease=5.0)]
    assert ended(expired, [Session(0.0, 7.0, 0), sessions[2]], policy) == [35.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_device_is_used_up_for_each_round_that_it_counts_in(policy: str) -> None:
    """It has served both jobs when it comes for the third time; both wait for somebody else."""
    sessions = [Session(10.0 * turn, 10.0 * turn + 9.0, 0) for turn in range(3)]
    others = [Session(50.0, 59.0, 1), Session(60.0, 69.0, 1)]
    for matching in Matching:
        jobs = [job("a", 2, compute=5.0), job("b", 2, compute=5.0)]
        assert sorted(ended(jobs, sessions + others, policy, matching=matching)) == [55.0, 65.0]


def test_a_demand_that_is_larger_than_the_fleet_never_closes() -> None:
    sessions = [Session(float(at), at + 5.0, device) for at in range(0, 100, 10) for device in range(3)]
    (never,) = ended([job("a", 4, compute=1.0, deadline=50.0)], sessions, "fifo", until_s=200.0)
    assert np.isnan(never)


def test_many_devices_in_the_tables_of_many_jobs() -> None:
    """Each comes four times in an hour, and all jobs want them all."""
    sessions = [
        Session(900.0 * turn + device, 900.0 * turn + device + 50.0, device)
        for turn in range(4)
        for device in range(200)
    ]
    jobs = [job(f"job-{number}", 150, compute=1.0) for number in range(4)]

    for matching in Matching:
        assert not np.isnan(ended(jobs, sessions, "random", matching=matching)).any()
