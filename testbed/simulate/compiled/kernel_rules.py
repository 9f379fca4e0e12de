"""The rules of leases and attempts, as those of ``coordinator.engine``, on arrays.

What the engine tells as effects is done at once, or said (``said``) and heard in the order of the effects:
a job's next attempt, a job's end, a device's release.
"""

import numpy as np

from coordinator.engine.plan import UNDECIDED
from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.kernel_cooling import end_cooling, hold_in_vain
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
from testbed.simulate.compiled.kernel_match import (
    ROUND,
    count_task,
    forget_round,
    forget_tasks,
    lease_round,
    limited,
    use,
)
from testbed.simulate.compiled.kernel_tiers import is_chosen, profile, profile_loss, unmet
from testbed.simulate.compiled.layout import COUNTED, EXPIRED, LOST, NONE, REVOKED, STRAGGLER
from testbed.simulate.compiled.tables import Tables

_GOES_ON = 2  # with OPENS: in the same request
_HALF = np.uint64(32)


# -- leases


@compiled
def grant(t: Tables, slot: int, job: int) -> None:
    """A lease for a session that is in no pool. There is room."""
    run, jobs, now = t.run, t.jobs, t.run.now
    run.leases += 1
    run.live += 1
    seq, device, request = run.leases, t.sessions[slot].device_no, jobs[job].request
    lease = new_lease(t, seq, job)
    t.leases[lease].granted = now
    t.leases[lease].session, t.leases[lease].device_no = slot, device
    t.leases[lease].request, t.leases[lease].chosen = request, is_chosen(jobs[job].tier)
    t.sessions[slot].lease = lease
    asynchronous = jobs[job].asynchronous == 1
    if asynchronous:
        t.leases[lease].given = jobs[job].offered
    jobs[job].live += 1
    jobs[job].granted_sum += now
    note(t, np.uint64(t.sessions[slot].seq), request)
    jobs[job].placed += 1
    if unmet(t, job) > 0:
        if jobs[job].placed + jobs[job].responses == jobs[job].target:
            run.dirty = 1
    else:
        if not asynchronous:  # there it is skipped while it is full
            run.dirty = 1
        if np.isnan(jobs[job].filled):
            jobs[job].filled = now
            note(t, FILLED, request)
    count_task(t, device)
    lease_round(t, job, device)
    _foresee(t, slot, lease, seq, job)


@compiled
def _foresee(t: Tables, slot: int, lease: int, seq: int, job: int) -> None:
    """Foresee the response, where neither the lease nor the session ends before."""
    jobs, now = t.jobs, t.run.now
    seconds = jobs[job].compute_s * t.sessions[slot].slow + jobs[job].bytes * t.sessions[slot].byte_s
    if len(t.noise) > 0:
        bits = mixed(t.run.noise_draw ^ np.uint64(seq))
        seconds *= t.noise[np.int64(((bits >> _HALF) * np.uint64(len(t.noise))) >> _HALF)]
    done, end, expiry = now + seconds, t.sessions[slot].end, now + jobs[job].lease_s
    if done > end:
        if t.run.at_check_in == 1:  # otherwise its end is foreseen since its check-in
            push(t, end, SESSION_ENDS + t.sessions[slot].seq, slot)
    elif done <= expiry:
        push(t, done, seq, lease)
    t.run.due = min(t.run.due, expiry)


@compiled
def end_lease(t: Tables, lease: int, reason: int) -> None:
    """End a lease; what that does to its place and to its device is done by who calls."""
    job, granted, now = t.leases[lease].job, t.leases[lease].granted, t.run.now
    t.run.live -= 1
    t.ends[reason] += 1
    t.jobs[job].live -= 1
    t.jobs[job].granted_sum -= granted
    t.jobs[job].attained += now - granted
    free_lease(t, lease)


@compiled
def unplace(t: Tables, job: int, request: int) -> None:
    """Give a place back."""
    if t.jobs[job].open == 1 and t.jobs[job].request == request:
        t.jobs[job].placed -= 1
        taken = t.jobs[job].placed + t.jobs[job].responses
        if unmet(t, job) == 1 or taken == t.jobs[job].target - 1:
            if t.jobs[job].asynchronous == 1:
                t.run.vacant = 1
            else:
                t.run.dirty = 1


