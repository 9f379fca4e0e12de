"""The life of a plan, and matching by it.

A plan is remade when its inputs have changed (``World.dirty``), at the end of a turn and with its ``now``. Between
plans nothing is reordered. Matching a device is a look-up. Nearly always the first request of its region takes it,
known for as many plans as leave the queue of that region as it was. Otherwise the candidates of the region, listed once
per plan and only as far as somebody looked, are gone through. After a new plan idle devices are matched in the order of
their sessions; a fill makes the next plan, and the matching goes on with that. An asynchronous request that fills, or
has a place again, changes no plan: it is in the plan all the time, and skipped while it is full.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Literal

from coordinator.engine.chance import Purpose, draw, index
from coordinator.engine.deadlines import Kind
from coordinator.engine.effects import AdoptPlan
from coordinator.engine.ids import RegionId, RequestId, SessionSeq
from coordinator.engine.leases import come_back_s, grant, send_away
from coordinator.engine.lifecycle import DISMISS, IDLE, PlanError
from coordinator.engine.model import ComeBackReason
from coordinator.engine.plan import ANY_TIER, LIFTED, UNDECIDED, GroupView, Mode, Plan, Policy, flaw
from coordinator.engine.regions import OVERFLOW, Group
from coordinator.engine.state import Device, Request, Session
from coordinator.engine.tiers import EVERY_TIER, NO_TIER, is_within, tier_text
from coordinator.engine.views import Views
from coordinator.engine.world import World

_UNIFORM = Mode.UNIFORM


class Candidates:
    """The requests that devices of a region may be leased to, in the plan's order, full ones included."""

    __slots__ = ("found", "rest")

    def __init__(self, found: list[Request], rest: Iterator[Request]) -> None:
        self.found = found
        self.rest = rest  # finds the others, into ``found``, when they are needed, which is nearly never

    def __iter__(self) -> Iterator[Request]:
        return chain(self.found, self.rest)


