"""Leases from their grant to their end, and what that does to places and to devices.

A device is busy while a lease is in its hand, and after that until it says so itself where it may still be at work
(``_STILL_AT_WORK``), at most until the lease's expiry. Its place is another matter: see ``places``.
"""

from coordinator.engine.chance import Purpose, draw, fraction
from coordinator.engine.cooling import IN_VAIN, hold_in_vain
from coordinator.engine.deadlines import Kind
from coordinator.engine.effects import (
    CloseSession,
    EndLease,
    EndSession,
    MissLease,
    OfferLease,
    ResumeLease,
    RevokeLease,
    RunLease,
    SendAway,
)
from coordinator.engine.ids import LeaseSeq
from coordinator.engine.lifecycle import (
    ACCEPT,
    BUSY,
    CORRECT,
    DELIVER,
    END,
    FREE,
    IDLE,
    LEASE,
    LEAVE,
    MISS,
    OFFERED,
    PLACED,
    RETURN,
    RUNNING,
    SERVE,
    SERVED,
    TAKE,
    InvariantError,
    LeaseStep,
    advance,
)
from coordinator.engine.model import ComeBackReason, FailureReason, LeaseEnd, Outcome, Phase, Repeat, SessionEnd
from coordinator.engine.places import check_full, give_back, take, unplace
from coordinator.engine.state import DAY_S, Device, Lease, Request, Session, Stopping, day_of
from coordinator.engine.world import World

# The device is told at once; other ends it learns from its receipt, or said itself.
_TOLD = frozenset({LeaseEnd.UNACCEPTED, LeaseEnd.EXPIRED, LeaseEnd.REVOKED, LeaseEnd.REPLACED})
# The device will say Finished, Failed or Released; until then it is busy.
_STILL_AT_WORK = frozenset(
    {LeaseEnd.COUNTED, LeaseEnd.STRAGGLER, LeaseEnd.REJECTED, LeaseEnd.REVOKED, LeaseEnd.REPLACED}
)

# Named for the reason that ``lifecycle.GONE`` is.
_LEASE, _STOP, _LEAVE = Kind.LEASE, Kind.STOP, Kind.LEAVE
_COUNTED, _LIMIT, _ONCE = LeaseEnd.COUNTED, ComeBackReason.LIMIT, Repeat.ONCE
_after = LEASE.get


def grant(world: World, session: Session, request: Request) -> None:
    """Offer an idle device to a request with an unmet place. Raises InvariantError: it does not meet the job's own
    requirement, whatever its region says.
    """
    device, job, now = session.device, request.job, world.now
    if not job.spec.requirement.matches(device.id, device.capabilities):
        raise InvariantError(f"{device.id} was to be leased to {request}, and does not meet {job.spec.requirement}")
    world.leases_granted += 1
    seq = LeaseSeq(world.leases_granted)
    ends_at = now + job.spec.lease_s
    accept_by = min(now + world.settings.accept_timeout_s, ends_at)
    round_, attempt = request.offered
    lease = Lease(seq, device, request, device.capabilities, now, accept_by, ends_at, session.seq, round_, attempt)
    _occupy(world, session)
    device.lease = lease
    world.leases[seq] = request.leases[seq] = lease
    job.live += 1
    job.live_granted_sum += now
    world.deadlines.set(_LEASE, seq, accept_by)
    text = "lease {} of {} round {} attempt {}"
    device.history.append((now, "OFFERED", text, seq, job.id, request.round, request.attempt))
    world.effects.append(OfferLease(session.seq, device.id, seq, request.id, job.id, round_, attempt, ends_at))
    take(world, request)


def accept(world: World, lease: Lease) -> None:
    """Note that the device works on it from here; that is what its limits count."""
    _step(lease, ACCEPT)
    device = lease.device
    device.tasks_in_interval += 1
    today = day_of(world.now)
    device.tasks_today = device.tasks_today + 1 if device.day == today else 1
    device.day = today
    device.history.append((world.now, "RUNNING", "lease {}", lease.seq))
    world.effects.append(RunLease(lease.seq, device.id))


def deliver(world: World, lease: Lease, receipt: Outcome) -> None:
    """Free the device, which has its receipt; the lease waits for the driver's record."""
    lease.receipt = receipt
    if lease.state is OFFERED:  # its acceptance was lost
        accept(world, lease)
    device = lease.device
    if lease.state is RUNNING:
        _step(lease, DELIVER)
    elif lease.request.unmet > 0:
        _step(lease, DELIVER)
        take(world, lease.request)
    # Without a free place it stays ABSENT, out of its device's hand; its response counts all the same.
    device.tasks += 1
    device.lease = None
    if lease.request.uses(lease):
        lease.request.used.setdefault(device.id, lease.seq)
    device.history.append((world.now, "FINISHED", "lease {}", lease.seq))
    free(world, device)


