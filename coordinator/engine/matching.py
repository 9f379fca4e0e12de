"""The life of a plan, and matching by it.

A plan is remade when its inputs have changed (``World.dirty``), at the end of an event and with its ``now``. Between
plans nothing is reordered. Matching a device is a look-up among the candidates of its region, listed once per plan and
region. After a new plan idle devices are matched in the order of their sessions; a fill makes the next plan, and the
matching goes on with that.
"""

from coordinator.engine.chance import Purpose, draw, fraction, index
from coordinator.engine.deadlines import Kind
from coordinator.engine.effects import AdoptPlan
from coordinator.engine.ids import JobId, RegionId, SessionSeq
from coordinator.engine.leases import grant, send_away
from coordinator.engine.lifecycle import DeviceState, DeviceStep
from coordinator.engine.model import ComeBackReason
from coordinator.engine.plan import Mode, Plan, Policy, RequestView, View
from coordinator.engine.regions import OVERFLOW
from coordinator.engine.state import Device, Job, Request, Session
from coordinator.engine.world import World


class Matcher:
    def __init__(self, world: World, policy: Policy) -> None:
        self.world = world
        self.policy = policy
        self._candidates: dict[RegionId, list[Request]] = {}  # by the present plan

    def settle(self) -> None:
        """At the end of an event: match what became matchable, with a new plan if the inputs have changed."""
        world = self.world
        if not world.fresh and not world.dirty:
            return
        fresh = sorted(world.fresh, key=lambda session: session.seq) if len(world.fresh) > 1 else world.fresh
        world.fresh = []
        for session in fresh:
            if world.dirty:
                break
            self._match(session)
        while world.dirty:
            world.dirty = False
            self._make_plan()
            self._match_idle()
        for session in fresh:
            self._rest(session)

    def candidates(self, device: Device) -> list[Request]:
        """The requests that a device like this may be leased to, in the plan's order, full ones included."""
        klass = device.klass
        if klass == OVERFLOW:
            return self._list(self.world.regions.overflow, device)
        region = self.world.regions.classes[klass].region
        listed = self._candidates.get(region)
        if listed is None:
            listed = self._candidates[region] = self._list(region, device)
        return listed

    def choose(self, session: Session) -> Request | None:
        """Who gets this device now."""
        device, now = session.device, self.world.now
        cooling = device.cooling
        if self.world.plan.mode is Mode.UNIFORM:
            able = [
                request for request in self.candidates(device) if request.unmet > 0 and not _cools(device, request, now)
            ]
            if not able:
                return None
            return able[index(draw(self.world.settings.seed, Purpose.MATCH, session.seq, session.draws), len(able))]
        for request in self.candidates(device):
            if request.unmet > 0 and not (cooling and _cools(device, request, now)):
                return request
        return None

    def may_match(self, device: Device) -> bool:
        """Idle, and nothing of its own keeps it from an offer."""
        return device.state is DeviceState.IDLE and not device.quiet and device.resting_until <= self.world.now

    def _match(self, session: Session) -> bool:
        device = session.device
        if device.session is not session or not self.may_match(device):
            return False
        request = self.choose(session)
        if request is None:
            return False
        session.draws += self.world.plan.mode is Mode.UNIFORM
        grant(self.world, session, request)
        return True

    def _match_idle(self) -> None:
        """All idle devices in order of session, until a fill asks for another plan."""
        world = self.world
        dry: set[RegionId] = set()  # regions that nothing can take: no look-ups for the rest of them
        waiting: list[tuple[SessionSeq, Session]] = []
        for sessions in world.idle.values():
            if sessions and self._has_demand(next(iter(sessions.values())).device):
                waiting.extend(sessions.items())
        for _, session in sorted(waiting, key=lambda item: item[0]):
            region = world.regions.region_of(session.device.klass)
            if region in dry:
                continue
            if self._match(session):
                if world.dirty:
                    return
            elif region != world.regions.overflow and not self._has_demand(session.device):
                dry.add(region)

    def _has_demand(self, device: Device) -> bool:
        """Could a device like this be taken, were it not cooling?"""
        return device.klass == OVERFLOW or any(request.unmet > 0 for request in self.candidates(device))

    def _list(self, region: RegionId, device: Device) -> list[Request]:
        """The open requests of a region by the plan, each once; drawn from by chance they go by job."""
        world, plan = self.world, self.world.plan
        listed: dict[Request, None] = {}
        for queue in plan.orders.get(region, plan.default):
            for id_ in plan.queues[queue]:
                request = world.open_requests.get(id_)
                if request is not None and world.regions.eligible(
                    request.job.group, device.klass, device.id, device.capabilities
                ):
                    listed[request] = None
        if plan.mode is Mode.UNIFORM:
            return sorted(listed, key=lambda request: (request.job.arrival, request.job.id))
        return list(listed)

    def _make_plan(self) -> None:
        world = self.world
        world.plan_number += 1
        supply = world.supply.by_region(world.regions.region_of)
        world.plan = self.policy.plan(self._view(supply))
        world.supply.plan_made(supply)
        self._candidates.clear()
        world.emit(AdoptPlan(world.plan_number, _reasons(world, world.plan)))

    def _view(self, supply: dict[RegionId, int]) -> View:
        world = self.world
        requests = [
            _request_view(request, world.now)
            for request in world.open_requests.values()
            if request.unmet > 0 and request.job.servable
        ]
        requests.sort(key=lambda view: (view.arrival, view.job, view.request))
        return View(
            now=world.now,
            seed=world.settings.seed,
            plan_number=world.plan_number,
            groups=world.regions.views(),
            requests=tuple(requests),
            supply=supply,
            supply_span_s=world.supply.span_s,
        )

    def _rest(self, session: Session) -> None:
        """A device that was not taken: it is looked at again when something that keeps it ends, or sent away."""
        world, device = self.world, session.device
        if device.session is not session or device.state is not DeviceState.IDLE:
            return
        settings, now = world.settings, world.now
        if len(world.sessions) > settings.most_sessions:
            self._send_away(session, ComeBackReason.OVERLOAD, len(world.sessions))
            return
        wakes = [device.resting_until] if device.resting_until > now else []
        if device.cooling:
            wakes.extend(cooling.until for cooling in device.cooling.values() if cooling.until > now)
        if not world.regions.wanted(device.klass, device.id, device.capabilities):
            patience_ends = session.waits_since + settings.no_work_patience_s
            if patience_ends <= now:
                self._send_away(session, ComeBackReason.NO_WORK, world.device_counts[DeviceState.IDLE])
                return
            wakes.append(patience_ends)
        session.wake_at = min(wakes, default=None)
        if session.wake_at is not None:
            world.deadlines.set(Kind.WAKE, session.seq, session.wake_at)

    def _send_away(self, session: Session, reason: ComeBackReason, crowd: int) -> None:
        """Until a moment drawn from a window in which a crowd comes back at the wanted rate."""
        world, settings = self.world, self.world.settings
        window_s = max(settings.heartbeat_s, crowd / settings.come_back_per_s)
        after_s = window_s * fraction(draw(settings.seed, Purpose.COME_BACK, session.seq))
        world.leave_idle(session)
        world.move(session.device, DeviceStep.DISMISS)
        send_away(world, session, reason, after_s)


def _cools(device: Device, request: Request, now: float) -> bool:
    cooling = device.cooling.get(request.job.id)
    return cooling is not None and cooling.until > now


def _request_view(request: Request, now: float) -> RequestView:
    job, left = request.job, request.rounds_left
    return RequestView(
        request=request.id,
        job=job.id,
        arrival=job.arrival,
        group=job.group.id,
        remaining=request.unmet,
        remaining_all_rounds=None if left is None else request.unmet + max(left - 1, 0) * request.places,
        attained=job.attained(now),
    )


def _reasons(world: World, plan: Plan) -> tuple[tuple[JobId, str], ...]:
    """The plan's own, and where it rests on past supply that could only be guessed."""
    reasons: dict[JobId, str] = dict(plan.reasons)
    for request in world.open_requests.values():
        note = guessed_supply(request.job)
        if note:
            said = reasons.get(request.job.id)
            reasons[request.job.id] = f"{said}; {note}" if said else note
    return tuple(sorted(reasons.items()))


def guessed_supply(job: Job) -> str:
    """Empty if the past of the job's group is known exactly."""
    shared = job.group.shared
    return f"supply is a guess: {shared} earlier check-ins were shared in proportion" if shared else ""
