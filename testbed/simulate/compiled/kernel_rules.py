"""The rules of leases and attempts, as those of ``coordinator.engine``, on arrays.

What the engine tells as effects is done at once, or said (``said``) and heard in the order of the effects:
a job's next attempt, a job's end, a device's release.
"""

import numpy as np

from coordinator.engine.plan import UNDECIDED
from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.kernel_limits import count_task, forget_tasks, limited
from testbed.simulate.compiled.kernel_lists import (
    ABORTED,
    CLOSED,
    ENDS,
    FILLED,
    OPENED,
    OPENS,
    RELEASES,
    SESSION_ENDS,
    free_lease,
    free_session,
    new_lease,
    note,
    push,
    say,
    wait_no_more,
)
from testbed.simulate.compiled.kernel_once import ROUND, forget_round, lease_round, use
from testbed.simulate.compiled.kernel_tiers import is_chosen, profile, profile_loss, unmet
from testbed.simulate.compiled.layout import (
    A_ATTEMPT,
    A_CLOSED,
    A_COUNTED,
    A_JOB,
    A_ROUND,
    AR_ENDED,
    AR_FILLED,
    AR_OPENED,
    AT_CHECK_IN,
    COUNTED,
    D_LEASE,
    DIRTY,
    DUE,
    EXPIRED,
    FRESH,
    J_ASYNCHRONOUS,
    J_ATTEMPT,
    J_HEAD,
    J_HELD,
    J_KNOWN,
    J_LIVE,
    J_NEEDED,
    J_OFFERED,
    J_OPEN,
    J_PLACED,
    J_PLACES,
    J_REQUEST,
    J_RESPONSES,
    J_REVOKES,
    J_ROUND,
    J_ROUNDS,
    J_STALENESS,
    J_STAMP,
    J_TABLED,
    J_TARGET,
    J_TIER,
    JR_ATTAINED,
    JR_BEGUN,
    JR_BYTES,
    JR_COMPUTE_S,
    JR_COUNTED_S,
    JR_DEADLINE,
    JR_DEADLINE_S,
    JR_ENDED,
    JR_FILLED,
    JR_GRANTED_SUM,
    JR_LEASE_S,
    JR_OPENED,
    JR_USEFUL_S,
    L_CHOSEN,
    L_DEVICE,
    L_JOB,
    L_NEXT,
    L_REQUEST,
    L_SESSION,
    LEASES,
    LIVE,
    LOGGED,
    LOST,
    NOISE_DRAW,
    NONE,
    NOW,
    PRESENT,
    PROFILED,
    REQUESTS,
    REVOKED,
    S_DEVICE,
    S_LEASE,
    S_SEQ,
    S_TIER,
    S_WAITS,
    SR_BYTE_S,
    SR_END,
    SR_SLOW,
    STRAGGLER,
    UNFINISHED,
    VACANT,
)
from testbed.simulate.compiled.tables import Tables

_GOES_ON = 2  # with OPENS: in the same request
_HALF = np.uint64(32)


# -- leases


@compiled
def grant(t: Tables, slot: int, job: int) -> None:
    """A lease for a session that is in no pool. There is room."""
    numbers, jobs, reals, now = t.numbers, t.jobs, t.job_reals, t.reals[NOW]
    numbers[LEASES] += 1
    numbers[LIVE] += 1
    seq, device, request = numbers[LEASES], t.sessions[slot, S_DEVICE], jobs[job, J_REQUEST]
    lease = new_lease(t, seq, job)
    t.granted[lease] = now
    t.leases[lease, L_SESSION], t.leases[lease, L_DEVICE] = slot, device
    t.leases[lease, L_REQUEST], t.leases[lease, L_CHOSEN] = request, is_chosen(jobs[job, J_TIER])
    t.sessions[slot, S_LEASE] = lease
    asynchronous = jobs[job, J_ASYNCHRONOUS] == 1
    if asynchronous:
        t.given[lease] = jobs[job, J_OFFERED]
    jobs[job, J_LIVE] += 1
    reals[job, JR_GRANTED_SUM] += now
    note(t, np.uint64(t.sessions[slot, S_SEQ]), request)
    jobs[job, J_PLACED] += 1
    if unmet(t, job) > 0:
        if jobs[job, J_PLACED] + jobs[job, J_RESPONSES] == jobs[job, J_TARGET]:
            numbers[DIRTY] = 1
    else:
        if not asynchronous:  # there it is skipped while it is full
            numbers[DIRTY] = 1
        if np.isnan(reals[job, JR_FILLED]):
            reals[job, JR_FILLED] = now
            note(t, FILLED, request)
    count_task(t, device)
    lease_round(t, job, device)
    _foresee(t, slot, lease, seq, job)