def miss(world: World, lease: Lease) -> None:
    """Free the place of a RUNNING lease whose session is lost."""
    _step(lease, MISS)
    lease.device.history.append((world.now, "ABSENT", f"with lease {lease.seq} of {lease.request}"))
    world.effects.append(MissLease(lease.seq, lease.device.id))
    give_back(world, lease)
    hold_in_vain(world, lease)


def resume(world: World, lease: Lease, session: Session) -> None:
    """Go on with an ABSENT lease whose device has returned, if there is a place; else it is REPLACED."""
    if lease.request.unmet > 0:
        _step(lease, RETURN)
        lease.session, lease.placed_at = session.seq, world.now
        _occupy(world, session)
        lease.device.history.append((world.now, "RESUMED", f"lease {lease.seq}"))
        world.effects.append(ResumeLease(lease.seq, lease.device.id, session.seq))
        take(world, lease.request)
    else:
        lease.session = session.seq
        end(world, lease, LeaseEnd.REPLACED)


def end(
    world: World,
    lease: Lease,
    reason: LeaseEnd,
    *,
    phase: Phase | None = None,
    failure: FailureReason | None = None,
    message: str = "",
) -> None:
    """End a lease: free its place, and its device where that is not still at work."""
    device, request, was, now = lease.device, lease.request, lease.state, world.now
    job = request.job
    _step(lease, END)
    lease.ended_at, lease.reason = now, reason
    del world.leases[lease.seq]
    if request.purged:
        del request.leases[lease.seq]
    else:
        world.ended[lease.seq] = lease
        if request.asynchronous:
            request.over.append(lease)
    job.live -= 1
    job.live_granted_sum -= lease.granted_at
    job.attained_s += now - lease.granted_at
    world.ends[reason] += 1
    device.history.append((now, "ENDED", "lease {} {} {}", lease.seq, reason, message))
    _say_end(world, lease, reason, phase, failure, message)
    if reason is _COUNTED and request.ended_at is None:
        _count(world, lease, placed=was in PLACED)
    else:
        _use_no_more(world, lease)
        if was in PLACED:
            give_back(world, lease)
            if reason in IN_VAIN:
                hold_in_vain(world, lease)
    if device.lease is lease:
        _let_go(world, lease, reason)


def expiry(world: World, lease: Lease) -> float:
    """When a lease ends by itself. While its driver is away, that waits for at most the driver grace in all."""
    if lease.request.job.away_since is None:
        return lease.ends_at
    return lease.ends_at + world.settings.driver_grace_s - lease.extended_s


def correct(world: World, lease: Lease) -> None:
    """Let an ended lease end COUNTED from now on: its driver had counted it (see ``attempts``)."""
    if lease.reason is None or lease.reason is _COUNTED:
        return
    _step(lease, CORRECT)
    world.ends[lease.reason] -= 1
    world.ends[_COUNTED] += 1
    world.responses_late += 1
    lease.reason = _COUNTED
    lease.device.history.append((world.now, "COUNTED", f"lease {lease.seq}, which had ended"))
    _say_end(world, lease, _COUNTED, None, None, "")
    if lease.request.open:
        _count(world, lease, placed=False)


def revoke(world: World, session: Session, seq: LeaseSeq, reason: LeaseEnd, until: float) -> None:
    """Tell a device to stop with a lease that is not in its hand by our books; it is busy until it has."""
    world.effects.append(RevokeLease(session.seq, seq, reason))
    _wait_for(world, session, seq, Stopping(until, reason))


def stopped(world: World, device: Device, seq: LeaseSeq) -> None:
    """Note that the device no longer works on a lease that had ended."""
    if device.stopping.pop(seq, None) is not None:
        free(world, device)


def free(world: World, device: Device) -> None:
    """Make a connected device idle if nothing keeps it busy; or it has reached a limit, or is to go."""
    session = device.session
    if device.lease is not None or device.stopping or session is None or device.state is not BUSY:
        return
    world.move(device, FREE)
    settle(world, session)


def settle(world: World, session: Session) -> None:
    """Send an idle device away at a limit or when drained, else let it be matched."""
    device = session.device
    if device.drained or world.draining:
        close(world, session, SessionEnd.DRAINED)
    elif device.limited(world.now):
        world.move(device, SERVE)
        send_away(world, session, _LIMIT, _until_tomorrow_s(world, session))
    else:
        world.make_idle(session)


