"""A coordinator that comes back after it was killed or stopped: the same engine goes on, and the streams are gone.

Nothing that fell into the time without a coordinator ends anything at once. Sessions of devices without a lease in hand
are over. A device with one has the recovery grace to come back: until then its session stays, unheard, and its lease
keeps its place. It resumes when the device checks in and names it, at any time it wants. Deadlines and expiries that
have passed, or pass within the grace, wait for its end. Drivers are away from now on; they follow again by themselves.
"""

from coordinator.engine.deadlines import Kind
from coordinator.engine.events import CoordinatorRestarted, DeviceCheckedIn
from coordinator.engine.failures import DRIVER_AWAY, pause
from coordinator.engine.jobs import goes_away
from coordinator.engine.leases import accept, lose
from coordinator.engine.lifecycle import OFFERED
from coordinator.engine.model import SessionEnd
from coordinator.engine.state import Session
from coordinator.engine.world import World

_RESTARTED = SessionEnd.COORDINATOR_RESTARTED


def restart(world: World, event: CoordinatorRestarted) -> None:
    """Go on after a restart. This is done before what is due, which waits as long as devices and drivers may take."""
    until = world.now + world.settings.recovery_grace_s
    world.draining, world.recovering_until = world.draining and not event.stopped, until
    for request in world.open_requests.values():
        request.deadline_at = max(request.deadline_at, until)
        world.changed[request.id] = request
    for lease in world.leases.values():
        lease.accept_by, lease.ends_at = max(lease.accept_by, until), max(lease.ends_at, until)
    for job in world.jobs.values():
        if job.ended:
            continue
        goes_away(world, job)
        if DRIVER_AWAY not in job.pauses:
            pause(world, job, DRIVER_AWAY, "its coordinator was restarted")
    for session in sorted(world.sessions.values(), key=lambda session: session.seq):
        if session.device.lease is None:
            lose(world, session, _RESTARTED)
        else:
            session.unheard = session.device.quiet = True
    world.dirty = True
    world.deadlines.set(Kind.RECOVERY, 0, until)


def recovering_until(world: World, _: int) -> float | None:
    return world.recovering_until


def give_up(world: World, _: int) -> None:
    """End the sessions of devices that have not come back within the recovery grace."""
    world.recovering_until = None
    for session in sorted(world.sessions.values(), key=lambda session: session.seq):
        if session.unheard:
            lose(world, session, _RESTARTED)


def come_back(world: World, session: Session, event: DeviceCheckedIn) -> None:
    """End an unheard session whose device checks in. An offer that it names it had accepted."""
    lease = session.device.lease
    if lease is not None and lease.state is OFFERED and any(one.lease == lease.seq for one in event.held):
        accept(world, lease)
    lose(world, session, _RESTARTED)
