"""Plans of a simulation in bulk: asked of the policy, or made in the kernel, with what Venn keeps between its plans."""

import numpy as np

from coordinator.engine.ids import RequestId
from coordinator.engine.lifecycle import PlanError
from coordinator.engine.plan import ANY_TIER, UNDECIDED, Mode, Plan, Policy, flaw
from coordinator.policies.venn.policy import Landscape, Venn
from coordinator.policies.venn_plus import VennPlus
from testbed.simulator.bulk_world import BulkWorld
from testbed.simulator.compiled import plain
from testbed.simulator.kernel_plan import PLANNERS, VENN, VENN_PLUS, VENN_QUEUE, WITHOUT_TIERS
from testbed.simulator.kernel_tiers import decide
from testbed.simulator.layout import (
    AT_ENOUGH,
    J_ASYNCHRONOUS,
    J_TIER,
    MERGED,
    NEARNESS,
    NONE,
    PLANNER,
    QUEUES,
    R_OWNER,
    REVIEW,
    SCARCITY,
    SKIPS,
    TIERS,
    UNIFORM,
    UNSUPPLIED,
)
from testbed.simulator.tables import longer


def planner_of(policy: Policy) -> int:
    """The kernel's planner that a policy's own class names; a class that is derived from it has to say so again."""
    planner = PLANNERS.get(str(vars(type(policy)).get("planner")), NONE)
    if isinstance(policy, Venn) and planner != NONE:
        if policy.fairness:
            return NONE  # powers are Python's
        return planner if policy.tiers > 1 else WITHOUT_TIERS[planner]
    return planner


def asks_for_tiers(policy: Policy) -> bool:
    """Whether the policy may ask for tiers of devices and profiles of responses."""
    return planner_of(policy) in (NONE, VENN, VENN_QUEUE)


class Plans:
    def __init__(self, world: BulkWorld, policy: Policy) -> None:
        self._world, self._policy = world, policy
        numbers, planner = world.tables.numbers, planner_of(policy)
        if numbers[TIERS] == 1:
            planner = WITHOUT_TIERS.get(planner, planner)
        numbers[PLANNER], numbers[SKIPS] = planner, not asks_for_tiers(policy)
        if isinstance(policy, VennPlus) and planner == VENN_PLUS:
            numbers[SCARCITY], numbers[NEARNESS] = policy.scarcity, policy.nearness
            numbers[AT_ENOUGH] = policy.spare_last
        self._grounded = planner >= VENN_PLUS
        self.ground_moved()

    def make(self) -> None:
        """Ask the policy. Raises PlanError, and what the policy raises."""
        view = self._world.view()
        plan = self._policy.plan(view)
        if problem := flaw(plan, view):
            raise PlanError(f"plan {view.plan_number} of policy {self._policy.name} at {view.now:.3f} s: {problem}")
        jobs = self._world.jobs_by_request()
        self._decide(plan, jobs, view.plan_number)
        self._show(plan, jobs)

    def _decide(self, plan: Plan, jobs: dict[RequestId, int], number: int) -> None:
        """As the engine does: tiers, once per attempt, and when the plan is to be looked at again."""
        t, policy = self._world.tables, self._policy.name
        for request, tier in plan.tiers.items():
            job = jobs.get(request)
            free = job is not None and t.jobs[job, J_TIER] == UNDECIDED and not t.jobs[job, J_ASYNCHRONOUS]
            if job is None or not (tier == ANY_TIER or (free and 0 <= tier < t.numbers[TIERS])):
                what = f"request {request} is not to be restricted to tier {tier}"
                raise PlanError(f"plan {number} of policy {policy}: {what}")
            plain(decide)(t, job, tier)
        t.reals[REVIEW] = np.inf if plan.review_at is None else plan.review_at
        t.numbers[AT_ENOUGH] = plan.at_enough

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
        t.numbers[QUEUES], t.numbers[UNIFORM] = len(plan.queues), plan.mode is Mode.UNIFORM
        owners = t.cells[:, R_OWNER].reshape(-1, world.width)
        owners[:] = NONE
        for region, number in plan.owner.items():
            if region < len(owners):
                owners[region] = number

    def ground_moved(self) -> None:
        """Regions or their supply have changed."""
        if not self._grounded:
            return
        world = self._world
        supply = world.present_supply()
        for view in world.regions.views():
            rate = float(sum(supply.get(region, 0) for region in view.regions))
            world.tables.group_rates[world.number_of[view.group]] = rate
        if world.tables.numbers[PLANNER] == VENN_PLUS:
            return
        land = Landscape(world.regions.views(), supply)
        ground, contenders = land.ground, land.ground.contenders
        t = world.tables
        t.numbers[UNSUPPLIED], t.numbers[MERGED] = land.unsupplied, land.unsupplied + len(contenders)
        for group, queue in land.queue_of.items():
            t.merged_of[world.number_of[group]] = queue
        regions = len(ground.owner)
        table = np.zeros((regions, 2), np.int64)
        usable = np.zeros((len(contenders), regions), np.int64)
        table[:, 1] = ground.owner
        for number, contender in enumerate(contenders):
            table[contender.regions, 0] = contender.counts
            usable[number, contender.regions] = 1
        tier_supply = np.zeros((t.numbers[TIERS], regions), np.int64)
        if world.width > 1:
            for tier, counted in enumerate(world.tiers.supply):
                for region, count in counted.by_region(world.regions.region_of).items():
                    tier_supply[tier, region] = count
        changed = {"ground": table, "usable": usable, "tier_supply": tier_supply}
        changed["rates"] = np.array(ground.rates, np.int64)
        if all(getattr(t, name).shape == one.shape for name, one in changed.items()):
            for name, one in changed.items():
                getattr(t, name)[:] = one
        else:
            world.tables = t.with_(**changed)
