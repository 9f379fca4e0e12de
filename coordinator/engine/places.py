"""Places of requests: how leases take them and give them back, and what that does to the plan.

A place that is taken or given back changes the plan's inputs when the request reaches its target or falls below it,
becomes full or stops being full, unless it is asynchronous.
"""

from coordinator.engine.effects import FillAttempt
from coordinator.engine.lifecycle import JOB, REQUEST, JobStep, RequestStep, advance
from coordinator.engine.state import Lease, Request
from coordinator.engine.world import World


def take(world: World, request: Request) -> None:
    """Take a place for a lease."""
    request.placed += 1
    world.changed[request.id] = request
    check_full(world, request)


def check_full(world: World, request: Request) -> None:
    """Note one place less unmet. At its target, and full: the plan changes. The first time it is full the scheduling
    delay ends.

    Asynchronously the plan stays: a full request is skipped, and has a place again soon.
    """
    if request.ended_at is not None:
        return
    taken = request.placed + request.counted
    if taken < request.places:
        if taken == request.target:
            world.dirty = True
        return
    world.dirty = world.dirty or not request.asynchronous
    if request.filled_at is None:
        job = request.job
        request.filled_at = world.now
        request.state = advance(REQUEST, request.state, RequestStep.FILL, request, job.history)
        job.state = advance(JOB, job.state, JobStep.FILL, job.id, job.history)
        world.note(job, "FILLED", str(request))
        world.effects.append(FillAttempt(request.id, job.id, request.round, request.attempt))


def give_back(world: World, lease: Lease) -> None:
    """A place without a response."""
    request, profiles = lease.request, lease.request.job.profiles
    if request.open and not request.asynchronous and profiles is not None:
        profiles.lose(world.now - lease.granted_at, chosen=request.chosen)
    unplace(world, request)


def unplace(world: World, request: Request) -> None:
    """Free a lease's place."""
    request.placed -= 1
    if not request.open:
        return
    world.changed[request.id] = request
    if request.asynchronous:
        world.vacant = world.vacant or request.unmet == 1
    elif request.unmet == 1 or request.placed + request.counted == request.target - 1:
        world.dirty = True
