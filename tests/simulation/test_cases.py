"""The exact cases once more, through the simulator.

Before the jobs arrive, devices come and go in the case's own cycle for exactly one supply window, so what the engine
has measured is the true rates. Tasks take so long that every request fills before the first response.
"""

from dataclasses import replace

import pytest

from coordinator.policies.registry import load_policy
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Simulation
from testbed.testing.arena import CASES, Case, run
from testbed.testing.worlds import Session, has, job, needs, world
from testbed.world.arrays import Matching

WINDOW_S = 60  # whole cycles of each case; one bucket
LONG_S = 1000.0


def simulated(case: Case) -> Simulation:
    kinds = [has(letters) for letters in case.regions]
    seconds = [*range(WINDOW_S), *range(WINDOW_S + 1, 2 * WINDOW_S)]
    sessions = [
        Session(second, 10 * LONG_S, number, kind=case.regions.index(case.cycle[number % len(case.cycle)]), slow=LONG_S)
        for number, second in enumerate(seconds)
    ]
    jobs = [
        job(f"job-{number:02d}", demand, needs(letter), arrives=WINDOW_S, compute=1.0)
        for number, (letter, demand) in enumerate(case.requests)
    ]
    made = world(jobs, sessions, kinds=kinds, matching=Matching.AT_CHECK_IN)
    return replace(made, settings=replace(made.settings, supply_window_s=float(WINDOW_S), supply_buckets=1))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", ["fifo", "srsf", "srsf-job", "las", "venn", "venn-queue"])
def test_the_simulator_fills_as_the_arena_does(name: str, policy: str) -> None:
    case = CASES[name]
    outcome = simulate_events(simulated(case), load_policy(policy), validate=True)
    filled = dict(zip(outcome.attempts.job.tolist(), outcome.attempts.filled_s.tolist(), strict=True))
    assert [filled[number] - WINDOW_S for number in range(len(case.requests))] == run(case, load_policy(policy)).fills
    assert outcome.live == 0
    assert not outcome.wasted_device_s.any()