@compiled
def _foresee(t: Tables, slot: int, lease: int, seq: int, job: int) -> None:
    """Its response, where neither the lease nor the session ends before."""
    reals, now = t.job_reals, t.reals[NOW]
    seconds = (
        reals[job, JR_COMPUTE_S] * t.session_reals[slot, SR_SLOW]
        + reals[job, JR_BYTES] * t.session_reals[slot, SR_BYTE_S]
    )
    if len(t.noise) > 0:
        bits = mixed(t.bits[NOISE_DRAW] ^ np.uint64(seq))
        seconds *= t.noise[np.int64(((bits >> _HALF) * np.uint64(len(t.noise))) >> _HALF)]
    done, end, expiry = now + seconds, t.session_reals[slot, SR_END], now + reals[job, JR_LEASE_S]
    if done > end:
        if t.numbers[AT_CHECK_IN] == 1:  # otherwise its end is foreseen since its check-in
            push(t, end, SESSION_ENDS + t.sessions[slot, S_SEQ], slot)
    elif done <= expiry:
        push(t, done, seq, lease)
    t.reals[DUE] = min(t.reals[DUE], expiry)


@compiled
def end_lease(t: Tables, lease: int, reason: int) -> None:
    """It is over; what that does to its place and to its device is done by who calls."""
    job, granted, now = t.leases[lease, L_JOB], t.granted[lease], t.reals[NOW]
    t.numbers[LIVE] -= 1
    t.numbers[reason] += 1
    t.jobs[job, J_LIVE] -= 1
    t.job_reals[job, JR_GRANTED_SUM] -= granted
    t.job_reals[job, JR_ATTAINED] += now - granted
    free_lease(t, lease)


@compiled
def unplace(t: Tables, job: int, request: int) -> None:
    """A place is given back."""
    if t.jobs[job, J_OPEN] == 1 and t.jobs[job, J_REQUEST] == request:
        t.jobs[job, J_PLACED] -= 1
        taken = t.jobs[job, J_PLACED] + t.jobs[job, J_RESPONSES]
        if unmet(t, job) == 1 or taken == t.jobs[job, J_TARGET] - 1:
            t.numbers[VACANT if t.jobs[job, J_ASYNCHRONOUS] == 1 else DIRTY] = 1


@compiled
def _give_back(t: Tables, lease: int) -> None:
    """A place without a response."""
    job, request = t.leases[lease, L_JOB], t.leases[lease, L_REQUEST]
    of_open = t.jobs[job, J_OPEN] == 1 and t.jobs[job, J_REQUEST] == request
    if t.numbers[PROFILED] == 1 and of_open and t.jobs[job, J_ASYNCHRONOUS] == 0:
        profile_loss(t, job, t.reals[NOW] - t.granted[lease], t.leases[lease, L_CHOSEN])
    unplace(t, job, request)


@compiled
def respond(t: Tables, lease: int) -> int:
    """The driver records a response: it counts, or comes late. Returns the session, whose device is not free yet."""
    job, request, slot = t.leases[lease, L_JOB], t.leases[lease, L_REQUEST], t.leases[lease, L_SESSION]
    t.sessions[slot, S_LEASE] = NONE
    if t.numbers[PROFILED] == 1:
        profile(t, job, t.reals[NOW] - t.granted[lease], t.sessions[slot, S_TIER], t.leases[lease, L_CHOSEN])
    if t.jobs[job, J_OPEN] == 0 or t.jobs[job, J_REQUEST] != request:
        end_lease(t, lease, STRAGGLER)
    elif t.jobs[job, J_ASYNCHRONOUS] == 1:
        _respond_in_any_round(t, lease, job)
    else:
        _count(t, lease, job)
        t.jobs[job, J_PLACED] -= 1
        t.jobs[job, J_RESPONSES] += 1
        if t.jobs[job, J_RESPONSES] >= t.jobs[job, J_NEEDED]:
            _close(t, job)
    return int(slot)