@compiled
def _give_back(t: Tables, lease: int) -> None:
    """A place without a response."""
    job, request = t.leases[lease].job, t.leases[lease].request
    of_open = t.jobs[job].open == 1 and t.jobs[job].request == request
    if t.run.profiled == 1 and of_open and t.jobs[job].asynchronous == 0:
        profile_loss(t, job, t.run.now - t.leases[lease].granted, t.leases[lease].chosen)
    unplace(t, job, request)
    hold_in_vain(t, lease)


@compiled
def respond(t: Tables, lease: int) -> int:
    """The driver records a response: it counts, or comes late. Returns the session, whose device is not free yet."""
    job, request, slot = t.leases[lease].job, t.leases[lease].request, t.leases[lease].session
    t.sessions[slot].lease = NONE
    end_cooling(t, job, t.leases[lease].device_no)
    if t.run.profiled == 1:
        profile(t, job, t.run.now - t.leases[lease].granted, t.sessions[slot].tier, t.leases[lease].chosen)
    if t.jobs[job].open == 0 or t.jobs[job].request != request:
        end_lease(t, lease, STRAGGLER)
    elif t.jobs[job].asynchronous == 1:
        _respond_in_any_round(t, lease, job)
    else:
        _count(t, lease, job)
        t.jobs[job].placed -= 1
        t.jobs[job].responses += 1
        if t.jobs[job].responses >= t.jobs[job].needed:
            _close(t, job)
    return int(slot)


@compiled
def _count(t: Tables, lease: int, job: int) -> None:
    t.jobs[job].counted_s += t.run.now - t.leases[lease].granted
    end_lease(t, lease, COUNTED)


@compiled
def _respond_in_any_round(t: Tables, lease: int, job: int) -> None:
    """The same asynchronously: it counts in the round that is open now, unless it is too stale; its place is free."""
    jobs = t.jobs
    unplace(t, job, jobs[job].request)
    if jobs[job].round_no - t.leases[lease].given > jobs[job].staleness:
        end_lease(t, lease, STRAGGLER)
        return
    use(t, job, t.leases[lease].device_no)
    _count(t, lease, job)
    jobs[job].held += 1
    if jobs[job].held >= jobs[job].needed:
        _close(t, job)


@compiled
def expire(t: Tables, lease: int) -> None:
    """End a lease whose time has run out."""
    slot = t.leases[lease].session
    if slot == NONE:
        lose_absent(t, lease)
        return
    _give_back(t, lease)
    t.sessions[slot].lease = NONE
    forget_round(t, t.leases[lease].device_no)
    end_lease(t, lease, EXPIRED)
    free_device(t, slot)


@compiled
def lose_absent(t: Tables, lease: int) -> None:
    """End a lease whose device had left, when it is sure that it does not resume."""
    device = t.leases[lease].device_no
    t.devices[device].lease = NONE
    forget_round(t, device)
    end_lease(t, lease, LOST)


@compiled
def _revoke(t: Tables, job: int, request: int, time_passes: bool) -> None:
    """Stop the devices of a request, or of all (NONE). Where time passes, leases that expire now stop by themselves."""
    lease, lasts_s = t.jobs[job].head, t.jobs[job].lease_s
    while lease != NONE:
        after, slot = t.leases[lease].next, t.leases[lease].session
        if request in (NONE, t.leases[lease].request):
            if slot == NONE:
                t.devices[t.leases[lease].device_no].lease = NONE
            else:
                hold_in_vain(t, lease)
                t.sessions[slot].lease = NONE
                if t.run.at_check_in == 1:  # it has had its task, and leaves
                    close_session(t, slot)
                elif time_passes and t.leases[lease].granted + lasts_s <= t.run.now:
                    free_device(t, slot)
                else:
                    say(t, RELEASES, slot, t.sessions[slot].seq)
            end_lease(t, lease, REVOKED)
        lease = after


# -- sessions


@compiled
def free_device(t: Tables, slot: int) -> None:
    """Nothing keeps a device busy: it can be matched again, or it leaves."""
    if limited(t, t.sessions[slot].device_no):
        close_session(t, slot)
    else:
        t.fresh[t.run.fresh] = slot
        t.run.fresh += 1


