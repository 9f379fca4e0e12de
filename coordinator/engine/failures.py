"""Failures: a (device, job) pair that failed cools, and a job whose tasks crash on several devices is paused."""

from coordinator.engine.cooling import cool
from coordinator.engine.effects import PauseJob, ResumeJob
from coordinator.engine.leases import end
from coordinator.engine.lifecycle import PLACED, DeviceState
from coordinator.engine.model import FailureReason, LeaseEnd, Phase
from coordinator.engine.regions import OVERFLOW
from coordinator.engine.state import Job, Lease, Request
from coordinator.engine.world import World

DRIVER_AWAY = "DRIVER_AWAY"
JOB_CRASHES = "JOB_CRASHES"

# What the job is to blame for if it happens on one device after the other.
_JOB_FAULTS = frozenset(
    {
        FailureReason.TASK_CRASHED,
        FailureReason.CODE_NOT_ALLOWED,
        FailureReason.DATA_MISSING,
        FailureReason.RESPONSE_REJECTED,
    }
)


def fail(world: World, lease: Lease, phase: Phase | None, reason: FailureReason, message: str) -> None:
    """End a lease whose task failed, as its device says. One that cannot reach a driver that is away does not cool."""
    job = lease.request.job
    if job.followed or reason is not FailureReason.DRIVER_UNREACHABLE:
        cool(world, lease.device, job)
    count_crash(world, lease, reason, message)
    end(world, lease, LeaseEnd.FAILED, phase=phase, failure=reason, message=message)


def decline(world: World, lease: Lease, reason: FailureReason, retry_after_s: float, message: str) -> None:
    """End a lease that its device declined. BUSY is about the device, anything else about it and this job."""
    settings, device = world.settings, lease.device
    wait_s = min(max(retry_after_s, 0.0), settings.cooling_most_s)
    if reason is FailureReason.BUSY:
        device.resting_until = world.now + (wait_s or settings.cooling_first_s)
    else:
        cool(world, device, lease.request.job, wait_s)
        count_crash(world, lease, reason, message)
    end(world, lease, LeaseEnd.DECLINED, failure=reason, message=message)


def reject(world: World, lease: Lease) -> None:
    """End a lease whose response the driver refused."""
    cool(world, lease.device, lease.request.job)
    count_crash(world, lease, FailureReason.RESPONSE_REJECTED, "its driver refused the response")
    end(world, lease, LeaseEnd.REJECTED)


def count_crash(world: World, lease: Lease, reason: FailureReason, message: str) -> None:
    """Count the devices on which the present round failed by the job's own fault; pause it unless they are few of many.

    It is paused when they are ``crashes_to_pause``, and as many as all others that serve the round, or have, or wait
    and could. So a handful of devices with bad data or bad intent, or whose owners do not allow the code, ends no job
    that others can serve; one whose code is broken everywhere is paused once half of them have failed.
    """
    job, device = lease.request.job, lease.device
    if reason not in _JOB_FAULTS or lease.request is not job.request:
        return
    job.crashed.setdefault(device.id, (reason, "" if job.crashed else message))
    serve = lease.request.responses + lease.request.placed - (lease.state in PLACED)
    count = len(job.crashed)
    if count < max(world.settings.crashes_to_pause, serve) or JOB_CRASHES in job.pauses:
        return
    if count >= serve + _waiting(world, lease.request):
        first, (what, text) = next(iter(job.crashed.items()))
        pause(world, job, JOB_CRASHES, f"{what} on {count} devices in round {job.request.round}; first {first}: {text}")


def _waiting(world: World, request: Request) -> int:
    """How many idle devices could serve the round, beside those that have failed in it or served it."""
    job, regions = request.job, world.regions
    able = 0
    for class_id, sessions in world.idle.items():
        if class_id == OVERFLOW or job.group.id in regions.regions[regions.classes[class_id].region].groups:
            able += len(sessions)
    failed = sum(1 for id_ in job.crashed if id_ in world.devices and world.devices[id_].state is DeviceState.IDLE)
    return max(0, able - failed - len(request.used))


def forget_crashes(world: World, job: Job) -> None:
    """Forget what has crashed so far; a job that was paused for it goes on."""
    job.crashed.clear()
    unpause(world, job, JOB_CRASHES)


def pause(world: World, job: Job, reason: str, message: str) -> None:
    """Pause a job: nothing is leased to it until the reason is lifted."""
    job.pauses[reason] = message
    world.change(job)
    world.note(job, "PAUSED", f"{reason}: {message}")
    world.effects.append(PauseJob(job.id, reason, message))


def unpause(world: World, job: Job, reason: str) -> None:
    """Take a reason to pause away; with the last one the job goes on."""
    if job.pauses.pop(reason, None) is not None and not job.pauses:
        world.change(job)
        world.note(job, "RESUMED")
        world.effects.append(ResumeJob(job.id))
