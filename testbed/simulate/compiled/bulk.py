"""A simulation in bulk: the same events as ``events``, in one compiled loop over arrays.

The loop (``kernel``) comes back for what happens seldom: a block of rows, a job that comes or has ended, a tick of the
supply. Regions and supply are the engine's own. Plans are made in the loop for the policies that ``kernel_plan`` names,
with what Venn keeps between its plans; any other policy is asked for each plan, with the view that the engine would
give it.
"""

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import RequestId
from coordinator.engine.lifecycle import PlanError
from coordinator.engine.model import LeaseEnd
from coordinator.engine.plan import ANY_TIER, UNDECIDED, Mode, Plan, Policy, flaw
from coordinator.engine.regions import Regions
from coordinator.policies.spares import Contention, Spares, WithSpares
from coordinator.policies.venn.policy import Venn
from coordinator.policies.venn.queues import Landscape
from coordinator.policies.venn.tiers import total
from coordinator.policies.venn_plus import VennPlus
from testbed.runfolder.attempts import Attempts
from testbed.simulate.compiled import kernel, layout
from testbed.simulate.compiled.bulk_world import BulkWorld
from testbed.simulate.compiled.compiled import plain
from testbed.simulate.compiled.kernel_lists import FOLLOWS, OPENS, say
from testbed.simulate.compiled.kernel_plan import (
    PLANNERS,
    VENN,
    VENN_PLUS,
    VENN_PLUS_NOMATCH,
    VENN_QUEUE,
    WITHOUT_TIERS,
)
from testbed.simulate.compiled.kernel_tiers import decide
from testbed.simulate.compiled.layout import ENDS, GROUND, NONE
from testbed.simulate.compiled.tables import longer, more_room
from testbed.simulate.model import Outcome, Progress, Simulation, Watch
from testbed.world.arrays import Reals


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
        self.world = BulkWorld(simulation, tiers=_asks_for_tiers(policy), profiled=_asks_for_profiles(policy))
        self._policy = policy
        self._begun = False
        self.plans: _Plans  # once it has begun
        self._await_arrival()

    def progress(self) -> Progress:
        run = self.world.tables.run
        ended = len(self._jobs) - int(run.unfinished)
        return Progress(float(self.world.tables.run.now), int(run.check_ins), ended)

    def step(self) -> bool:
        """Go on until the next tick of the supply or the end of a block. False: it is over."""
        world, run = self.world, self.world.tables.run
        if not self._begun:
            if run.rows == 0 and run.trace_over == 0:
                self._load()
                return True
            self._begin()
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
                    world.tables = more_room(world.tables)
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
                case layout.OVER:
                    return False
                case _:
                    raise AssertionError(f"the loop asks for {code}, which nothing answers")

    def _begin(self) -> None:
        """Start the clock of supply and plans: the first event is about to happen."""
        tables = self.world.tables
        rows = tables.start_s
        start = min(float(rows[0]) if len(rows) else np.inf, float(tables.run.next_arrival))
        self.world.start(start if np.isfinite(start) else 0.0)
        self.plans = _Plans(self.world, self._policy)
        self._begun = True

    def _arrive(self, job: int) -> None:
        """Let a job arrive: its driver submits it, follows it and opens round 1."""
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
        """Load the next block; nothing changes if it has no rows."""
        world = self.world
        block = next(self._blocks, None)
        run = world.tables.run
        if block is None:
            run.trace_over = 1
            return
        if not len(block):
            return
        world.tables = world.tables.with_(
            start_s=_contiguous(block.start_s, np.float64),
            end_s=_contiguous(block.end_s, np.float64),
            device=_contiguous(block.device, np.int64),
            interval=_contiguous(block.interval, np.int64),
            kind=_contiguous(block.kind, np.int32),
            slow=_contiguous(block.slow, np.float64),
            byte_s=_contiguous(block.byte_s, np.float64),
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


def _contiguous(column: NDArray[np.generic], kind: type) -> Reals:
    """Contiguous and of that type."""
    return np.require(column, kind, ["C"])


# -- plans


def planner_of(policy: Policy) -> int:
    """The kernel's planner for a policy; NONE: it makes its plans itself."""
    policy = _itself(policy)
    planner = PLANNERS.get(type(policy), NONE)
    if isinstance(policy, Venn) and policy.fairness and policy.rule.percent:
        return NONE  # fair times are by other percentiles than tiers
    if isinstance(policy, Venn | VennPlus) and planner != NONE and policy.tiers == 1:
        return WITHOUT_TIERS[planner]
    return planner


def _asks_for_tiers(policy: Policy) -> bool:
    """Whether the policy may ask for tiers of devices."""
    return planner_of(policy) in (NONE, VENN, VENN_QUEUE, VENN_PLUS)


def _asks_for_profiles(policy: Policy) -> bool:
    """Whether the policy may ask for response times."""
    own = _itself(policy)
    return _asks_for_tiers(policy) or _spares(policy) is Spares.AUTO or (isinstance(own, Venn) and own.fairness > 0)


def _itself(policy: Policy) -> Policy:
    """The policy itself, without what is done with spare places."""
    return policy.policy if isinstance(policy, WithSpares) else policy


def _spares(policy: Policy) -> Spares:
    return policy.spares if isinstance(policy, WithSpares | VennPlus) else Spares.WITH


class _Plans:
    def __init__(self, world: BulkWorld, policy: Policy) -> None:
        self._world, self._policy = world, policy
        run, planner = world.tables.run, planner_of(policy)
        if run.tiers == 1:
            planner = WITHOUT_TIERS.get(planner, planner)
        run.planner = planner
        spares, own = _spares(policy), _itself(policy)
        run.spares, run.aimed = list(Spares).index(spares), spares is not Spares.WITH
        self._places = planner != NONE and spares is not Spares.WITH
        self._plus = planner in (VENN_PLUS, VENN_PLUS_NOMATCH)
        self._grounded = planner >= VENN_PLUS
        run.or_faster = self._plus
        if isinstance(own, VennPlus):
            run.scarcity, run.nearness, run.collecting = own.scarcity, own.nearness, own.collecting
        elif isinstance(own, Venn) and planner != NONE:
            run.by_request, run.paper = own.order == "request", own.rule.paper
            world.tables.run.fairness = own.fairness
            if own.rule.percent and len(world.tables.profiles):
                world.tables.profiles["percent"] = own.rule.percent
        self.ground_moved()

    def make(self) -> None:
        """Ask the policy. Raises PlanError, and what the policy raises."""
        view = self._world.view()
        plan = self._policy.plan(view)
        if problem := flaw(plan, view, Plan()):
            raise PlanError(f"plan {view.plan_number} of policy {self._policy.name} at {view.now:.3f} s: {problem}")
        jobs = self._world.jobs_by_request()
        self._decide(plan, jobs, view.plan_number)
        self._show(plan, jobs)

    def _decide(self, plan: Plan, jobs: dict[RequestId, int], number: int) -> None:
        """Decide as the engine does: tiers, once per attempt, and when the plan is to be looked at again."""
        t, policy = self._world.tables, self._policy.name
        for request, tier in plan.tiers.items():
            job = jobs.get(request)
            free = job is not None and t.jobs[job].tier == UNDECIDED and not t.jobs[job].asynchronous
            if job is None or not (tier == ANY_TIER or (free and 0 <= tier < t.run.tiers)):
                what = f"request {request} is not to be restricted to tier {tier}"
                raise PlanError(f"plan {number} of policy {policy}: {what}")
            plain(decide)(t, job, tier)
        t.run.review = np.inf if plan.review_at is None else plan.review_at
        t.jobs["target"] = t.jobs["places"]
        for request, target in plan.targets.items():
            job = jobs.get(request)
            if job is None or t.jobs[job].asynchronous or not t.jobs[job].needed <= target <= t.jobs[job].places:
                what = f"request {request} is not to have a target of {target} places"
                raise PlanError(f"plan {number} of policy {policy}: {what}")
            t.jobs[job].target = target
            t.run.aimed = 1

    def _show(self, plan: Plan, jobs: dict[RequestId, int]) -> None:
        """The plan as the kernel's tables."""
        world = self._world
        if len(plan.queues) >= len(world.tables.queues):
            world.tables = world.tables.with_(queues=longer(world.tables.queues, 2 * len(plan.queues)))
        t, place = world.tables, 0
        for number, queue in enumerate(plan.queues):
            known = [job for request in queue if (job := jobs.pop(request, None)) is not None]
            t.queued[place : place + len(known)] = known
            place += len(known)
            t.queues[number + 1] = place
        t.queues[0] = 0
        t.run.queues, t.run.uniform = len(plan.queues), plan.mode is Mode.UNIFORM
        t.run.or_faster = plan.or_faster
        owners = t.cells["owner"].reshape(-1, world.width)
        owners[:] = NONE
        for region, number in plan.owner.items():
            if region in range(len(owners)):  # the engine looks up no other either
                owners[region] = number

    def ground_moved(self) -> None:
        """Bring what is planned up to date when regions or their supply have changed."""
        if self._places or self._plus:
            self._contend()
        if not self._grounded or self._plus:
            return
        world = self._world
        supply = world.supply.by_region(world.regions)
        if world.tables.run.fairness > 0.0:
            for view in world.regions.views():
                rate = float(sum(supply.get(region, 0) for region in view.regions))
                world.tables.group_rates[world.number_of[view.group]] = rate
        land = Landscape(world.regions.views(), supply)
        ground, contenders = land.ground, land.ground.contenders
        t = world.tables
        t.run.unsupplied, t.run.merged = land.unsupplied, land.unsupplied + len(contenders)
        t.merged_of[[world.number_of[view.group] for view in world.regions.views()]] = land.queue_of
        regions = len(ground.owner)
        table = np.zeros(regions, GROUND)
        usable = np.zeros((len(contenders), regions), np.int64)
        table["owner"] = ground.owner
        for number, contender in enumerate(contenders):
            table["supply"][contender.regions] = contender.counts
            usable[number, contender.regions] = 1
        tier_supply = np.zeros((t.run.tiers, regions), np.int64)
        if world.width > 1:
            for tier, counted in enumerate(world.tiers.supply):
                for region, count in counted.by_region(world.regions).items():
                    tier_supply[tier, region] = count
        changed = {"ground": table, "usable": usable, "tier_supply": tier_supply}
        changed["rates"] = np.array(ground.rates, np.int64)
        if all(getattr(t, name).shape == one.shape for name, one in changed.items()):
            for name, one in changed.items():
                getattr(t, name)[:] = one
        else:
            world.tables = t.with_(**changed)

    def _contend(self) -> None:
        """What groups can use, and take from each other."""
        world, t = self._world, self._world.tables
        between = Contention(world.regions.views(), world.supply.by_region(world.regions), world.supply.span_s)
        rows = [world.number_of[group] for group in between.number]
        t.group_rates[rows] = between.rates
        t.seconds[np.ix_(rows, rows)] = between.seconds
        for tier, counted in enumerate(world.tiers.supply if t.run.tiers > 1 else ()):
            counts = counted.by_region(world.regions)
            for row, group in zip(rows, world.regions.views(), strict=True):
                t.group_tiers[tier, row] = total(counts, group.regions) + (t.group_tiers[tier - 1, row] if tier else 0)
