"""Invariants: what must always hold between two events, and that the state is in one piece.

The numbers are those of docs/architecture.md.
"""

import math
from collections import Counter
from collections.abc import Callable

from coordinator.engine.deadlines import Kind
from coordinator.engine.lifecycle import DeviceState, InvariantError, LeaseState, tell
from coordinator.engine.matching import Matcher
from coordinator.engine.model import LeaseEnd
from coordinator.engine.regions import OVERFLOW
from coordinator.engine.state import Device, Lease, Request, Session
from coordinator.engine.tiers import is_within
from coordinator.engine.world import World

_IN_HAND = (LeaseState.OFFERED, LeaseState.RUNNING)


def check(world: World, matcher: Matcher) -> None:
    """Check all invariants. Raises InvariantError at the first that does not hold."""
    for device in world.devices.values():
        _check_device(world, device)
    for lease in world.leases.values():
        _check_lease(world, lease)
    for request in world.requests.values():
        _check_request(request)
    _check_sums(world)
    need(matcher.views.seen() == matcher.views.anew(), lambda: "a view would not show requests as they are")
    if not world.is_unsettled():  # in the midst of a turn devices may wait for its end
        need(matcher.knows_firsts(), lambda: "a look-up would not find who comes first")
        _check_work_conservation(world, matcher)


def _check_device(world: World, device: Device) -> None:
    """Check that a device has one lease at most, and that its state, its session and the pool of idle devices agree."""
    session, lease = device.session, device.lease

    def need(holds: bool, what: str) -> None:
        if not holds:
            raise InvariantError(f"{device.id} in {device.state}: {what}. Before: {'; '.join(tell(device.history))}")

    need(
        lease is None or (lease.device is device and world.leases.get(lease.seq) is lease), "holds a lease that is over"
    )
    need((session is None) == (device.id in world.gone), "is listed as gone with a session, or not listed without one")
    if session is None:
        need(device.state in (DeviceState.GONE, DeviceState.SERVED), "has no session")
        need(lease is None or lease.state is LeaseState.ABSENT, "holds a lease without a session")
        return
    need(world.sessions.get(session.seq) is session and session.device is device, "its session is not listed")
    need(device.state is not DeviceState.GONE, "has a session")
    need(lease is None or lease.state in _IN_HAND, "is back, and its lease is not")
    busy = lease is not None or bool(device.stopping)
    need(not busy or device.state is not DeviceState.IDLE, "is idle and holds something")
    need(busy or device.state is not DeviceState.BUSY, "is busy with nothing")
    pooled = session.seq in world.idle.get(device.capability_class, {})
    need(pooled == (device.state is DeviceState.IDLE), "and the pool of idle devices differ")
    due = min((one.until for one in device.stopping.values()), default=None)
    hint = world.deadlines.hint(Kind.STOP, device.id)
    bounded = due is None or (hint is not None and hint <= due and due >= world.now)
    need(bounded or due == world.settings.liveness_s == math.inf, "would stay busy for ever")  # inf: nobody is silent


def _check_lease(world: World, lease: Lease) -> None:
    """Live, eligible, in its device's hand where it is not between hands, and bounded in time (invariants 1 and 3)."""
    device, request = lease.device, lease.request

    def need(holds: bool, what: str) -> None:
        if not holds:
            raise InvariantError(
                f"{lease} of {request}, {lease.state}: {what}. Before: {'; '.join(tell(device.history))}"
            )

    need(lease.state is not LeaseState.ENDED, "has ended and is listed as live")
    need(request.leases.get(lease.seq) is lease, "its request does not know it")
    need(
        request.job.spec.requirement.matches(device.id, lease.capabilities),
        f"{device.id} is not eligible",
    )
    if lease.state in _IN_HAND:
        need(device.lease is lease, f"{device.id} holds another lease, or none")
        need(device.session is not None and device.session.seq == lease.session, f"{device.id} is in another session")
    due = lease.accept_by if lease.state is LeaseState.OFFERED else lease.ends_at
    most = due + world.settings.driver_grace_s
    hint = world.deadlines.hint(Kind.LEASE, lease.seq)
    need(hint is not None and hint <= most and world.now <= most, "has outlived its expiry")
    need(0.0 <= lease.extended_s <= world.settings.driver_grace_s, "its expiry was put off too far")
    need(not request.job.ended, "its job has ended")


