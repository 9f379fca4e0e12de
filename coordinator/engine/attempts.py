"""Attempts: how one opens, what its driver's records do, and how it ends, once, CLOSED or ABORTED.

The driver decides which responses count (docs/protocol.md, "Which side decides what"), and its COUNTED always stands:

- Recorded for a live lease of an open attempt, it counts, whether the lease is OFFERED (the acceptance is still on
  its way), RUNNING, DELIVERED or ABSENT.
- Recorded for a lease that has ended otherwise (expired, lost, unaccepted, replaced, failed, revoked), it counts as
  well: the driver had acknowledged it before it heard of the end. The lease's end is *corrected* to COUNTED by a
  second ``EndLease``; the later word stands, and each lease is in one sum only.
- Where its place had been leased again, live leases + counted would exceed C. Then the places that have cost least
  are taken back (REPLACED): an offer that was not accepted before a running task, the newest first, and one whose
  device has a receipt last. That always suffices, for counted <= K <= C. A lease so replaced may itself turn out to
  be counted; then the rule is the same again, at most K times.
- The K-th closes the attempt. COUNTED for an attempt that was ABORTED corrects the lease's end and changes nothing
  else: the response is acknowledged, and waste. For one that is CLOSED it is a straggler: K had counted before.

Unless its job says ``repeat: allow``, a device counts at most once in a round: a response of one that counts already
is a straggler, whatever its driver says; and once a device counts, another lease of it at the same request is revoked.

A record is idempotent per lease: the first word about it stands. STRAGGLER and REJECTED end a live lease, and change
nothing about one that has ended.

An asynchronous job (FedBuff: Nguyen et al., AISTATS 2022; Papaya: Huba et al., MLSys 2022) has one request for all of
its rounds, with its concurrency as places. A counted response gives its place back at once, so live leases alone are
bounded by C, and nothing is ever taken back for it. The K-th of the buffer closes the round and not the request: its
leases live on, and it goes on with the next round. Leases are granted under the round that the driver opened last, for
that is the model they are given; so a response's staleness is the round it counts in less the round of its lease. Such
a request has no deadline: a lease's own expiry bounds what is waited for. The round after which none is left, where
their number is known, closes the request as that of any other job.
"""

import math

from coordinator.engine.cooling import end_cooling
from coordinator.engine.deadlines import Kind
from coordinator.engine.effects import AcceptAttempt, AnswerResponses, EndAttempt
from coordinator.engine.failures import forget_crashes, reject
from coordinator.engine.ids import LeaseSeq, RequestId
from coordinator.engine.leases import correct, end
from coordinator.engine.lifecycle import (
    DELIVERED,
    ENDED,
    JOB,
    OFFERED,
    REQUEST,
    RUNNING,
    JobStep,
    RequestState,
    RequestStep,
    advance,
)
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    LeaseEnd,
    Outcome,
    StragglerRule,
)
from coordinator.engine.profiles import closing_percent, new_profiles
from coordinator.engine.state import Job, Lease, Request
from coordinator.engine.world import World

_COUNTED, _REJECTED, _CLOSED = Outcome.COUNTED, Outcome.REJECTED, RequestState.CLOSED
_ENDS_AS = {outcome: LeaseEnd(outcome.value) for outcome in Outcome}
_CHEAPEST_FIRST = (OFFERED, RUNNING, DELIVERED)


def open_attempt(world: World, job: Job, round_: int, attempt: int, rounds_left: int | None) -> Request:
    """Open an attempt of the job. The caller has checked that it comes in order."""
    world.requests_opened += 1
    spec = job.spec
    request = Request(
        id=RequestId(world.requests_opened),
        job=job,
        round=round_,
        attempt=attempt,
        rounds_left=rounds_left,
        needed=job.needed,
        places=job.places,
        opened_at=world.now,
        deadline_at=math.inf if spec.asynchronous else world.now + spec.deadline_s,
        offered=(round_, attempt),
        asynchronous=spec.asynchronous is not None,
    )
    if job.latest is None or job.latest.round != round_:
        forget_crashes(world, job)
    job.state = advance(JOB, job.state, JobStep.OPEN, job.id, job.history)
    if job.previous is not None:
        purge(world, job.previous)
    job.previous, job.latest, job.request = job.latest, request, request
    job.attempts[round_, attempt] = request
    _forget_old(world, job)
    world.requests[request.id] = world.open_requests[request.id] = world.changed[request.id] = request
    world.deadlines.set(Kind.ATTEMPT, request.id, request.deadline_at)
    world.dirty = True
    world.note(job, "OPENED", str(request))
    return request


def open_next(world: World, request: Request) -> None:
    """Offer the round that began at the last flush: its driver has the model for it now."""
    request.offered = request.round, request.attempt
    request.used = {device: seq for device, seq in request.used.items() if request.uses(request.leases[seq])}
    for lease in request.live():
        if request.uses(lease):  # of a device that counted by another lease in the round before
            request.used.setdefault(lease.device.id, lease.seq)
    world.dirty = True
    _forget_ended(world, request)


def answer_open(world: World, request: Request, round_: int, attempt: int) -> None:
    world.effects.append(
        AcceptAttempt(
            request.id,
            request.job.id,
            round_,
            attempt,
            request.status_of(round_),
            request.needed,
            request.places,
            None if request.deadline_at == math.inf else request.deadline_at,
        )
    )


def record(
    world: World, request: Request, round_: int, attempt: int, responses: tuple[tuple[LeaseSeq, Outcome], ...]
) -> None:
    """Apply the driver's decisions, in its order, about one of the request's rounds."""
    for seq, outcome in responses:
        lease = request.leases.get(seq)
        if lease is not None and lease.recorded is None:
            closed = round_ < request.round or request.state is _CLOSED
            late = closed or (lease.device.id in request.used and request.counts(lease.device))
            _record_one(world, lease, Outcome.STRAGGLER if late and outcome is _COUNTED else outcome)
    counted = request.responses if round_ == request.round else request.needed
    world.effects.append(AnswerResponses(request.job.id, round_, attempt, request.status_of(round_), counted))


