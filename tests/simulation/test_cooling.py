"""Devices that hold places in vain cool: event by event and in bulk, whether they wait or come again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.engine.model import LeaseEnd
from coordinator.policies.registry import load_policy
from testbed.simulate.compiled.bulk import simulate_in_bulk
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Outcome, SimulatedJob, Simulation
from testbed.testing.worlds import Session, job, world
from testbed.world.arrays import Matching
from tests.simulation.test_bulk import POLICIES, assert_equal, busy_world
from tests.simulation.test_random_worlds import random_world


def both(made: Simulation, policy: str = "fifo", *, validate: bool = True) -> Outcome:
    """What comes of it, the same on both paths."""
    events = simulate_events(made, load_policy(policy), validate=validate)
    assert_equal(events, simulate_in_bulk(made, load_policy(policy)))
    return events


def played(jobs: list[SimulatedJob], sessions: list[Session], policy: str = "fifo", **more: object) -> Outcome:
    return both(world(jobs, sessions, **more), policy)


@pytest.mark.parametrize("policy", ["fifo", "random", "venn"])
def test_a_device_that_waits_is_leased_again_when_it_has_cooled(policy: str) -> None:
    """Its task takes 10 s and a lease 4: leased at 1, 5, 39 and 103."""
    outcome = played([job("a", 1, compute=10.0, lease=4.0)], [Session(1, 200, 0)], policy)
    assert (outcome.leases[LeaseEnd.EXPIRED], outcome.live) == (4, 0)
    assert outcome.now_s == 200.0


@pytest.mark.parametrize("policy", ["fifo", "random", "venn"])
def test_another_has_the_place_meanwhile_though_it_came_later(policy: str) -> None:
    slow = Session(0.0, 500.0, 0, slow=10.0)
    jobs = [job("a", 1, rounds=4, compute=2.0, lease=4.0)]
    assert played(jobs, [slow, Session(9.0, 500.0, 1)], policy).ended_s.tolist() == [17.0]


def test_a_device_that_comes_again_at_check_in_cools_as_well() -> None:
    """Two attempts of 10 s in vain; it is left out when it comes back at once, and not later."""
    sessions = [Session(start, start + 10.0, 0, slow=9.0) for start in (0.0, 10.0, 21.0, 60.0)]
    jobs = [job("a", 1, compute=2.0, deadline=10.0, lease=10.0)]
    outcome = played(jobs, sessions, matching=Matching.AT_CHECK_IN, until_s=90.0)
    assert sum(outcome.leases.values()) == 3


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(POLICIES), st.sampled_from([0.0, 0.4, 1.0]), st.booleans())
def test_small_worlds_in_which_it_takes_little_to_cool(seed: int, policy: str, leases: float, busy: bool) -> None:
    made = busy_world(seed) if busy else random_world(seed)
    both(
        replace(made, settings=replace(made.settings, vain_leases=leases, cooling_first_s=7.0)), policy, validate=False
    )


def test_many_that_hold_places_in_vain_find_room_in_the_tables() -> None:
    """Each is lost twice, with less than it takes to answer, and comes for the third time while it cools."""
    sessions = [
        Session(start + device / 100, start + device / 100 + 8.0, device)
        for start in (0.0, 100.0, 120.0)
        for device in range(3000)
    ]
    made = world([job("a", 3000, compute=9.0, lease=10.0, deadline=1000.0)], sessions)
    outcome = both(made, validate=False)
    assert np.isnan(outcome.ended_s).all()
    assert 6000 <= sum(outcome.leases.values()) + outcome.live < 9000
