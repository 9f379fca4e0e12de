"""A simulation in bulk: the same events as ``events``, in one compiled loop over arrays.

The loop (``kernel``) comes back for what happens seldom: a block of rows, a job that comes or has ended, a tick of the
supply. Regions and supply are the engine's own. Plans are made in the loop for the policies that ``bulk_plans`` names;
any other policy is asked for each plan, with the view that the engine would give it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.model import LeaseEnd
from coordinator.engine.plan import Policy
from coordinator.engine.regions import Regions
from testbed.runfolder.attempts import Attempts
from testbed.simulate.compiled import kernel, layout
from testbed.simulate.compiled.bulk_plans import Plans, asks_for_profiles, asks_for_tiers
from testbed.simulate.compiled.bulk_world import BulkWorld
from testbed.simulate.compiled.compiled import plain
from testbed.simulate.compiled.kernel_lists import FOLLOWS, OPENS, say
from testbed.simulate.compiled.layout import ENDS
from testbed.simulate.compiled.tables import longer, more_slots
from testbed.simulate.model import Outcome, Progress, Simulation, Watch
from testbed.world.arrays import CheckIns, Reals


def why_not(simulation: Simulation) -> str:
    """Why a simulation cannot be in bulk; empty: it can."""
    if simulation.links:
        return "links are modelled"
    if simulation.breaks:
        return "the timeline breaks programs"
    if simulation.cuts:
        return "the timeline cuts devices off"
    regions = Regions(2**62)
    for job in simulation.jobs:
        regions.add_job(job.spec.requirement, "")
    regions.recut((*simulation.sample(kind), 0, 1) for kind in range(len(simulation.kinds)))
    if len(regions.classes) > simulation.settings.most_regions:
        return f"there are {len(regions.classes)} classes of devices; at most {simulation.settings.most_regions}"
    return ""


def simulate_in_bulk(simulation: Simulation, policy: Policy, *, watch: Watch | None = None) -> Outcome:
    """Run it to its end. ``why_not`` said nothing against it. Raises what the policy raises."""
    run = _Run(simulation, policy)
    while run.step():
        if watch is not None and not watch(run.progress()):
            break
    return run.outcome()


class _Run:
    def __init__(self, simulation: Simulation, policy: Policy) -> None:
        self._jobs = simulation.jobs
        self._blocks = simulation.trace()
        self.world = BulkWorld(simulation, tiers=asks_for_tiers(policy), profiled=asks_for_profiles(policy))
        self._load()
        self._await_arrival()
        run = self.world.tables.run
        rows = self.world.tables.start_s
        start = min(float(rows[0]) if len(rows) else np.inf, float(run.next_arrival))
        self.world.start(start if np.isfinite(start) else 0.0)
        self.plans = Plans(self.world, policy)

    def progress(self) -> Progress:
        run = self.world.tables.run
        ended = len(self._jobs) - int(run.unfinished)
        return Progress(float(self.world.tables.run.now), int(run.check_ins), ended)

    def step(self) -> bool:
        """Go on until the next tick of the supply or the end of a block. False: it is over."""
        world = self.world
        while True:
            code = kernel.loop(world.tables)
            match code:
                case layout.PLAN_WANTED:
                    self.plans.make()
                case layout.TICKED:
                    world.tick()
                    self.plans.ground_moved()
                    return True
                case layout.MORE_ROWS:
                    self._load()
                    return True
                case layout.MORE_SLOTS:
                    world.tables = more_slots(world.tables)
                case layout.MORE_LOG:
                    self._lengthen_log()
                case layout.NEW_KIND:
                    world.classify(int(world.tables.run.subject))
                    self.plans.ground_moved()
                case layout.ARRIVES:
                    self._arrive(int(world.tables.run.subject))
                case layout.LEAVES:
                    world.remove_job(int(world.tables.run.subject))
                    self.plans.ground_moved()
                case _:
                    return False

    def _arrive(self, job: int) -> None:
        """Its driver submits it, follows it and opens round 1."""
        tables = self.world.tables
        self.world.add_job(job)
        tables = self.world.tables
        tables.run.arrived += 1
        tables.run.dirty = 1
        self._await_arrival()
        plain(say)(tables, FOLLOWS, job, 0)
        plain(say)(tables, OPENS, job, 1)
        self.plans.ground_moved()

    def _await_arrival(self) -> None:
        tables = self.world.tables
        arrived = int(tables.run.arrived)
        tables.run.next_arrival = self._jobs[arrived].arrives_s if arrived < len(self._jobs) else np.inf

    def _load(self) -> None:
        """The next block that is not empty."""
        world = self.world
        block = _next(self._blocks)
        run = world.tables.run
        if block is None:
            run.trace_over = 1
            return
        world.tables = world.tables.with_(
            start_s=_own(block.start_s, np.float64),
            end_s=_own(block.end_s, np.float64),
            device=_own(block.device, np.int64),
            interval=_own(block.interval, np.int64),
            kind=_own(block.kind, np.int32),
            slow=_own(block.slow, np.float64),
            byte_s=_own(block.byte_s, np.float64),
        )
        world.know_devices(int(block.device.max()) + 1)
        run.row, run.rows = 0, len(block)

    def _lengthen_log(self) -> None:
        tables = self.world.tables
        rows = 2 * len(tables.attempts)
        self.world.tables = tables.with_(attempts=longer(tables.attempts, rows))

    def outcome(self) -> Outcome:
        t = self.world.tables
        now, jobs = float(t.run.now), t.jobs
        device_s = jobs["attained"] + jobs["live"] * now - jobs["granted_sum"]
        leases = dict.fromkeys(LeaseEnd, 0) | {end: int(t.ends[place]) for end, place in ENDS.items()}
        return Outcome(
            ended_s=jobs["ended"].copy(),
            attempts=self._attempts(),
            check_ins=int(t.run.check_ins),
            plans=int(t.run.plans),
            leases=leases,
            live=int(t.run.live),
            device_s=device_s,
            wasted_device_s=np.maximum(device_s - jobs["useful_s"], 0.0),
            now_s=now,
            digest=f"{int(t.run.digest):016x}",
            path="bulk",
        )

    def _attempts(self) -> Attempts:
        t = self.world.tables
        count = int(t.run.logged)
        table = t.attempts[:count]
        return Attempts(
            job=table["job"].astype(np.int32),
            round=table["round_no"].astype(np.int32),
            attempt=table["attempt"].astype(np.int32),
            opened_s=table["opened"].copy(),
            filled_s=table["filled"].copy(),
            ended_s=table["ended"].copy(),
            closed=table["closed"].astype(np.bool_),
            counted=table["counted"].astype(np.int32),
        )


def _next(blocks: Iterator[CheckIns]) -> CheckIns | None:
    return next((block for block in blocks if len(block)), None)


def _own(column: NDArray[np.generic], kind: type) -> Reals:
    """Contiguous and of that type."""
    return np.require(column, kind, ["C"])