@compiled
def close_session(t: Tables, slot: int) -> None:
    """End a session. A lease in hand is ABSENT: its place is free."""
    lease = t.sessions[slot].lease
    if t.sessions[slot].waits == 1:
        wait_no_more(t, slot)
    if lease != NONE:
        t.leases[lease].session = NONE
        t.devices[t.sessions[slot].device_no].lease = lease
        _give_back(t, lease)
    t.run.present -= 1
    free_session(t, slot)


# -- attempts and jobs


@compiled
def open_attempt(t: Tables, job: int, next_round: int) -> None:
    jobs, now = t.jobs, t.run.now
    jobs[job].begun, jobs[job].counted_s = now, 0.0
    jobs[job].stamp += ROUND
    jobs[job].tabled = 0
    t.run.dirty = 1
    if next_round == _GOES_ON:
        jobs[job].offered = jobs[job].round_no
        return
    t.run.requests += 1
    jobs[job].request, jobs[job].open = t.run.requests, 1
    jobs[job].placed = jobs[job].responses = 0
    jobs[job].tier, jobs[job].target = UNDECIDED, jobs[job].places
    jobs[job].attempt = 1 if next_round else jobs[job].attempt + 1
    jobs[job].round_no += next_round
    jobs[job].offered = jobs[job].round_no
    jobs[job].opened, jobs[job].filled = now, np.nan
    jobs[job].deadline = now + jobs[job].deadline_s
    t.run.due = min(t.run.due, jobs[job].deadline)
    note(t, OPENED, jobs[job].request)


@compiled
def _finish(t: Tables, job: int, closed: bool) -> None:
    """End a request, and its present round, or the attempt at it."""
    t.jobs[job].open, t.jobs[job].deadline = 0, np.inf
    t.run.dirty = 1
    _end_round(t, job, closed)
    if closed and t.jobs[job].round_no >= t.jobs[job].rounds:
        say(t, ENDS, job, t.run.leases)
    else:
        say(t, OPENS, job, 1 if closed else 0)


@compiled
def _close(t: Tables, job: int) -> None:
    """Close a round. Asynchronously the next one begins with the leases there are, if more rounds are known of."""
    jobs = t.jobs
    if jobs[job].asynchronous == 0 or jobs[job].round_no == jobs[job].known:
        _finish(t, job, True)
        if jobs[job].revokes == 1:
            _revoke(t, job, jobs[job].request, False)
        return
    _end_round(t, job, True)
    last = jobs[job].round_no >= jobs[job].rounds
    say(t, ENDS if last else OPENS, job, t.run.leases if last else _GOES_ON)
    jobs[job].held = 0
    jobs[job].round_no += 1


@compiled
def _end_round(t: Tables, job: int, closed: bool) -> None:
    """Keep what is known of it."""
    jobs, now, row = t.jobs, t.run.now, t.run.logged
    t.attempts[row].job, t.attempts[row].round_no = job, jobs[job].round_no
    t.attempts[row].attempt, t.attempts[row].closed = jobs[job].attempt, closed
    t.attempts[row].counted = jobs[job].responses + jobs[job].held
    filled = jobs[job].begun if jobs[job].asynchronous == 1 else jobs[job].filled
    t.attempts[row].opened, t.attempts[row].ended = jobs[job].begun, now
    t.attempts[row].filled = now if np.isnan(filled) else filled
    t.run.logged += 1
    note(t, CLOSED if closed else ABORTED, jobs[job].request)
    if closed:
        jobs[job].useful_s += jobs[job].counted_s


@compiled
def abort(t: Tables, job: int) -> None:
    """Abort the attempt whose deadline has come."""
    _finish(t, job, False)
    _revoke(t, job, t.jobs[job].request, True)


@compiled
def end_job(t: Tables, job: int, leases: int) -> None:
    """End a job whose rounds have all closed, with so many leases granted."""
    forget_tasks(t, job, leases)
    if t.jobs[job].open == 1:  # an asynchronous request that knew of no last round
        t.jobs[job].open = 0
        note(t, ABORTED, t.jobs[job].request)
    _revoke(t, job, NONE, False)
    t.jobs[job].ended = t.run.now
    t.run.unfinished -= 1
    t.run.dirty = 1