def _check_request(request: Request) -> None:
    """Places (invariant 1), responses that count once (2), times that add up (6)."""

    def need(holds: bool, what: str) -> None:
        if not holds:
            raise InvariantError(f"{request}, {request.state}: {what}. Before: {'; '.join(tell(request.job.history))}")

    need(request.placed == request.recount(), f"{request.placed} places taken, by count {request.recount()}")
    need(request.unmet >= 0, f"{request.placed} live + {request.counted} counted of {request.places} places")
    need(request.responses <= request.needed, f"{request.responses} responses of {request.needed} needed")
    need(not (request.counted if request.asynchronous else request.held), "responses keep places as the other kind")
    _check_repeats(request, need)
    if not request.purged and request.open:
        recorded = sum(lease.counts_in == request.round for lease in request.counted_leases())
        need(recorded == request.responses, f"{recorded} leases recorded, {request.responses} counted")
    rounds = [round_ for (round_, _), one in request.job.attempts.items() if one is request]
    need(rounds == list(range(request.round - len(rounds) + 1, request.round + 1)), f"its rounds are {rounds}")
    need(request.offered <= (request.round, request.attempt), f"offers round {request.offered[0]}")
    need(request.tier < 0 or request.deadline_at < math.inf, "is restricted without an end")
    need(request.open == (request.job.request is request), "its job has another open attempt")
    if request.ended_at is None:
        need(request.responses < request.needed, "has enough responses and is open")
        need(request.filled_at is not None or request.unmet > 0, "is full and was never filled")
        return
    filled = request.filled_at
    need(filled is not None and request.opened_at <= filled <= request.ended_at, "its times do not add up")


def _check_repeats(request: Request, need: Callable[[bool, str], None]) -> None:
    """A device counts once in a round, unless its job allows more; it is known who is used up."""
    if request.purged or not request.once:
        return
    counted = Counter((lease.device.id, lease.counts_in) for lease in request.counted_leases() if lease.counts_in)
    twice = next((device for (device, _), times in counted.items() if times > 1), None)
    need(twice is None, f"{twice} counts twice in a round")
    used = {lease.device.id for lease in request.leases.values() if request.uses(lease)}
    need(not request.open or used == request.used.keys(), f"{sorted(used ^ request.used.keys())} are used up, or not")


def _check_sums(world: World) -> None:
    """Leases and devices add up (invariant 6)."""
    need(
        world.leases_granted == sum(world.ends.values()) + len(world.leases),
        lambda: f"{world.leases_granted} leases granted, {dict(world.ends)} ended, {len(world.leases)} live",
    )
    need(world.ends[LeaseEnd.UNKNOWN] == 0, lambda: "a lease of ours ended UNKNOWN")
    states = Counter(device.state for device in world.devices.values())
    need(
        all(states[state] == count for state, count in world.device_counts.items()),
        lambda: f"devices by state {dict(states)}, counted {world.device_counts}",
    )
    taken = sum(device.capabilities.memory_bytes for device in world.devices.values())
    need(taken == world.device_bytes, lambda: f"devices take {taken} bytes, counted {world.device_bytes}")
    for job in world.jobs.values():
        live = sum(lease.request.job is job for lease in world.leases.values())
        if job.live != live:
            raise InvariantError(f"{job.id}: {job.live} live leases, by count {live}")
    classes = Counter(device.capability_class for device in world.devices.values())
    regions = world.regions
    need(
        classes[OVERFLOW] == regions.overflow_devices
        and all(classes[class_id] == one.devices for class_id, one in enumerate(regions.classes)),
        lambda: "devices by capability class do not add up",
    )


def need(holds: bool, what: Callable[[], str]) -> None:
    if not holds:
        raise InvariantError(what())


def _check_work_conservation(world: World, matcher: Matcher) -> None:
    """Check that no idle device waits which a request could take (4): it rests, cools, or the plan gives the reason."""
    wanting = [request for request in world.open_requests.values() if request.unmet > 0 and request.job.servable]
    if not wanting:
        return
    used = {device for request in wanting for device in request.used}
    alike: set[tuple[int, int]] = set()
    for session in world.idle_sessions():
        device = session.device
        plain = not device.cooling and device.capability_class != OVERFLOW and device.id not in used
        kind = (device.capability_class, device.tier)
        if not matcher.may_match(device) or (plain and kind in alike):
            continue
        if plain:
            alike.add(kind)
        _check_idle(world, matcher, session, wanting)


def _check_idle(world: World, matcher: Matcher, session: Session, wanting: list[Request]) -> None:
    device = session.device
    taker = matcher.choose(session)
    if taker is not None:
        raise InvariantError(f"{device.id} waits, and {taker} could take it. Before: {'; '.join(tell(device.history))}")
    for request in wanting:
        cooling = device.cooling.get(request.job.id)
        if device.id in request.used or (cooling is not None and cooling.until > world.now):
            continue
        if not is_within(device.tier, request.tier, or_faster=world.plan.or_faster):  # its deadline ends that, at last
            continue
        eligible = world.regions.eligible(request.job.group, device.capability_class, device.id, device.capabilities)
        if eligible and request.job.id not in world.plan.reasons:
            raise InvariantError(f"{device.id} waits, {request} could take it, and the plan does not say why not")
