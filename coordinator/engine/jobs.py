"""Jobs and their drivers: keys, incarnations, the driver's own lease, and the end.

A driver is alive while its host says that it follows its job (``DriverFollowed``, of the newest follow stream). While
it is away nothing is leased to the job, expiries of its leases wait (at most ``driver_grace_s`` each), and after that
grace its open attempt aborts. A driver of a higher incarnation takes the job up where the older one left it.
"""

import math
from collections.abc import Mapping
from itertools import islice

from coordinator.engine.attempts import abort, answer_open, open_attempt, open_next, purge, record, revoke_leases
from coordinator.engine.deadlines import Kind
from coordinator.engine.effects import AcceptJob, EndJob, RefuseJob
from coordinator.engine.events import (
    AttemptOpened,
    DriverFollowed,
    DriverLost,
    JobEnded,
    JobSubmitted,
    ResponsesRecorded,
)
from coordinator.engine.failures import DRIVER_AWAY, forget_crashes, pause, unpause
from coordinator.engine.ids import JobId
from coordinator.engine.leases import end
from coordinator.engine.lifecycle import JOB, JobStep, advance
from coordinator.engine.model import Asynchronous, AttemptEndReason, AttemptStatus, JobSpec, LeaseEnd, Outcome
from coordinator.engine.state import Device, Job
from coordinator.engine.world import World

# How a lease ends whose device has a receipt when its job ends. One that says COUNTED is for the driver to record.
_RECEIPT_STANDS: Mapping[Outcome | None, LeaseEnd] = {
    Outcome.STRAGGLER: LeaseEnd.STRAGGLER,
    Outcome.REJECTED: LeaseEnd.REJECTED,
}


def submit(world: World, event: JobSubmitted) -> None:
    spec = event.spec
    job = world.jobs.get(spec.job)
    if job is None:
        problem = _problem(spec)
        if problem:
            _refuse(world, spec.job, "BAD_SPEC", problem)
        elif not _make_room(world):
            _refuse(world, spec.job, "TOO_MANY_JOBS", f"{len(world.jobs)} jobs are unfinished; cancel some")
        else:
            _arrive(world, spec, event.incarnation)
        return
    if job.spec != spec:
        _refuse(world, job.id, "KEY_REUSED", "a job of this name exists with another specification; use another run")
    elif _stands(world, job, max(event.incarnation, job.incarnation), event.incarnation):  # a higher one may come
        if event.incarnation > job.incarnation:
            _take_over(world, job, event.incarnation)
        world.effects.append(AcceptJob(job.id, job.request.id if job.request is not None else None))


def follow(world: World, event: DriverFollowed) -> None:
    job = _job_of(world, event.job, event.incarnation)
    if job is None or job.followed:
        return
    away_s = world.now - job.away_since if job.away_since is not None else 0.0
    for request in job.requests():
        for lease in request.live():
            more_s = min(away_s, world.now - lease.granted_at, world.settings.driver_grace_s - lease.extended_s)
            lease.extended_s += more_s
            lease.ends_at += more_s
            world.deadlines.set(Kind.LEASE, lease.seq, lease.ends_at)
    job.followed, job.away_since = True, None
    world.change(job)
    world.note(job, "DRIVER", f"incarnation {job.incarnation} follows")
    unpause(world, job, DRIVER_AWAY)


def lose_driver(world: World, event: DriverLost) -> None:
    """Note that the driver is away. News of a stream of an older driver change nothing."""
    job = world.jobs.get(event.job)
    if job is None or job.ended or event.incarnation != job.incarnation or not job.followed:
        return
    goes_away(world, job)
    pause(world, job, DRIVER_AWAY, "its driver's stream ended")


def open_(world: World, event: AttemptOpened) -> None:
    job = _job_of(world, event.job, event.incarnation)
    if job is None:
        return
    known = job.attempts.get((event.round, event.attempt))
    if known is not None:
        left = known.left_from(event.round)
        if left != event.rounds_left:
            named = f"round {event.round} attempt {event.attempt}"
            _refuse(world, job.id, "KEY_REUSED", f"{job.id} {named} was opened with {left} rounds left")
            return
        if known.open and known.offered < (event.round, event.attempt):
            open_next(world, known)
        answer_open(world, known, event.round, event.attempt)
        return
    if job.request is not None and (event.round, event.attempt) == (job.request.round, job.request.attempt + 1):
        abort(world, job.request, AttemptEndReason.GIVEN_UP)
    problem = _out_of_order(job, event)
    if problem:
        _refuse(world, job.id, "OUT_OF_ORDER", problem)
        return
    request = open_attempt(world, job, event.round, event.attempt, event.rounds_left)
    if not job.followed:
        world.deadlines.set(Kind.DRIVER, job.id, world.now + world.settings.driver_grace_s)
    answer_open(world, request, event.round, event.attempt)


