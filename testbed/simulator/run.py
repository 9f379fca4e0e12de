"""One simulation under one policy, by the fastest path that can run it."""

from dataclasses import replace
from time import perf_counter

from coordinator.engine.plan import Policy
from testbed.simulator.bulk import simulate_in_bulk, why_not
from testbed.simulator.compiled import COMPILES
from testbed.simulator.events import Journal, Reborn, simulate_events
from testbed.simulator.model import Outcome, Simulation, Watch


def simulate(
    simulation: Simulation,
    policy: Policy,
    *,
    journal: Journal | None = None,
    reborn: Reborn | None = None,
    validate: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """Run it to its end. Raises InvariantError, and whatever the policy raises.

    ``journal`` hears of every event, ``reborn`` of each coordinator after the first, and ``validate`` checks every
    invariant after each event: these need every event.
    """
    started = perf_counter()
    if journal is not None or validate:
        why = "every event is asked for"
    else:
        why = why_not(simulation) if COMPILES else "Numba is not installed"
    if why:
        outcome = simulate_events(simulation, policy, journal=journal, reborn=reborn, validate=validate, watch=watch)
    else:
        outcome = simulate_in_bulk(simulation, policy, watch=watch)
    return replace(outcome, why=why, wall_s=perf_counter() - started)
