"""The event loop in bulk: the same events in the same order as ``events``, on arrays.

``loop`` goes on until something is wanted that only Python can do, which the code that it returns says; after that it
is called again and goes on where it was. A step is one of: the next event, or the next reaction to the last one; when
all are heard, the matching of devices that became matchable meanwhile; a new plan, if its inputs have changed; the
matching of devices that wait, by the new plan.
"""

import numpy as np

from testbed.simulate.compiled.compiled import compiled, entry, fetch
from testbed.simulate.compiled.kernel_lists import (
    ENDS,
    OPENS,
    RELEASES,
    SESSION_ENDS,
    cell_of,
    new_session,
    pop,
    push,
    wait,
    wait_again,
    wait_no_more,
)
from testbed.simulate.compiled.kernel_match import choose, limited, room, wanted
from testbed.simulate.compiled.kernel_plan import make_plan
from testbed.simulate.compiled.kernel_rules import (
    abort,
    close_session,
    end_job,
    expire,
    free_device,
    grant,
    lose_absent,
    open_attempt,
    respond,
)
from testbed.simulate.compiled.kernel_tiers import tier_of
from testbed.simulate.compiled.layout import (
    ARRIVES,
    GO_ON,
    LEAVES,
    MATCH,
    MORE_LOG,
    MORE_ROWS,
    MORE_SLOTS,
    NEW_KIND,
    NEXT,
    NONE,
    OVER,
    PLAN_WANTED,
    REPLAN,
    SETTLE,
    TICKED,
)
from testbed.simulate.compiled.tables import Tables

_AHEAD = 16  # rows: by then what is known of a device, anywhere in much memory, is in the cache
_NEVER = -(2**63)  # no interval has this number


@entry
def loop(t: Tables) -> int:
    """Returns a code."""
    if t.run.regroup == 1:
        t.run.regroup = 0
        wait_again(t)
    while True:
        phase = t.run.phase
        if phase == NEXT:
            code = _advance(t)
        elif phase == SETTLE:
            code = _settle(t)
        elif phase == REPLAN:
            code = _replan(t)
        else:
            code = _match_waiting(t)
        if code != GO_ON:
            return int(code)


# -- the next event, or the next reaction


@compiled
def _advance(t: Tables) -> int:
    run = t.run
    if run.heard < run.said:
        return _hear(t)
    if run.dirty == 1 or run.vacant == 1 or run.fresh > 0:  # the turn is over
        run.phase = SETTLE
        return GO_ON
    if run.finished != NONE:
        slot = run.finished
        run.finished = NONE
        free_device(t, slot)
        return GO_ON
    run.heard = run.said = 0
    if run.unfinished == 0:
        return OVER
    if run.row >= run.rows and run.trace_over == 0:
        return MORE_ROWS
    if run.logged + len(t.jobs) >= len(t.attempts):
        return MORE_LOG
    check_in = np.inf if run.trace_over == 1 else t.start_s[run.row]
    arrival = t.run.next_arrival
    given = min(check_in, arrival)
    if given == np.inf and run.present == 0:
        return OVER
    due = min(t.run.due, t.run.tick, t.run.review, t.run.wake)
    if run.heap > 0 and t.heap[0].at <= min(given, due):
        response = t.heap[0].code < SESSION_ENDS
        if response or t.heap[0].at < due:
            return _on_heap(t, response)
    if due <= given:
        return _pass_time(t, due)
    if given > t.run.until:
        return _give_up(t)
    if arrival <= check_in:
        t.run.now = arrival
        run.subject = run.arrived
        return ARRIVES
    return _check_in(t, run.row)


@compiled
def _hear(t: Tables) -> int:
    run, said = t.run, t.said[t.run.heard]
    what, subject, number = said.what, said.subject, said.number
    run.heard += 1
    if what == RELEASES:
        if t.sessions[subject].seq == number:
            free_device(t, subject)
        return GO_ON
    run.dirty = 1
    if what == OPENS:
        open_attempt(t, subject, number)
    elif what == ENDS:
        end_job(t, subject, number)
        run.subject = subject
        return LEAVES
    return GO_ON


@compiled
def _on_heap(t: Tables, response: bool) -> int:
    """A response, or the end of a session, if it is still to come."""
    at, code, slot = t.heap[0].at, t.heap[0].code, t.heap[0].slot
    stands = t.leases[slot].seq == code if response else t.sessions[slot].seq == code - SESSION_ENDS
    if stands and at > t.run.until:
        return _give_up(t)
    pop(t)
    if not stands:
        return GO_ON
    t.run.now = at
    if response:
        session = respond(t, slot)
        if t.run.at_check_in == 1:  # it has had its task, and leaves
            close_session(t, session)
        else:
            t.run.finished = session
    else:
        close_session(t, slot)
    return GO_ON


