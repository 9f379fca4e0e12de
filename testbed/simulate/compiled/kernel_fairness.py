"""The fairness knob of Venn, ``coordinator.policies.venn.fairness``, on arrays. Its arithmetic is that module's own."""

import numpy as np

from coordinator.engine.profiles import ENOUGH
from coordinator.policies.venn import fairness
from testbed.simulate.compiled.compiled import compiled
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables
from testbed.world.arrays import Reals

_power, _share, _fair_s = compiled(fairness.power), compiled(fairness.share), compiled(fairness.fair_s)


@compiled
def unfinished(t: Tables) -> int:
    """Jobs that have arrived and not ended."""
    count = 0
    for job in range(t.run.arrived):
        if np.isnan(t.jobs[job].ended):
            count += 1
    return count


@compiled
def fair_demand(t: Tables, job: int, left: int, jobs: int) -> float:
    """What orders it in its group; ``jobs`` are unfinished."""
    waited, fair = _times(t, job, jobs)
    return float(left / _power(_share(waited, fair), t.run.fairness))


@compiled
def weights(t: Tables) -> Reals:
    """What each request of a contender counts for; empty: they count alike."""
    if t.run.fairness == 0.0:
        return np.empty(0)
    unsupplied, jobs = t.run.unsupplied, unfinished(t)
    found = np.empty(t.run.merged - unsupplied)
    for contender in range(len(found)):
        waited = fair = 0.0
        for place in range(t.queues[unsupplied + contender], t.queues[unsupplied + contender + 1]):
            times = _times(t, t.queued[place], jobs)
            waited, fair = waited + times[0], fair + times[1]
        found[contender] = _power(_share(waited, fair), t.run.fairness)
    return found


@compiled
def _times(t: Tables, job: int, jobs: int) -> tuple[float, float]:
    """Since it arrived, and its fair one."""
    known, everyone, supply = t.jobs[job].known, t.profiles[job, 0], t.group_rates[t.jobs[job].group]
    rounds = max(t.jobs[job].round_no, 1) if known == NONE else known
    tail_s = t.edges[everyone.at] if everyone.total >= ENOUGH else 0.0
    fair = _fair_s(jobs, rounds, t.jobs[job].plan_places, t.run.span_s, supply, tail_s)
    return t.run.now - t.jobs[job].arrival, fair