@compiled
def _count(t: Tables, lease: int, job: int) -> None:
    t.job_reals[job, JR_COUNTED_S] += t.reals[NOW] - t.granted[lease]
    end_lease(t, lease, COUNTED)


@compiled
def _respond_in_any_round(t: Tables, lease: int, job: int) -> None:
    """The same asynchronously: it counts in the round that is open now, unless it is too stale; its place is free."""
    jobs = t.jobs
    unplace(t, job, jobs[job, J_REQUEST])
    if jobs[job, J_ROUND] - t.given[lease] > jobs[job, J_STALENESS]:
        end_lease(t, lease, STRAGGLER)
        return
    use(t, job, t.leases[lease, L_DEVICE])
    _count(t, lease, job)
    jobs[job, J_HELD] += 1
    if jobs[job, J_HELD] >= jobs[job, J_NEEDED]:
        _close(t, job)


@compiled
def expire(t: Tables, lease: int) -> None:
    """Its time has run out."""
    slot = t.leases[lease, L_SESSION]
    if slot == NONE:
        lose_absent(t, lease)
        return
    _give_back(t, lease)
    t.sessions[slot, S_LEASE] = NONE
    forget_round(t, t.leases[lease, L_DEVICE])
    end_lease(t, lease, EXPIRED)
    free_device(t, slot)


@compiled
def lose_absent(t: Tables, lease: int) -> None:
    """Its device had left, and it is sure now that it does not resume."""
    device = t.leases[lease, L_DEVICE]
    t.devices[device, D_LEASE] = NONE
    forget_round(t, device)
    end_lease(t, lease, LOST)


@compiled
def _revoke(t: Tables, job: int, request: int, time_passes: bool) -> None:
    """Stop the devices of a request, or of all (NONE). Where time passes, leases that expire now stop by themselves."""
    lease, lasts_s = t.jobs[job, J_HEAD], t.job_reals[job, JR_LEASE_S]
    while lease != NONE:
        after, slot = t.leases[lease, L_NEXT], t.leases[lease, L_SESSION]
        if request in (NONE, t.leases[lease, L_REQUEST]):
            if slot == NONE:
                t.devices[t.leases[lease, L_DEVICE], D_LEASE] = NONE
            else:
                t.sessions[slot, S_LEASE] = NONE
                if t.numbers[AT_CHECK_IN] == 1:  # it has had its task, and leaves
                    close_session(t, slot)
                elif time_passes and t.granted[lease] + lasts_s <= t.reals[NOW]:
                    free_device(t, slot)
                else:
                    say(t, RELEASES, slot, t.sessions[slot, S_SEQ])
            end_lease(t, lease, REVOKED)
        lease = after


# -- sessions


@compiled
def free_device(t: Tables, slot: int) -> None:
    """Nothing keeps a device busy: it can be matched again, or it leaves."""
    if limited(t, t.sessions[slot, S_DEVICE]):
        close_session(t, slot)
    else:
        t.fresh[t.numbers[FRESH]] = slot
        t.numbers[FRESH] += 1


@compiled
def close_session(t: Tables, slot: int) -> None:
    """It is over. A lease in hand is ABSENT: its place is free."""
    lease = t.sessions[slot, S_LEASE]
    if t.sessions[slot, S_WAITS] == 1:
        wait_no_more(t, slot)
    if lease != NONE:
        t.leases[lease, L_SESSION] = NONE
        t.devices[t.sessions[slot, S_DEVICE], D_LEASE] = lease
        _give_back(t, lease)
    t.numbers[PRESENT] -= 1
    free_session(t, slot)


# -- attempts and jobs


