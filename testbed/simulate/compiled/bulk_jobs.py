"""What a policy may ask for about jobs, in bulk: ``coordinator.engine.outlook.OpenJobs`` on arrays."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Protocol

import numpy as np

from coordinator.engine.ids import JobId
from coordinator.engine.plan import JobView
from coordinator.engine.profiles import ENOUGH, Profile, ResponseTimes
from coordinator.engine.requirements import group_of
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables
from testbed.simulate.model import Simulation


class Tabled(Protocol):
    """Whose state is in tables, which are replaced as they grow."""

    tables: Tables


class OpenJobs(Mapping[JobId, JobView]):
    """The unfinished jobs as they are, by arrival; whether a request of theirs is open or not."""

    def __init__(self, world: Tabled, simulation: Simulation) -> None:
        self._world, self._jobs = world, simulation.jobs
        self._rows = {job.spec.job: row for row, job in enumerate(simulation.jobs)}

    def __getitem__(self, key: JobId) -> JobView:
        t, row = self._world.tables, self._rows[key]
        if row >= t.run.arrived or not np.isnan(t.jobs[row].ended):
            raise KeyError(key)
        spec, begun = self._jobs[row].spec, max(int(t.jobs[row].round_no), 1)
        known = int(t.jobs[row].known)
        return JobView(
            arrival=self._jobs[row].arrives_s,
            group=group_of(spec.requirement),
            places=int(t.jobs[row].plan_places),
            rounds=begun if known == NONE else known,
            tails_s=self._tails(row),
            responses=ResponseTimes(partial(_profile, t, row)) if len(t.profiles) else ResponseTimes(),
        )

    def attained(self, key: JobId) -> float:
        """Device-seconds leased to it so far."""
        t, row = self._world.tables, self._rows[key]
        one = t.jobs[row]
        return float(one.attained + one.live * t.run.now - one.granted_sum)

    def _tails(self, row: int) -> tuple[float, ...]:
        """Over all tiers, then of each; none before the first response."""
        t = self._world.tables
        profiles = t.profiles[row]
        if not profiles["total"].any():
            return ()
        everyone, *tiers, _ = (float(t.edges[one.at]) if one.total >= ENOUGH else 0.0 for one in profiles)
        return (everyone, *[one or everyone for one in tiers])

    def __iter__(self) -> Iterator[JobId]:
        t = self._world.tables
        arrived = self._jobs[: int(t.run.arrived)]
        return (job.spec.job for job, ended in zip(arrived, t.jobs["ended"], strict=False) if np.isnan(ended))

    def __len__(self) -> int:
        t = self._world.tables
        return int(np.isnan(t.jobs["ended"][: int(t.run.arrived)]).sum())


def _profile(t: Tables, job: int, row: int) -> Profile:
    total, at, upto, percent, counts = t.profiles[job, row].tolist()
    return Profile(counts.tolist(), total, at, upto, percent)
