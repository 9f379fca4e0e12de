"""Plans of a simulation in bulk: asked of the policy, or made in the kernel, with what Venn keeps between its plans."""

import numpy as np

from coordinator.engine.ids import RequestId
from coordinator.engine.lifecycle import PlanError
from coordinator.engine.plan import ANY_TIER, UNDECIDED, Mode, Plan, Policy, flaw
from coordinator.policies.spares import Contention, Spares, WithSpares
from coordinator.policies.venn.policy import Venn
from coordinator.policies.venn.queues import Landscape
from coordinator.policies.venn.tiers import total
from coordinator.policies.venn_plus import VennPlus
from testbed.simulate.compiled.bulk_world import BulkWorld
from testbed.simulate.compiled.compiled import plain
from testbed.simulate.compiled.kernel_plan import (
    PLANNERS,
    VENN,
    VENN_PLUS,
    VENN_PLUS_NOMATCH,
    VENN_QUEUE,
    WITHOUT_TIERS,
)
from testbed.simulate.compiled.kernel_tiers import decide
from testbed.simulate.compiled.layout import GROUND, NONE
from testbed.simulate.compiled.tables import longer


def planner_of(policy: Policy) -> int:
    """The kernel's planner for a policy; NONE: it makes its plans itself."""
    policy = _own(policy)
    planner = PLANNERS.get(type(policy), NONE)
    if isinstance(policy, Venn) and policy.fairness and policy.rule.percent:
        return NONE  # fair times are by other percentiles than tiers
    if isinstance(policy, Venn | VennPlus) and planner != NONE and policy.tiers == 1:
        return WITHOUT_TIERS[planner]
    return planner


def asks_for_tiers(policy: Policy) -> bool:
    """Whether the policy may ask for tiers of devices."""
    return planner_of(policy) in (NONE, VENN, VENN_QUEUE, VENN_PLUS)


def asks_for_profiles(policy: Policy) -> bool:
    """Whether the policy may ask for response times."""
    own = _own(policy)
    return asks_for_tiers(policy) or _spares(policy) is Spares.AUTO or (isinstance(own, Venn) and own.fairness > 0)


def _own(policy: Policy) -> Policy:
    """The policy itself, without what is done with spare places."""
    return policy.policy if isinstance(policy, WithSpares) else policy


def _spares(policy: Policy) -> Spares:
    return policy.spares if isinstance(policy, WithSpares | VennPlus) else Spares.WITH


class Plans:
    def __init__(self, world: BulkWorld, policy: Policy) -> None:
        self._world, self._policy = world, policy
        run, planner = world.tables.run, planner_of(policy)
        if run.tiers == 1:
            planner = WITHOUT_TIERS.get(planner, planner)
        run.planner = planner
        spares, own = _spares(policy), _own(policy)
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
        """As the engine does: tiers, once per attempt, and when the plan is to be looked at again."""
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
            if region < len(owners):
                owners[region] = number

    def ground_moved(self) -> None:
        """Regions or their supply have changed."""
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
