"""Groups, regions and supply of a simulation in bulk: the engine's own, and what the kernel reads of them."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from coordinator.engine.ids import GroupId, JobId, RequestId
from coordinator.engine.plan import Collecting, JobView, Requests, View
from coordinator.engine.profiles import ENOUGH, Profile, ResponseTimes
from coordinator.engine.regions import Group, Regions
from coordinator.engine.requirements import group_of
from coordinator.engine.supply import Supply
from coordinator.engine.tiers import Tiers
from coordinator.engine.views import Attained, TierSupply
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Integers, Records, Tables, longer, more_devices, tables
from testbed.simulate.model import Simulation

Shown = TypeVar("Shown", Requests, Collecting)
_NEVER = 2**62  # no session has this number


class BulkWorld:
    def __init__(self, simulation: Simulation, *, tiers: bool, profiled: bool) -> None:
        """``tiers``, ``profiled``: somebody asks for tiers, for response times."""
        self._simulation = simulation
        self.groups = sorted({group_of(job.spec.requirement) for job in simulation.jobs})  # as in a view
        self.number_of: dict[GroupId, int] = {group: number for number, group in enumerate(self.groups)}
        number = simulation.settings.tiers if tiers else 1
        self.width = number + 1 if number > 1 else 1  # cells of a region
        groups = [self.number_of[group_of(job.spec.requirement)] for job in simulation.jobs]
        self.tables = tables(simulation, groups, number, profiled=profiled)
        self.regions = Regions(simulation.settings.most_regions)
        self.supply = Supply(simulation.settings, 0.0)
        self.tiers = Tiers(simulation.settings, 0.0)
        self._names = [job.spec.job for job in simulation.jobs]
        self._class_of = np.full(len(simulation.kinds), NONE)  # of each kind
        self._unfinished: dict[int, Group] = {}  # of each job
        self._plans = 0  # made until the last tick
        self._jobs = OpenJobs(self, simulation)
        self._attained = Attained(self._jobs, self._jobs.attained)
        self._tier_supply = TierSupply(self)

    def start(self, now: float) -> None:
        """Start supply and tiers, as the first event is about to happen."""
        self.supply = Supply(self._simulation.settings, now)
        self.tiers = Tiers(self._simulation.settings, now)
        self.tables.run.tick, self.tables.run.span_s = self.supply.next_tick, self.supply.span_s

    # -- devices

    def know_devices(self, count: int) -> None:
        """Devices with numbers below ``count`` are to come."""
        known = len(self.tables.devices)
        if count > known:
            self.tables = self.tables.with_(devices=more_devices(self.tables.devices, max(count, known * 5 // 4)))

    def classify(self, kind: int) -> None:
        """Devices of this kind were not seen since classes were cut."""
        known = len(self.regions.regions)
        class_id = self.regions.classify(*self._simulation.sample(kind))
        self._class_of[kind] = class_id
        if len(self.regions.regions) > known:
            self._show_regions(known)
        self.tables.kinds[kind].cell = self.regions.region_of(class_id) * self.width

    # -- jobs

    def add_job(self, job: int) -> None:
        """Add a job, as ``coordinator.engine.jobs`` when one is submitted."""
        spec = self._simulation.jobs[job].spec
        group = self._unfinished[job] = self.regions.add_job(spec.requirement, spec.requirement_name)
        if group.jobs == 1:
            if self.regions.has_new_atoms(spec.requirement):
                self._recut()
            self._rebuild()

    def remove_job(self, job: int) -> None:
        """Remove a job that has ended."""
        group = self._unfinished.pop(job)
        self.regions.remove_job(group)
        if group.jobs == 0:
            self._rebuild()

    def _recut(self) -> None:
        self._tell_supply()
        sample, known = self._simulation.sample, self._kinds_by_first_device()
        done = self.regions.recut((*sample(kind), int(self._class_of[kind]), weight) for kind, weight in known)
        self.tiers.recut(done.shares)
        self.supply.recut(done.shares)
        self._class_of[:] = NONE
        for kind, _ in known:
            self._class_of[kind] = self.regions.classify(*sample(kind))

    def _kinds_by_first_device(self) -> list[tuple[int, int]]:
        """(kind, intervals of its devices) of all kinds that known devices are of."""
        devices = self.tables.devices
        known = np.flatnonzero(devices["first"])
        kind, since = devices["kind"][known], devices["first"][known]  # to copy whole records takes much longer
        first = np.full(len(self._class_of), _NEVER)  # session, of each kind
        np.minimum.at(first, kind, since)
        weights = np.bincount(kind, weights=np.maximum(devices["check_ins"][known], 1), minlength=len(first))
        return [(one, int(weights[one])) for one in np.argsort(first).tolist() if first[one] < _NEVER]

    def _rebuild(self) -> None:
        self.regions.rebuild()
        t = self.tables
        self.tables = t.with_(cells=t.cells[:0], serves=t.serves[:0], candidates=t.candidates[:0])
        self._show_regions(0)
        known = self._class_of != NONE
        cells = [self.regions.region_of(class_id) * self.width for class_id in range(len(self.regions.classes))]
        self.tables.kinds["cell"] = NONE
        self.tables.kinds["cell"][known] = np.array(cells, np.int64)[self._class_of[known]]
        self.tables.run.regroup = 1

    def _show_regions(self, known: int) -> None:
        """Rows for the regions from number ``known`` on."""
        t, regions = self.tables, list(self.regions.regions.values())
        count = len(regions) * self.width
        self.tables = t.with_(
            cells=longer(t.cells, count), serves=longer(t.serves, count), candidates=longer(t.candidates, count)
        )
        for region in regions[known:]:
            rows = slice(region.id * self.width, (region.id + 1) * self.width)
            for name in ("pool", "owner", "dry", "listed"):
                self.tables.cells[name][rows] = NONE
            self.tables.serves[rows, [self.number_of[group] for group in region.groups]] = True

    # -- supply

    def tick(self) -> None:
        """Publish the supply: the inputs of the plan change where it has moved."""
        run = self.tables.run
        self._tell_supply()
        if run.plans > self._plans:
            self._plans = int(run.plans)
            self.supply.plan_made(self.supply.by_region(self.regions))
        now = float(run.now)
        self.supply.tick(now)
        if self.width > 1:
            self.tiers.tick(now)
            run.cuts = len(self.tiers.cuts)
            self.tables.cuts[: run.cuts] = self.tiers.cuts
        run.tick, run.span_s = self.supply.next_tick, self.supply.span_s
        if self.tables.jobs["open"].any() and self.supply.moved(self.supply.by_region(self.regions)):
            run.dirty = 1

    def _tell_supply(self) -> None:
        """What has been counted since."""
        counts, scores = self.tables.counted, self.tables.scores
        for kind, column in np.argwhere(counts).tolist():
            class_id, count = int(self._class_of[kind]), int(counts[kind, column])
            self.supply.count(class_id, count)
            if column > 0:
                self.tiers.supply[column - 1].count(class_id, count)
        for bin_ in np.flatnonzero(scores).tolist():
            self.tiers.counts[bin_] += int(scores[bin_])
        counts[:], scores[:] = 0, 0

    # -- what a policy sees

    def view(self) -> View:
        """The view for the plan that the loop has asked for."""
        t = self.tables
        now = float(t.run.now)
        asking, again = int(t.run.asking), int(t.run.again)
        requests = self._shown(Requests, t.requests, t.queued[:asking])
        collecting = self._shown(Collecting, t.collecting, t.queued[asking : asking + again])
        return View(
            now=now,
            seed=self._simulation.settings.seed,
            plan_number=int(t.run.plans),
            groups=self.regions.views(),
            requests=requests,
            supply=self.supply.by_region(self.regions),
            supply_span_s=self.supply.span_s,
            jobs=self._jobs,
            tiers=self.tiers.number,
            tier_supply=self._tier_supply,
            collecting=collecting,
            attained=self._attained,
        )

    def _shown(self, kind: type[Shown], table: Records, jobs: Integers) -> Shown:
        """What the loop has shown of these jobs."""
        views = self.regions.views()
        words = table[: len(jobs)].view(np.int64).reshape(len(jobs), len(kind.columns)).T.copy()
        present = np.full(len(self.groups), NONE)  # number of each group in the view
        present[[self.number_of[view.group] for view in views]] = np.arange(len(views))
        group = words[kind.columns["group"].place]
        group[:] = present[group]
        return kind(words, [self._names[job] for job in jobs.tolist()], views)

    def jobs_by_request(self) -> dict[RequestId, int]:
        """Jobs of open requests, by request."""
        jobs = self.tables.jobs
        return {RequestId(int(jobs[row].request)): row for row in np.flatnonzero(jobs["open"]).tolist()}


class OpenJobs(Mapping[JobId, JobView]):
    """The unfinished jobs as they are, by arrival; whether a request of theirs is open or not."""

    def __init__(self, world: BulkWorld, simulation: Simulation) -> None:
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
        """The tails over all tiers, then of each; none before the first response."""
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