class Matcher:
    """Makes plans, and grants leases by the one in force."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world = world
        self.policy = policy
        self._candidates: dict[RegionId | tuple[RegionId, int], Candidates] = {}  # by the present plan
        self._firsts: list[Request | Literal[False] | None] = [None] * (world.regions.most + 1)  # by capability class,
        # with one more for OVERFLOW: who comes first in the queue that it tries first. False: nobody; None: not known
        self._asked: list[dict[int, list[int]]] = []  # by queue of the present plan, and by place in it: the classes
        # whose first is known to be there
        self._groups: tuple[GroupView, ...] = ()  # that the present plan saw
        self._by_tier = self._is_by_tier()  # requests are restricted: then they are listed by (region, tier)
        self.views = Views(world)

    def settle(self) -> None:
        """Match what became matchable in a turn, at its end, with a new plan if the inputs have changed."""
        world = self.world
        if not world.fresh and not world.dirty and not world.vacant:
            return
        fresh = sorted(world.fresh, key=lambda session: session.seq) if len(world.fresh) > 1 else world.fresh
        world.fresh = []
        for session in fresh:
            if world.dirty or world.vacant:
                break
            self._match(session)
        while world.dirty or world.vacant:
            if world.dirty:
                world.dirty = False
                self._make_plan()
            world.vacant = False
            self._match_idle()
        for session in fresh:
            if session.device.session is session and session.device.state is IDLE:
                self._rest(session)

    def without_plan(self) -> "Matcher":
        """Forget the plan, and all that was looked up by it: the next one is made from the state alone."""
        world = self.world
        self._aim(world.plan, Plan())
        world.plan, world.dirty = Plan(), True
        world.changed = dict(world.open_requests)
        return Matcher(world, self.policy)

    def _is_by_tier(self) -> bool:
        return any(request.tier >= 0 for request in self.world.open_requests.values())

    def candidates(self, device: Device) -> Candidates:
        """The requests that a device like this may be leased to, by the present plan."""
        regions, class_id = self.world.regions, device.capability_class
        if class_id == OVERFLOW:
            return self._list(regions.overflow, device)
        region = regions.classes[class_id].region
        key = (region, device.tier) if self._by_tier else region
        listed = self._candidates.get(key)
        if listed is None:
            listed = self._candidates[key] = self._list(region, device)
        return listed

    def choose(self, session: Session) -> Request | None:
        """Who gets this device now."""
        device = session.device
        first = self._firsts[device.capability_class]
        if first is None:
            first = self._first(device.capability_class)
        if (
            first
            and first.ended_at is None
            and first.places > first.placed + first.counted
            and _may_take(first, device, self.world)
        ):
            return first
        return self._search(session)

    def _first(self, class_id: int) -> Request | Literal[False]:
        """Who comes first in the queue that devices of this class try first, full or not; from here on it is known."""
        plan = self.world.plan
        if class_id == OVERFLOW or not plan.queues or plan.mode is _UNIFORM:
            return False
        queue = self._queue_of(class_id)
        at, first = self._first_in(queue, class_id)
        self._asked[queue].setdefault(at, []).append(class_id)
        self._firsts[class_id] = first
        return first

    def _first_in(self, queue: int, class_id: int) -> tuple[int, Request | Literal[False]]:
        """The first request of a queue for such devices that is below its target, and its place; False: none."""
        world, names = self.world, self.world.plan.queues[queue]
        groups, requests = world.regions.regions[world.regions.classes[class_id].region].groups, world.open_requests
        for at, id_ in enumerate(names):
            request = requests.get(id_)
            if request is not None and request.job.group.id in groups and not request.at_target:
                return at, request
        return len(names), False

    def _search(self, session: Session) -> Request | None:
        """Who gets it, in the list of its region."""
        world, device = self.world, session.device
        id_, cooling, now = device.id, device.cooling, world.now
        takers = (
            request
            for request in self.candidates(device)
            if request.places > request.placed + request.counted
            and id_ not in request.used
            and not (cooling and _cools(device, request, now))
        )
        if world.plan.mode is Mode.ORDERED:
            return next(takers, None)
        able = list(takers)
        if world.plan.targets:
            able = [request for request in able if not request.at_target] or able
        if not able:
            return None
        return able[index(draw(world.settings.seed, Purpose.MATCH, session.seq, session.draws), len(able))]

    def _forget(self, before: Plan, plan: Plan) -> None:
        """What was known by the plan before and may be otherwise by this one.

        Where regions and owners are the same and a queue begins alike, so is who comes first: most plans change little.
        """
        self._candidates.clear()
        groups, self._groups = self._groups, self.world.regions.views()
        alike = plan.mode is before.mode and len(plan.queues) == len(before.queues)
        alike = alike and (plan.owner is before.owner or plan.owner == before.owner)
        kept = alike and groups is self._groups and not before.targets and not plan.targets
        for queue, asked in enumerate(self._asked):
            if not asked or (kept and plan.queues[queue] is before.queues[queue]):
                continue
            same = _alike(before.queues[queue], plan.queues[queue], 1 + max(asked)) if kept else 0
            for at in [at for at in asked if at >= same]:
                for class_id in asked.pop(at):
                    self._firsts[class_id] = None
        if not alike:
            self._asked = [{} for _ in plan.queues]

    def knows_firsts(self) -> bool:
        """Whether what is known of who comes first is what a walk would find now, unless that is over: the slow way."""
        known = [class_id for asked in self._asked for each in asked.values() for class_id in each]
        firsts = [(self._firsts[class_id], self._first_in(self._queue_of(class_id), class_id)[1]) for class_id in known]
        return all(first is found or (first and not first.open) for first, found in firsts)

    def _queue_of(self, class_id: int) -> int:
        """Which one devices of this class try first."""
        return self.world.plan.owner.get(self.world.regions.classes[class_id].region, 0)

    def may_match(self, device: Device) -> bool:
        """Idle, and nothing of its own keeps it from an offer."""
        return device.state is IDLE and not device.quiet and device.resting_until <= self.world.now

    def _match(self, session: Session) -> bool:
        device = session.device
        if device.session is not session or not self.may_match(device):
            return False
        request = self.choose(session)
        if request is None:
            return False
        session.draws += self.world.plan.mode is _UNIFORM
        grant(self.world, session, request)
        return True

    def _match_idle(self) -> None:
        """All idle devices in order of session, until a fill asks for another plan."""
        world = self.world
        dry: set[tuple[RegionId, int]] = set()  # devices that nothing can take: no look-ups for the rest of them
        waiting: list[tuple[SessionSeq, Session]] = []
        for sessions in world.idle.values():
            if self._by_tier or self._has_demand(next(iter(sessions.values())).device):
                waiting.extend(sessions.items())
        for _, session in sorted(waiting, key=lambda item: item[0]):
            region = world.regions.region_of(session.device.capability_class)
            alike = (region, session.device.tier if self._by_tier else NO_TIER)
            if alike in dry:
                continue
            if self._match(session):
                if world.dirty:
                    return
            elif region != world.regions.overflow and not self._has_demand(session.device):
                dry.add(alike)

    def _has_demand(self, device: Device) -> bool:
        """Whether a device like this could be taken, were it not cooling, and not used up."""
        return device.capability_class == OVERFLOW or any(request.unmet > 0 for request in self.candidates(device))

    def _list(self, region: RegionId, device: Device) -> Candidates:
        found: list[Request] = []
        eligible = partial(  # as it is now: it may come back as another before the list is gone through
            self.world.regions.eligible,
            class_id=device.capability_class,
            device=device.id,
            capabilities=device.capabilities,
        )
        rest = self._in_turn(region, device.tier, eligible, found)
        if self.world.plan.mode is _UNIFORM:  # drawn from by chance they go by job
            found = sorted(rest, key=lambda request: (request.job.arrival, request.job.id))
        return Candidates(found, rest)

    def _in_turn(
        self, region: RegionId, tier: int, eligible: Callable[[Group], bool], found: list[Request]
    ) -> Iterator[Request]:
        """The open requests that a device may be leased to: of the region's owner, then of the other queues.

        First those below their target.
        """
        world, plan = self.world, self.world.plan
        owner = plan.owner.get(region)
        order = (
            range(len(plan.queues)) if owner is None else (owner, *range(owner), *range(owner + 1, len(plan.queues)))
        )
        for at_target in (False, True) if plan.targets else (False,):
            for id_ in chain.from_iterable(plan.queues[queue] for queue in order):
                request = world.open_requests.get(id_)
                if (
                    request is not None
                    and request.at_target == at_target  # so until the next plan: passing it asks for one
                    and eligible(request.job.group)
                    and (tier == EVERY_TIER or is_within(tier, request.tier, or_faster=plan.or_faster))
                ):
                    found.append(request)
                    yield request

    def _make_plan(self) -> None:
        world = self.world
        world.plan_number += 1
        before, view = world.plan, self.views.make()
        plan = self.policy.plan(view)
        if problem := flaw(plan, view, before):
            raise self._error(problem)
        self._aim(before, plan)
        world.plan = plan
        self._forget(before, plan)
        self._decide(plan)
        world.supply.plan_made(view.supply)
        world.effects.append(AdoptPlan(world.plan_number))

    def _aim(self, before: Plan, plan: Plan) -> None:
        """How many places requests are to have before others get spare ones. Raises PlanError."""
        requests = self.world.open_requests
        for id_ in before.targets:
            if (request := requests.get(id_)) is not None:
                request.target = request.places
        for id_, target in plan.targets.items():
            request = requests.get(id_)
            if request is None or request.asynchronous or not request.needed <= target <= request.places:
                raise self._error(f"request {id_} is not to have a target of {target} places")
            request.target = target

    def _decide(self, plan: Plan) -> None:
        """Which tiers requests are for, and when the plan is to be looked at again. Raises PlanError."""
        world = self.world
        for id_, tier in plan.tiers.items():
            request = world.open_requests.get(id_)
            if request is None or not (tier == ANY_TIER or _may_restrict(request, tier, world.tiers.number)):
                raise self._error(f"{request or f'request {id_}'} is not to be restricted to tier {tier}")
            if tier >= 0:
                request.tier = tier
                world.changed[id_] = request
                world.note(request.job, "RESTRICTED", f"{request} to {tier_text(tier, world.tiers.number)}")
            else:
                lift(world, request)
        if self._by_tier or any(tier >= 0 for tier in plan.tiers.values()):
            self._by_tier = self._is_by_tier()
        if plan.review_at is not None:
            world.deadlines.set(Kind.REVIEW, 0, plan.review_at)

    def _error(self, what: str) -> PlanError:
        """What is wrong with the plan that was made last."""
        world = self.world
        return PlanError(f"plan {world.plan_number} of policy {self.policy.name} at {world.now:.3f} s: {what}")

    def lift_all(self) -> None:
        """Lift all restrictions: another policy need not know what they are."""
        for request in self.world.open_requests.values() if self._by_tier else ():
            if request.tier >= 0:
                lift(self.world, request)

    def _rest(self, session: Session) -> None:
        """A device that was not taken: it is looked at again when something that keeps it ends, or sent away."""
        world, device = self.world, session.device
        settings, now = world.settings, world.now
        if len(world.sessions) > settings.most_sessions:
            self._send_away(session, ComeBackReason.OVERLOAD, len(world.sessions))
            return
        wakes = [device.resting_until] if device.resting_until > now else []
        if device.cooling:
            wakes.extend(cooling.until for cooling in device.cooling.values() if cooling.until > now)
        if not world.regions.wanted(device.capability_class, device.id, device.capabilities):
            patience_ends = session.waits_since + settings.no_work_patience_s
            if patience_ends <= now:
                self._send_away(session, ComeBackReason.NO_WORK, world.device_counts[IDLE])
                return
            wakes.append(patience_ends)
        session.wake_at = min(wakes, default=None)
        if session.wake_at is not None:
            world.deadlines.set(Kind.WAKE, session.seq, session.wake_at)

    def _send_away(self, session: Session, reason: ComeBackReason, devices: int) -> None:
        """Send away until a moment drawn from a window in which so many devices come back at the wanted rate."""
        world = self.world
        world.leave_idle(session)
        world.move(session.device, DISMISS)
        send_away(world, session, reason, come_back_s(world, session, devices))


def _may_restrict(request: Request, tier: int, number: int) -> bool:
    """Whether a tier may restrict it: none was decided yet, and a deadline would end the restriction at the latest."""
    return request.tier == UNDECIDED and 0 <= tier < number and request.deadline_at < math.inf


def lift(world: World, request: Request) -> None:
    """Let a request be for all tiers from now on: it was restricted, or was never to be."""
    world.changed[request.id] = request
    if request.tier >= 0:
        request.tier = LIFTED
        world.note(request.job, "LIFTED", f"{request} is for all tiers again")
    elif request.tier == UNDECIDED:
        request.tier = ANY_TIER


def _may_take(request: Request, device: Device, world: World) -> bool:
    """Whether it is for this device's tier, as those in its list are, and nothing that was between the two bars it."""
    return (
        (request.tier < 0 or is_within(device.tier, request.tier, or_faster=world.plan.or_faster))
        and not (request.used and device.id in request.used)
        and not (device.cooling and _cools(device, request, world.now))
    )


def _alike(before: Sequence[RequestId], after: Sequence[RequestId], most: int) -> int:
    """How many of the first ``most`` are the same, up to one that is not."""
    pairs = zip(before[:most], after[:most], strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after), most))


def _cools(device: Device, request: Request, now: float) -> bool:
    cooling = device.cooling.get(request.job.id)
    return cooling is not None and cooling.until > now