@compiled
def open_attempt(t: Tables, job: int, next_round: int) -> None:
    jobs, reals, now = t.jobs, t.job_reals, t.reals[NOW]
    reals[job, JR_BEGUN], reals[job, JR_COUNTED_S] = now, 0.0
    jobs[job, J_STAMP] += ROUND
    jobs[job, J_TABLED] = 0
    t.numbers[DIRTY] = 1
    if next_round == _GOES_ON:
        jobs[job, J_OFFERED] = jobs[job, J_ROUND]
        return
    t.numbers[REQUESTS] += 1
    jobs[job, J_REQUEST], jobs[job, J_OPEN] = t.numbers[REQUESTS], 1
    jobs[job, J_PLACED] = jobs[job, J_RESPONSES] = 0
    jobs[job, J_TIER], jobs[job, J_TARGET] = UNDECIDED, jobs[job, J_PLACES]
    jobs[job, J_ATTEMPT] = 1 if next_round else jobs[job, J_ATTEMPT] + 1
    jobs[job, J_ROUND] += next_round
    jobs[job, J_OFFERED] = jobs[job, J_ROUND]
    reals[job, JR_OPENED], reals[job, JR_FILLED] = now, np.nan
    reals[job, JR_DEADLINE] = now + reals[job, JR_DEADLINE_S]
    t.reals[DUE] = min(t.reals[DUE], reals[job, JR_DEADLINE])
    note(t, OPENED, jobs[job, J_REQUEST])


@compiled
def _finish(t: Tables, job: int, closed: bool) -> None:
    """The request is over, and so is its present round, or the attempt at it."""
    t.jobs[job, J_OPEN], t.job_reals[job, JR_DEADLINE] = 0, np.inf
    t.numbers[DIRTY] = 1
    _end_round(t, job, closed)
    if closed and t.jobs[job, J_ROUND] >= t.jobs[job, J_ROUNDS]:
        say(t, ENDS, job, t.numbers[LEASES])
    else:
        say(t, OPENS, job, 1 if closed else 0)


@compiled
def _close(t: Tables, job: int) -> None:
    """Enough responses. Asynchronously the next round begins with the leases there are, if more rounds are known of."""
    jobs = t.jobs
    if jobs[job, J_ASYNCHRONOUS] == 0 or jobs[job, J_ROUND] == jobs[job, J_KNOWN]:
        _finish(t, job, True)
        if jobs[job, J_REVOKES] == 1:
            _revoke(t, job, jobs[job, J_REQUEST], False)
        return
    _end_round(t, job, True)
    last = jobs[job, J_ROUND] >= jobs[job, J_ROUNDS]
    say(t, ENDS if last else OPENS, job, t.numbers[LEASES] if last else _GOES_ON)
    jobs[job, J_HELD] = 0
    jobs[job, J_ROUND] += 1


@compiled
def _end_round(t: Tables, job: int, closed: bool) -> None:
    """Keep what is known of it."""
    jobs, reals, now, row = t.jobs, t.job_reals, t.reals[NOW], t.numbers[LOGGED]
    t.attempts[row, A_JOB], t.attempts[row, A_ROUND] = job, jobs[job, J_ROUND]
    t.attempts[row, A_ATTEMPT], t.attempts[row, A_CLOSED] = jobs[job, J_ATTEMPT], closed
    t.attempts[row, A_COUNTED] = jobs[job, J_RESPONSES] + jobs[job, J_HELD]
    filled = reals[job, JR_BEGUN] if jobs[job, J_ASYNCHRONOUS] == 1 else reals[job, JR_FILLED]
    t.attempt_reals[row, AR_OPENED], t.attempt_reals[row, AR_ENDED] = reals[job, JR_BEGUN], now
    t.attempt_reals[row, AR_FILLED] = now if np.isnan(filled) else filled
    t.numbers[LOGGED] += 1
    note(t, CLOSED if closed else ABORTED, jobs[job, J_REQUEST])
    if closed:
        reals[job, JR_USEFUL_S] += reals[job, JR_COUNTED_S]


@compiled
def abort(t: Tables, job: int) -> None:
    """Its deadline has come."""
    _finish(t, job, False)
    _revoke(t, job, t.jobs[job, J_REQUEST], True)


@compiled
def end_job(t: Tables, job: int, leases: int) -> None:
    """All its rounds have closed, with so many leases granted."""
    forget_tasks(t, job, leases)
    if t.jobs[job, J_OPEN] == 1:  # an asynchronous request that knew of no last round
        t.jobs[job, J_OPEN] = 0
        note(t, ABORTED, t.jobs[job, J_REQUEST])
    _revoke(t, job, NONE, False)
    t.job_reals[job, JR_ENDED] = t.reals[NOW]
    t.numbers[UNFINISHED] -= 1
    t.numbers[DIRTY] = 1
