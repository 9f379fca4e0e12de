"""The exact cases once more, through the real engine: its regions, its measured supply, its matching.

Before the requests open, devices come and go in the case's own cycle for exactly one supply window. So what the engine
has measured when it makes its plans is the true rates, and the fills must be those of the arena.
"""

import pytest

from coordinator.engine.effects import FillAttempt, OfferLease
from coordinator.engine.model import SessionEnd
from coordinator.engine.plan import Policy
from coordinator.engine.requirements import Comparison
from coordinator.policies.random import Random
from coordinator.policies.registry import load_policy
from testbed.testing.arena import CASES, Case, run
from testbed.testing.engine import ScriptedEngine, needs

WINDOW_S = 60  # whole cycles of each case; one bucket, so supply is published at its end and not again in a case
LONG_S = 1e6


def warmed_up(world: Case, policy: Policy) -> ScriptedEngine:
    play = ScriptedEngine(
        policy, supply_window_s=float(WINDOW_S), supply_buckets=1, liveness_s=LONG_S, accept_timeout_s=LONG_S
    )
    for second in range(WINDOW_S):
        play.wait(second - play.now)
        _arrives(play, world, second)
        play.leave(f"device-{second}", SessionEnd.GOODBYE_SESSION_OVER)
    play.wait(WINDOW_S - play.now)
    return play


def _arrives(play: ScriptedEngine, world: Case, second: int) -> str:
    """The device of this second, from 0."""
    kind = world.cycle[second % len(world.cycle)]
    play.check_in(f"device-{second}", labels={"serves": frozenset(kind)})
    return f"device-{second}"


def played(world: Case, policy: Policy) -> list[int]:
    """Fill times, in seconds from the opening; the devices of the case keep their leases."""
    play = warmed_up(world, policy)
    requests = []
    for number, (letter, demand) in enumerate(world.requests):
        requirement = Comparison("serves", "=", letter)
        requests.append(
            play.request(
                f"job-{number:02d}",
                demand=demand,
                deadline_s=LONG_S,
                lease_s=LONG_S,
                **needs(requirement, letter),
            )
        )
    measured = play.engine.supply.by_region(play.engine.regions)
    assert list(measured.values()) == [WINDOW_S // len(world.cycle)] * len(world.cycle)
    fills: dict[str, int] = {}
    second = 0
    while len(fills) < len(requests):
        play.wait(1.0)
        name = _arrives(play, world, second)
        second += 1
        fills.update((effect.job, second) for effect in play.got(FillAttempt))
        if play.got(OfferLease):
            play.accept(name)
        else:
            play.leave(name)
    return [fills[request.job.id] for request in requests]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", ["fifo", "srsf", "srsf-job", "las", "venn", "venn-queue"])
def test_the_engine_fills_as_the_arena_does(name: str, policy: str) -> None:
    assert played(CASES[name], load_policy(policy)) == run(CASES[name], load_policy(policy)).fills


@pytest.mark.parametrize("name", CASES)
def test_random_turns_no_device_away_that_a_request_could_use(name: str) -> None:
    """A draw cannot be foretold, but in each cycle at least one device serves somebody, until all are served."""
    world = CASES[name]
    fills = played(world, Random())
    assert sum(world.demands) <= max(fills) <= len(world.cycle) * sum(world.demands)
