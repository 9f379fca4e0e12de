"""One simulation under one policy, by the fastest path that can run it."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from coordinator.engine.plan import Policy
from testbed.runfolder.summary import EVERY_EVENT
from testbed.simulate.events.loop import Journal, simulate_events
from testbed.simulate.model import Outcome, Progress, Simulation, Watch

COMPILING = "compiling the loop of the simulator, once for this user: up to a minute ..."
FEW_CHECK_INS = 20_000  # take a second or two event by event, where the loop takes up to a minute to compile


def simulate(
    simulation: Simulation,
    policy: Policy,
    *,
    journal: Journal | None = None,
    validate: bool = False,
    watch: Watch | None = None,
    compiling: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run it to its end. Raises InvariantError, and whatever the policy raises.

    ``journal`` hears of every event, and ``validate`` checks every invariant after each event: these need every event.
    While the loop is not compiled, a small simulation goes event by event as well; before a larger one it is compiled,
    which takes up to a minute: ``compiling`` is called then.
    """
    started = perf_counter()
    why = EVERY_EVENT if journal is not None or validate else _why_not_in_bulk(simulation)
    if why:
        outcome = simulate_events(simulation, policy, journal=journal, validate=validate, watch=watch)
    else:
        from testbed.simulate.compiled import kernel
        from testbed.simulate.compiled.bulk import simulate_in_bulk
        from testbed.simulate.compiled.compiled import is_compiled

        ready = is_compiled(kernel.loop)
        small = None if ready else _if_small(simulation, policy, watch)
        if small is not None:
            why = "it is small, and the loop is not compiled yet"
        elif not ready:
            compiling()
        outcome = small or simulate_in_bulk(simulation, policy, watch=watch)
    return replace(outcome, why=why, wall_s=perf_counter() - started)


def at_least_leases(simulation: Simulation) -> int:
    """The least number of leases: every response takes one."""
    return sum(job.rounds * job.spec.responses_needed for job in simulation.jobs)


def _if_small(simulation: Simulation, policy: Policy, watch: Watch | None) -> Outcome | None:
    """Event by event; None where it has more than ``FEW_CHECK_INS``."""
    if at_least_leases(simulation) > FEW_CHECK_INS:
        return None
    check_ins = 0

    def look(progress: Progress) -> bool:
        nonlocal check_ins
        check_ins = progress.check_ins
        return check_ins <= FEW_CHECK_INS and (watch is None or watch(progress))

    outcome = simulate_events(simulation, policy, watch=look)
    return outcome if check_ins <= FEW_CHECK_INS else None


def _why_not_in_bulk(simulation: Simulation) -> str:
    """Empty: it can. Numba is loaded for this, which takes longer than a small simulation."""
    from testbed.simulate.compiled.bulk import why_not
    from testbed.simulate.compiled.compiled import COMPILES

    return why_not(simulation) if COMPILES else "Numba is not installed"