def send_away(world: World, session: Session, reason: ComeBackReason, after_s: float | None) -> None:
    """Tell a device to leave by itself, within a liveness interval."""
    session.leave_by = world.now + world.settings.liveness_s
    world.deadlines.set(_LEAVE, session.seq, session.leave_by)
    session.device.history.append((world.now, "SENT AWAY", reason))
    world.effects.append(SendAway(session.seq, session.device.id, reason, after_s))


def come_back_s(world: World, session: Session, devices: int) -> float:
    """Draw seconds from a window in which so many devices come back at the wanted rate."""
    settings = world.settings
    window_s = max(settings.heartbeat_s, devices / settings.come_back_per_s)
    return window_s * fraction(draw(settings.seed, Purpose.COME_BACK, session.seq))


def close(world: World, session: Session, reason: SessionEnd) -> None:
    """End a session from our side."""
    world.effects.append(CloseSession(session.seq, session.device.id, reason))
    lose(world, session, reason)


def lose(world: World, session: Session, reason: SessionEnd) -> None:
    """End a session: an offered lease ends, a running one is ABSENT until its device returns or it expires."""
    device, lease = session.device, session.device.lease
    in_task = lease is not None and lease.state is RUNNING
    del world.sessions[session.seq]
    world.leave_idle(session)
    world.move(device, LEAVE)
    device.session, device.left, device.quiet = None, reason, False
    world.gone[device.id] = None
    device.history.append((world.now, "LEFT", f"{reason}, in mid-task" if in_task else reason))
    world.effects.append(EndSession(session.seq, device.id, reason, in_task))
    if lease is not None and in_task:
        miss(world, lease)
    elif lease is not None:
        end(world, lease, LeaseEnd.LOST)


def _until_tomorrow_s(world: World, session: Session) -> float | None:
    """Seconds until the next day begins for a device at a limit. None: another day does not help it."""
    if session.device.limited_in_interval:
        return None
    tomorrow = (day_of(world.now) + 1) * DAY_S
    return tomorrow - world.now + come_back_s(world, session, world.device_counts[SERVED])


def _let_go(world: World, lease: Lease, reason: LeaseEnd) -> None:
    device = lease.device
    device.lease = None
    if device.session is None:
        return
    if reason in _TOLD:
        world.effects.append(RevokeLease(lease.session, lease.seq, reason))
    if reason in _STILL_AT_WORK:
        _wait_for(world, device.session, lease.seq, Stopping(expiry(world, lease), reason))
        return
    if reason is LeaseEnd.UNACCEPTED:
        device.quiet = True
    free(world, device)


def _say_end(
    world: World, lease: Lease, reason: LeaseEnd, phase: Phase | None, failure: FailureReason | None, message: str
) -> None:
    request, device = lease.request, lease.device.id
    job = request.job.id
    world.effects.append(
        EndLease(lease.seq, device, request.id, job, lease.round, lease.attempt, reason, phase, failure, message)
    )


def _occupy(world: World, session: Session) -> None:
    device = session.device
    if device.state is not BUSY:
        world.leave_idle(session)
        world.move(device, TAKE)


def _wait_for(world: World, session: Session, seq: LeaseSeq, stopping: Stopping) -> None:
    """Busy until the device says that it stopped with this lease."""
    _occupy(world, session)
    session.device.stopping[seq] = stopping
    world.deadlines.set(_STOP, session.device.id, stopping.until)


def _count(world: World, lease: Lease, *, placed: bool) -> None:
    """A response is in the round, and keeps its lease's place or takes another; asynchronously the place is free."""
    request, device = lease.request, lease.device
    world.changed[request.id] = request
    lease.counts_in = request.round
    if request.job.spec.repeat is _ONCE:
        request.used[device.id] = lease.seq
        other = device.lease
        if other is not None and other is not lease and other.request is request:
            end(world, other, LeaseEnd.REVOKED)
    if request.asynchronous:
        request.held += 1
        if placed:
            unplace(world, request)
        return
    request.counted += 1
    if placed:
        request.placed -= 1
    else:
        check_full(world, request)


def _use_no_more(world: World, lease: Lease) -> None:
    """Take back that a response counts: its device may be leased to its request again."""
    device, request = lease.device, lease.request
    if request.used.get(device.id) == lease.seq:
        del request.used[device.id]
        if request.open and device.session is not None and device.state is IDLE:
            world.fresh.append(device.session)


def _step(lease: Lease, step: LeaseStep) -> None:
    state = lease.state
    lease.state = _after((state, step)) or advance(LEASE, state, step, lease, lease.device.history)