def record_responses(world: World, event: ResponsesRecorded) -> None:
    """Apply what a driver decided, of an ended job as well: its driver may have decided before it ended the job."""
    job = world.jobs.get(event.job)
    if job is None:
        _refuse(world, event.job, "UNKNOWN_JOB", "no such job; submit it first")
        return
    if event.incarnation < job.incarnation:
        _refuse(world, job.id, "SUPERSEDED", f"incarnation {job.incarnation} of its driver has taken over")
        return
    request = job.attempts.get((event.round, event.attempt))
    if request is None:
        _refuse(world, job.id, "OUT_OF_ORDER", f"round {event.round} attempt {event.attempt} was not opened here")
    else:
        record(world, request, event.round, event.attempt, event.responses)


def end_job(world: World, event: JobEnded) -> None:
    job = world.jobs.get(event.job)
    if job is None:
        _refuse(world, event.job, "UNKNOWN_JOB", "no such job")
        return
    if event.incarnation not in (None, job.incarnation):
        _stands(world, job, job.incarnation, event.incarnation)
        return
    if job.ended:
        if job.state.value != event.end.value:
            _refuse(world, job.id, "JOB_ENDED", f"it has {job.state} already")
        return
    if job.request is not None:
        abort(world, job.request, AttemptEndReason.CANCELLED)
    for request in job.requests():
        revoke_leases(world, request)
        for lease in list(request.live()):  # its device has a receipt, its driver says no more
            end(world, lease, _RECEIPT_STANDS.get(lease.receipt, LeaseEnd.REVOKED))
    job.state = advance(JOB, job.state, JobStep(event.end.value), job.id, job.history)
    job.ended_at, job.message = world.now, event.message
    job.followed, job.away_since = False, None
    job.pauses.clear()
    job.profiles = None
    _forget_attempts(world, job)
    world.over[job.id] = None
    _forget_leases(world)
    world.dirty = True
    world.note(job, "ENDED", f"{event.end} {event.message}".rstrip())
    world.effects.append(EndJob(job.id, event.end, event.message))
    world.regions.remove_job(job.group)
    if job.group.jobs == 0:
        world.regions.rebuild()
        look_for_work(world)


def driver_gone(world: World, job: Job) -> None:
    """Abort the open attempt: the grace has passed without a driver."""
    if job.request is not None:
        abort(world, job.request, AttemptEndReason.DRIVER_AWAY)


def driver_due(world: World, job: Job) -> float | None:
    """When the open attempt of a job without a driver aborts."""
    if job.request is None or job.away_since is None:
        return None
    return max(job.away_since, job.request.opened_at) + world.settings.driver_grace_s


def look_for_work(world: World) -> None:
    """Begin the patience of devices that are left without a job to serve, since groups have gone."""
    for sessions in world.idle.values():
        for session in sessions.values():
            if not _is_wanted(world, session.device):
                session.waits_since = world.now
                world.fresh.append(session)


def _is_wanted(world: World, device: Device) -> bool:
    return world.regions.wanted(device.capability_class, device.id, device.capabilities)


def _arrive(world: World, spec: JobSpec, incarnation: int) -> None:
    regions = world.regions
    group = regions.add_job(spec.requirement, spec.requirement_name)
    if group.jobs == 1:
        if regions.has_new_atoms(spec.requirement):
            group.shared = _recut(world)
        regions.rebuild()
    job = Job(spec, group, world.now, incarnation, away_since=world.now)
    world.jobs[job.id] = job
    world.dirty = True
    world.note(job, "ARRIVED", f"incarnation {incarnation}")
    world.effects.append(AcceptJob(job.id, None))


def _recut(world: World) -> int:
    """New comparisons cut the classes of all devices. Returns past check-ins that had to be shared in proportion."""
    done = world.regions.recut(
        (device.id, device.capabilities, device.capability_class, device.check_ins) for device in world.devices.values()
    )
    waiting = list(world.idle_sessions())
    for id_, class_id in done.devices.items():
        world.devices[id_].capability_class = class_id
    world.idle.clear()
    for session in waiting:
        world.idle.setdefault(session.device.capability_class, {})[session.seq] = session
    world.tiers.recut(done.shares)
    return world.supply.recut(done.shares)


