"""One simulation under one policy, by the fastest path that can run it."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from coordinator.engine.plan import Policy
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
    compiling: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run it to its end. Raises InvariantError, and whatever the policy raises.

    ``journal`` hears of every event, ``reborn`` of each coordinator after the first, and ``validate`` checks every
    invariant after each event: these need every event. ``compiling`` is called before the loop is compiled, which takes
    up to a minute.
    """
    started = perf_counter()
    why = "every event is asked for" if journal is not None or validate else _why_not_in_bulk(simulation)
    if why:
        outcome = simulate_events(simulation, policy, journal=journal, reborn=reborn, validate=validate, watch=watch)
    else:
        from testbed.simulator import kernel
        from testbed.simulator.bulk import simulate_in_bulk
        from testbed.simulator.compiled import is_compiled

        if not is_compiled(kernel.run):
            compiling()
        outcome = simulate_in_bulk(simulation, policy, watch=watch)
    return replace(outcome, why=why, wall_s=perf_counter() - started)


def _why_not_in_bulk(simulation: Simulation) -> str:
    """Empty: it can. Numba is loaded for this, which takes longer than a small simulation."""
    from testbed.simulator.bulk import why_not
    from testbed.simulator.compiled import COMPILES

    return why_not(simulation) if COMPILES else "Numba is not installed"