def close(world: World, request: Request) -> None:
    """Close a round that has enough responses: running leases go on, unless the job wants them revoked."""
    request.job.closed_rounds += 1
    if request.asynchronous and request.rounds_left != 1:
        _flush(world, request)
        return
    _finish(world, request, RequestStep.CLOSE, AttemptEndReason.ENOUGH)
    keep_running = request.job.spec.stragglers is StragglerRule.FINISH
    for lease in list(request.live()):
        if lease.state is OFFERED or (not keep_running and lease.state is not DELIVERED):
            end(world, lease, LeaseEnd.REVOKED)


def abort(world: World, request: Request, reason: AttemptEndReason) -> None:
    """End the attempt without a model: its responses are waste, and so is what its devices still do."""
    begun = request.offered == (request.round, request.attempt)
    _finish(world, request, RequestStep.ABORT, reason)
    request.job.aborts += begun  # an asynchronous round that its driver has not begun is nothing lost
    revoke_leases(world, request)


def revoke_leases(world: World, request: Request) -> None:
    """Revoke a request's leases, but for those whose devices have a receipt: they wait for the driver's record."""
    for lease in list(request.live()):
        if lease.state is not DELIVERED:
            end(world, lease, LeaseEnd.REVOKED)


def purge(world: World, request: Request) -> None:
    """Forget its ended leases, and those still live when they end."""
    request.purged = True
    request.over.clear()
    for lease in list(request.leases.values()):
        if lease.state is ENDED:
            del request.leases[lease.seq]
            del world.ended[lease.seq]


def _record_one(world: World, lease: Lease, outcome: Outcome) -> None:
    request = lease.request
    lease.recorded = outcome
    if lease.device.cooling and outcome is not _REJECTED:
        end_cooling(world, lease.device, request.job)
    if lease.state is ENDED:
        if outcome is _COUNTED:
            correct(world, lease)
    elif outcome is _REJECTED:
        reject(world, lease)
    else:
        _profile(world, lease)
        end(world, lease, _ENDS_AS[outcome])
    if outcome is _COUNTED and request.ended_at is None:
        while request.unmet < 0:
            end(world, _cheapest(request), LeaseEnd.REPLACED)
        if request.responses >= request.needed:
            close(world, request)


def _profile(world: World, lease: Lease) -> None:
    """Note how long a live lease took that has brought its response."""
    request, job = lease.request, lease.request.job
    if job.ended_at is not None:
        return
    if job.profiles is None:
        percent = closing_percent(job.needed, job.places)
        job.profiles = new_profiles(world.settings.tiers, percent)
    job.profiles.add(world.now - lease.granted_at, lease.device.tier, chosen=request.chosen)


def _flush(world: World, request: Request) -> None:
    """Close the round of a full buffer: the next one begins, with the leases there are."""
    job = request.job
    world.note(job, "FLUSHED", f"{request}: {request.held} responses")
    world.effects.append(
        EndAttempt(
            request.id,
            job.id,
            request.round,
            request.attempt,
            AttemptStatus.CLOSED,
            AttemptEndReason.ENOUGH,
            request.held,
        )
    )
    request.held, request.flushed_at = 0, world.now
    world.changed[request.id] = request
    request.round, request.attempt = request.round + 1, 1
    if request.rounds_left is not None:
        request.rounds_left -= 1
    job.attempts[request.round, request.attempt] = request
    _forget_old(world, job)
    forget_crashes(world, job)


def _forget_old(world: World, job: Job) -> None:
    """Attempts before the latest ones, once their last lease has ended."""
    too_many = max(0, len(job.attempts) - world.settings.most_attempts)
    for key, request in list(job.attempts.items())[:too_many]:
        if request is not job.latest:  # an asynchronous one stands under its later rounds, too
            if not request.purged or request.leases:
                break
            world.requests.pop(request.id, None)
        del job.attempts[key]


def _forget_ended(world: World, request: Request) -> None:
    """Forget leases of former rounds that ended before the last flush, and longer ago than any lease can last."""
    settings, spec = world.settings, request.job.spec
    horizon = min(request.flushed_at, world.now - spec.lease_s - settings.driver_grace_s)
    while request.over:
        lease = request.over[0]
        if lease.ended_at is None or lease.ended_at >= horizon or lease.counts_in >= request.round:
            break
        request.over.popleft()
        del request.leases[lease.seq], world.ended[lease.seq]


def _cheapest(request: Request) -> Lease:
    """The placed lease that has cost least so far: by state, then the newest."""
    placed = [lease for lease in request.live() if lease.state in _CHEAPEST_FIRST]
    return min(placed, key=lambda lease: (_CHEAPEST_FIRST.index(lease.state), -lease.seq))


def _finish(world: World, request: Request, step: RequestStep, reason: AttemptEndReason) -> None:
    job = request.job
    request.state = advance(REQUEST, request.state, step, request, job.history)
    request.ended_at, request.reason = world.now, reason
    if request.filled_at is None:
        request.filled_at = world.now
    job.state = advance(JOB, job.state, JobStep.SETTLE, job.id, job.history)
    job.request = None
    del world.open_requests[request.id]
    world.changed[request.id] = request
    world.dirty = True
    world.note(job, request.status.name, f"{request}: {reason}, {request.responses} of {request.needed} responses")
    ended = request.round, request.attempt, request.status, reason, request.responses
    world.effects.append(EndAttempt(request.id, job.id, *ended))