def _take_over(world: World, job: Job, incarnation: int) -> None:
    """A restarted driver: it is not followed yet, and what crashed before is forgotten."""
    job.incarnation = incarnation
    if job.followed:
        goes_away(world, job)
    forget_crashes(world, job)
    world.dirty = True
    world.note(job, "DRIVER", f"incarnation {incarnation} takes over")


def goes_away(world: World, job: Job) -> None:
    """Note that the driver is away from now on: its job gets no devices, and its attempt has the driver grace."""
    job.followed, job.away_since = False, world.now
    world.change(job)
    world.deadlines.set(Kind.DRIVER, job.id, world.now + world.settings.driver_grace_s)


def _out_of_order(job: Job, event: AttemptOpened) -> str:
    """Why a new attempt cannot be opened now; empty: it can."""
    latest = job.latest
    if latest is None:
        return ""
    if latest.open:
        return f"{latest} is still open"
    least = (latest.round + 1, 1) if latest.status is AttemptStatus.CLOSED else (latest.round, latest.attempt + 1)
    return "" if (event.round, event.attempt) >= least else f"{latest} came before; open round {least[0]} next"


def _job_of(world: World, id_: JobId, incarnation: int) -> Job | None:
    """The unfinished job, if its present driver speaks; otherwise it is answered."""
    job = world.jobs.get(id_)
    if job is None:
        _refuse(world, id_, "UNKNOWN_JOB", "no such job; submit it first")
        return None
    return job if _stands(world, job, job.incarnation, incarnation) else None


def _stands(world: World, job: Job, expected: int, incarnation: int) -> bool:
    if incarnation < expected:
        _refuse(world, job.id, "SUPERSEDED", f"incarnation {expected} of its driver has taken over")
    elif job.ended:
        _refuse(world, job.id, "JOB_ENDED", f"it has {job.state}")
    elif incarnation > expected:
        _refuse(world, job.id, "OUT_OF_ORDER", f"submit the job with incarnation {incarnation} first")
    else:
        return True
    return False


def _refuse(world: World, job: JobId, reason: str, message: str) -> None:
    world.effects.append(RefuseJob(job, reason, message))


def _problem(spec: JobSpec) -> str:
    """What is wrong with numbers that would break the rules of a round; empty: nothing."""
    if spec.demand < 1:
        return f"demand is {spec.demand}; at least 1"
    if not 0 < spec.min_response <= 1:
        return f"min_response is {spec.min_response}; more than 0, at most 1"
    if spec.over_commit < 0:
        return f"over_commit is {spec.over_commit}; at least 0"
    for name, value in (("deadline_s", spec.deadline_s), ("lease_s", spec.lease_s)):
        if not (math.isfinite(value) and value > 0):
            return f"{name} is {value}; a finite number above 0"
    return _asynchronous_problem(spec.asynchronous, spec) if spec.asynchronous is not None else ""


def _asynchronous_problem(asynchronous: Asynchronous, spec: JobSpec) -> str:
    if asynchronous.buffer < 1:
        return f"buffer is {asynchronous.buffer}; at least 1"
    if asynchronous.max_staleness is not None and asynchronous.max_staleness < 0:
        return f"max_staleness is {asynchronous.max_staleness}; at least 0"
    if spec.over_commit > 0:
        return f"over_commit is {spec.over_commit}; an asynchronous job has none, its demand is what it keeps busy"
    return ""


def _make_room(world: World) -> bool:
    """Forget the job that ended first if there are too many. False: all are unfinished."""
    if len(world.jobs) < world.settings.most_jobs:
        return True
    oldest = next(iter(world.over), None)
    if oldest is None:
        return False
    del world.over[oldest]
    for request in world.jobs.pop(oldest).requests():
        purge(world, request)
        del world.requests[request.id]
    return True


def _forget_leases(world: World) -> None:
    """Forget leases of a job after whose end many others have ended: its driver has had its last word."""
    long_over = next(islice(reversed(world.over), world.settings.most_over, None), None)
    if long_over is not None:
        for request in world.jobs[long_over].requests():
            purge(world, request)


def _forget_attempts(world: World, job: Job) -> None:
    """Forget all attempts of an ended job but the last."""
    for request in job.requests():
        if request is not job.latest:
            purge(world, request)
            del world.requests[request.id]
    job.attempts = {key: request for key, request in job.attempts.items() if request is job.latest}