@compiled
def _check_in(t: Tables, row: int) -> int:
    run, kind, device = t.run, t.kind[row], t.device[row]
    cell = t.kinds[kind].cell
    if cell == NONE:
        run.subject = kind
        return NEW_KIND
    if not room(t):
        return MORE_SLOTS
    run.row = row + 1
    run.check_ins += 1
    seq = run.check_ins
    if row + _AHEAD < run.rows:
        fetch(t.devices, t.device[row + _AHEAD])
    t.run.now = t.start_s[row]
    one = t.devices[device]
    if one.first == 0:
        one.first, one.interval, one.lease = seq, _NEVER, NONE
    one.kind = kind
    if one.lease != NONE:
        lose_absent(t, one.lease)
    again = one.interval == t.interval[row]
    if not again:
        one.interval, one.tasks = t.interval[row], 0
        one.check_ins += 1
    if limited(t, device):
        return GO_ON
    tier = NONE if run.tiers == 1 else tier_of(t, t.slow[row], again)
    if not again:
        t.counted[kind, tier + 1] += 1
    job = choose(t, cell + tier + 1, device, seq, 0)
    if job == NONE and run.at_check_in == 1:
        return GO_ON
    slot = new_session(t, seq)
    session = t.sessions[slot]
    session.device_no, session.kind, session.lease, session.waits = device, kind, NONE, 0
    session.draws, session.tier = run.uniform, tier
    times = t.sessions[slot]
    times.end, times.slow, times.byte_s = t.end_s[row], t.slow[row], t.byte_s[row]
    run.present += 1
    if run.at_check_in == 0:
        push(t, times.end, SESSION_ENDS + seq, slot)
    if job == NONE:
        session.draws = 0
        wait(t, slot)
        return GO_ON
    grant(t, slot, job)
    return GO_ON


# -- matching and plans


@compiled
def _match(t: Tables, slot: int) -> bool:
    """Lease a session that waits or is fresh, if some request can use it. There is room."""
    session = t.sessions[slot]
    job = choose(t, cell_of(t, slot), session.device_no, session.seq, session.draws)
    if job == NONE:
        return False
    session.draws += t.run.uniform
    if session.waits == 1:
        wait_no_more(t, slot)
    grant(t, slot, job)
    return True


@compiled
def _settle(t: Tables) -> int:
    """Match what became matchable, in order of session, until the plan's inputs change."""
    run, fresh = t.run, t.fresh
    for place in range(run.fresh_done + 1, run.fresh):
        slot, at = fresh[place], place
        while at > run.fresh_done and t.sessions[fresh[at - 1]].seq > t.sessions[slot].seq:
            fresh[at] = fresh[at - 1]
            at -= 1
        fresh[at] = slot
    while run.fresh_done < run.fresh:
        slot, later = fresh[run.fresh_done], run.dirty == 1 or run.vacant == 1
        if not later and not room(t):
            return MORE_SLOTS
        run.fresh_done += 1
        if later or not _match(t, slot):
            wait(t, slot)
    run.fresh = run.fresh_done = 0
    run.phase = REPLAN
    return GO_ON


@compiled
def _replan(t: Tables) -> int:
    run = t.run
    if run.dirty == 0 and run.vacant == 0:
        run.phase = NEXT
        return GO_ON
    run.vacant = 0
    if run.dirty == 0:
        run.sweep += 1
        run.phase = MATCH
        return GO_ON
    run.dirty = 0
    run.plans += 1
    run.sweep += 1
    run.phase = MATCH
    return GO_ON if make_plan(t) else PLAN_WANTED


@compiled
def _match_waiting(t: Tables) -> int:
    """All that wait in order of session, until a fill asks for another plan."""
    run, cells, aside, code = t.run, t.cells, NONE, GO_ON
    while run.waiting > 0 and run.dirty == 0:
        if not room(t):
            code = MORE_SLOTS
            break
        first, of = NONE, NONE
        for cell in range(len(cells)):
            slot = cells[cell].pool
            if slot == NONE or cells[cell].dry == run.sweep:
                continue
            if first == NONE or t.sessions[slot].seq < t.sessions[first].seq:
                first, of = slot, cell
        if first == NONE:
            break
        if _match(t, first):
            continue
        if wanted(t, of):  # this device alone is used up: those behind it may not be
            wait_no_more(t, first)
            t.sessions[first].sibling, aside = aside, first
        else:
            cells[of].dry = run.sweep
    while aside != NONE:
        slot, aside = aside, t.sessions[aside].sibling
        wait(t, slot)
    if code == GO_ON:
        run.phase = REPLAN
    return code


# -- what is due by the clock


@compiled
def _give_up(t: Tables) -> int:
    """The next event is after the end of the simulation."""
    t.run.now = t.run.until
    return OVER


@compiled
def _pass_time(t: Tables, due: float) -> int:
    """Deadlines of attempts, by request; expiries, by lease; the plan's review, those who cool no more, a tick."""
    if t.run.due <= due:  # it may have moved on
        t.run.due = _next_due(t)
        if min(t.run.due, t.run.tick, t.run.review, t.run.wake) > due:
            return GO_ON
    if due > t.run.until:
        return _give_up(t)
    t.run.now = due
    while True:
        first = NONE
        for job in range(t.run.arrived):
            if t.jobs[job].deadline <= due and (first == NONE or t.jobs[job].request < t.jobs[first].request):
                first = job
        if first == NONE:
            break
        abort(t, first)
    while True:
        lease = NONE
        for job in range(t.run.arrived):
            head = t.jobs[job].head
            if head == NONE or t.leases[head].granted + t.jobs[job].lease_s > due:
                continue
            if lease == NONE or t.leases[head].seq < t.leases[lease].seq:
                lease = head
        if lease == NONE:
            break
        expire(t, lease)
    if t.run.review <= due:
        t.run.review, t.run.dirty = np.inf, 1
    if t.run.wake <= due:
        t.run.wake, t.run.vacant = np.inf, 1
    return TICKED if t.run.tick <= due else GO_ON


@compiled
def _next_due(t: Tables) -> float:
    """The first time an attempt or a lease is due. Leases of a job run equally long, so its oldest one is its first."""
    due = np.inf
    for job in range(t.run.arrived):
        due = min(due, t.jobs[job].deadline)
        head = t.jobs[job].head
        if head != NONE:
            due = min(due, t.leases[head].granted + t.jobs[job].lease_s)
    return float(due)
