"""Deadlines of each kind: when one is really due by the present state, and what happens then.

Looked up by kind, for this runs several times for every lease.
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.engine import jobs, recovery
from coordinator.engine.attempts import abort
from coordinator.engine.deadlines import Kind
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.leases import close, end, expiry, free
from coordinator.engine.lifecycle import ABSENT, OFFERED
from coordinator.engine.model import AttemptEndReason, LeaseEnd, SessionEnd
from coordinator.engine.world import World


def _attempt_at(world: World, key: RequestId) -> float | None:
    request = world.open_requests.get(key)
    return None if request is None else request.deadline_at


def _attempt(world: World, key: RequestId) -> None:
    abort(world, world.open_requests[key], AttemptEndReason.DEADLINE)


def _lease_at(world: World, key: LeaseSeq) -> float | None:
    lease = world.leases.get(key)
    if lease is None:
        return None
    return lease.accept_by if lease.state is OFFERED else expiry(world, lease)


_LEASE_ENDS = {OFFERED: LeaseEnd.UNACCEPTED, ABSENT: LeaseEnd.LOST}


def _lease(world: World, key: LeaseSeq) -> None:
    lease = world.leases[key]
    end(world, lease, _LEASE_ENDS.get(lease.state, LeaseEnd.EXPIRED))


def _stop_at(world: World, key: DeviceId) -> float | None:
    device = world.devices.get(key)
    if device is None or not device.stopping:
        return None
    return min([one.until for one in device.stopping.values()])


def _stop(world: World, key: DeviceId) -> None:
    device, now = world.devices[key], world.now
    device.stopping = {seq: one for seq, one in device.stopping.items() if one.until > now}
    if device.stopping:
        world.deadlines.set(Kind.STOP, key, min(one.until for one in device.stopping.values()))
    free(world, device)


def _driver_at(world: World, key: JobId) -> float | None:
    job = world.jobs.get(key)
    return None if job is None else jobs.driver_due(world, job)


def _driver(world: World, key: JobId) -> None:
    jobs.driver_gone(world, world.jobs[key])


def _leave_at(world: World, key: SessionSeq) -> float | None:
    session = world.sessions.get(key)
    return None if session is None else session.leave_by


def _leave(world: World, key: SessionSeq) -> None:
    close(world, world.sessions[key], SessionEnd.SENT_AWAY)


def _tick_at(world: World, _: int) -> float:
    return world.supply.next_tick


def _tick(world: World, _: int) -> None:
    world.supply.tick(world.now)
    world.tiers.tick(world.now)
    world.deadlines.set(Kind.TICK, 0, world.supply.next_tick)
    if world.open_requests and world.supply.moved(world.supply.by_region(world.regions)):
        world.dirty = True


def _review_at(world: World, _: int) -> float | None:
    return world.plan.review_at


def _review(world: World, _: int) -> None:
    world.dirty = True


def _wake_at(world: World, key: SessionSeq) -> float | None:
    session = world.sessions.get(key)
    return None if session is None else session.wake_at


def _wake(world: World, key: SessionSeq) -> None:
    session = world.sessions[key]
    session.wake_at = None
    world.fresh.append(session)


_DEADLINES: Mapping[Kind, tuple[Callable[[World, Any], float | None], Callable[[World, Any], None]]] = {
    Kind.ATTEMPT: (_attempt_at, _attempt),
    Kind.LEASE: (_lease_at, _lease),
    Kind.STOP: (_stop_at, _stop),
    Kind.DRIVER: (_driver_at, _driver),
    Kind.LEAVE: (_leave_at, _leave),
    Kind.TICK: (_tick_at, _tick),
    Kind.REVIEW: (_review_at, _review),
    Kind.WAKE: (_wake_at, _wake),
    Kind.RECOVERY: (recovery.recovering_until, recovery.give_up),
}
DUE_AT = {kind: at for kind, (at, _) in _DEADLINES.items()}  # when (kind, key) is really due; None: no longer
ON_DUE = {kind: happen for kind, (_, happen) in _DEADLINES.items()}
