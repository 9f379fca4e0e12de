"""The event loop in bulk: the same events in the same order as ``events``, on arrays.

``run`` goes on until something is wanted that only Python can do, which the code that it returns says; after that it
is called again and goes on where it was. A step is one of: the next event, or the next reaction to the last one; when
all are heard, the matching of devices that became matchable meanwhile; a new plan, if its inputs have changed; the
matching of devices that wait, by the new plan.
"""

import numpy as np

from testbed.simulate.compiled.compiled import compiled, entry, fetch
from testbed.simulate.compiled.kernel_due import give_up, pass_time
from testbed.simulate.compiled.kernel_limits import limited
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
from testbed.simulate.compiled.kernel_match import choose, room, wanted
from testbed.simulate.compiled.kernel_plan import make_plan
from testbed.simulate.compiled.kernel_rules import (
    close_session,
    end_job,
    free_device,
    grant,
    lose_absent,
    open_attempt,
    respond,
)
from testbed.simulate.compiled.kernel_tiers import tier_of
from testbed.simulate.compiled.layout import (
    ARRIVED,
    ARRIVES,
    AT_CHECK_IN,
    CHECK_INS,
    D_CHECK_INS,
    D_FIRST,
    D_INTERVAL,
    D_KIND,
    D_LEASE,
    D_TASKS,
    DIRTY,
    DUE,
    FINISHED,
    FRESH,
    FRESH_DONE,
    GO_ON,
    H_CODE,
    H_SLOT,
    HEAP,
    HEARD,
    K_CELL,
    K_COUNTS,
    L_SEQ,
    LEAVES,
    LOGGED,
    MATCH,
    MORE_LOG,
    MORE_ROWS,
    MORE_SLOTS,
    NEW_KIND,
    NEXT,
    NEXT_ARRIVAL,
    NONE,
    NOW,
    OVER,
    PHASE,
    PLAN_WANTED,
    PLANNER,
    PLANS,
    PRESENT,
    R_DRY,
    R_POOL,
    REGROUP,
    REPLAN,
    REVIEW,
    ROW,
    ROWS,
    ROWS_OF_JOBS,
    S_DEVICE,
    S_DRAWS,
    S_KIND,
    S_LEASE,
    S_SEQ,
    S_SIBLING,
    S_TIER,
    S_WAITS,
    SAID,
    SETTLE,
    SR_BYTE_S,
    SR_END,
    SR_SLOW,
    SUBJECT,
    SWEEP,
    TICK,
    TIERS,
    TRACE_OVER,
    UNFINISHED,
    UNIFORM,
    UNTIL,
    VACANT,
    WAITING,
)
from testbed.simulate.compiled.tables import Tables

_AHEAD = 16  # rows: by then what is known of a device, anywhere in much memory, is in the cache
_NEVER = -(2**63)  # no interval has this number


@entry
def run(t: Tables) -> int:
    """Returns a code."""
    if t.numbers[REGROUP] == 1:
        t.numbers[REGROUP] = 0
        wait_again(t)
    while True:
        phase = t.numbers[PHASE]
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
    numbers = t.numbers
    if numbers[HEARD] < numbers[SAID]:
        return _hear(t)
    if numbers[DIRTY] == 1 or numbers[VACANT] == 1 or numbers[FRESH] > 0:  # the turn is over
        numbers[PHASE] = SETTLE
        return GO_ON
    if numbers[FINISHED] != NONE:
        slot = numbers[FINISHED]
        numbers[FINISHED] = NONE
        free_device(t, slot)
        return GO_ON
    numbers[HEARD] = numbers[SAID] = 0
    if numbers[UNFINISHED] == 0:
        return OVER
    if numbers[ROW] >= numbers[ROWS] and numbers[TRACE_OVER] == 0:
        return MORE_ROWS
    if numbers[LOGGED] + numbers[ROWS_OF_JOBS] >= len(t.attempts):
        return MORE_LOG
    check_in = np.inf if numbers[TRACE_OVER] == 1 else t.start_s[numbers[ROW]]
    arrival = t.reals[NEXT_ARRIVAL]
    given = min(check_in, arrival)
    if given == np.inf and numbers[PRESENT] == 0:
        return OVER
    due = min(t.reals[DUE], t.reals[TICK], t.reals[REVIEW])
    if numbers[HEAP] > 0 and t.heap_at[0] <= min(given, due):
        response = t.heap[0, H_CODE] < SESSION_ENDS
        if response or t.heap_at[0] < due:
            return _on_heap(t, response)
    if due <= given:
        return pass_time(t, due)
    if given > t.reals[UNTIL]:
        return give_up(t)
    if arrival <= check_in:
        t.reals[NOW] = arrival
        numbers[SUBJECT] = numbers[ARRIVED]
        return ARRIVES
    return _check_in(t, numbers[ROW])


@compiled
def _hear(t: Tables) -> int:
    numbers, said = t.numbers, t.said[t.numbers[HEARD]]
    what, subject, number = said[0], said[1], said[2]
    numbers[HEARD] += 1
    if what == RELEASES:
        if t.sessions[subject, S_SEQ] == number:
            free_device(t, subject)
        return GO_ON
    numbers[DIRTY] = 1
    if what == OPENS:
        open_attempt(t, subject, number)
    elif what == ENDS:
        end_job(t, subject, number)
        numbers[SUBJECT] = subject
        return LEAVES
    return GO_ON


@compiled
def _on_heap(t: Tables, response: bool) -> int:
    """A response, or the end of a session, if it is still to come."""
    at, code, slot = t.heap_at[0], t.heap[0, H_CODE], t.heap[0, H_SLOT]
    stands = t.leases[slot, L_SEQ] == code if response else t.sessions[slot, S_SEQ] == code - SESSION_ENDS
    if stands and at > t.reals[UNTIL]:
        return give_up(t)
    pop(t)
    if not stands:
        return GO_ON
    t.reals[NOW] = at
    if response:
        session = respond(t, slot)
        if t.numbers[AT_CHECK_IN] == 1:  # it has had its task, and leaves
            close_session(t, session)
        else:
            t.numbers[FINISHED] = session
    else:
        close_session(t, slot)
    return GO_ON


@compiled
def _check_in(t: Tables, row: int) -> int:
    numbers, kind, device = t.numbers, t.kind[row], t.device[row]
    cell = t.kinds[kind, K_CELL]
    if cell == NONE:
        numbers[SUBJECT] = kind
        return NEW_KIND
    if not room(t):
        return MORE_SLOTS
    numbers[ROW] = row + 1
    numbers[CHECK_INS] += 1
    seq = numbers[CHECK_INS]
    if row + _AHEAD < numbers[ROWS]:
        fetch(t.devices, t.device[row + _AHEAD])
    t.reals[NOW] = t.start_s[row]
    one = t.devices[device]
    if one[D_FIRST] == 0:
        one[D_FIRST], one[D_INTERVAL], one[D_LEASE] = seq, _NEVER, NONE
    one[D_KIND] = kind
    if one[D_LEASE] != NONE:
        lose_absent(t, one[D_LEASE])
    again = one[D_INTERVAL] == t.interval[row]
    if not again:
        one[D_INTERVAL], one[D_TASKS] = t.interval[row], 0
        one[D_CHECK_INS] += 1
    if limited(t, device):
        return GO_ON
    tier = NONE if numbers[TIERS] == 1 else tier_of(t, t.slow[row], again)
    if not again:
        t.kinds[kind, K_COUNTS + tier + 1] += 1
    job = choose(t, cell + tier + 1, device, seq, 0)
    if job == NONE and numbers[AT_CHECK_IN] == 1:
        return GO_ON
    slot = new_session(t, seq)
    session = t.sessions[slot]
    session[S_DEVICE], session[S_KIND], session[S_LEASE], session[S_WAITS] = device, kind, NONE, 0
    session[S_DRAWS], session[S_TIER] = numbers[UNIFORM], tier
    times = t.session_reals[slot]
    times[SR_END], times[SR_SLOW], times[SR_BYTE_S] = t.end_s[row], t.slow[row], t.byte_s[row]
    numbers[PRESENT] += 1
    if numbers[AT_CHECK_IN] == 0:
        push(t, times[SR_END], SESSION_ENDS + seq, slot)
    if job == NONE:
        session[S_DRAWS] = 0
        wait(t, slot)
        return GO_ON
    grant(t, slot, job)
    return GO_ON


# -- matching and plans


@compiled
def _match(t: Tables, slot: int) -> bool:
    """Lease a session that waits or is fresh, if some request can use it. There is room."""
    session = t.sessions[slot]
    job = choose(t, cell_of(t, slot), session[S_DEVICE], session[S_SEQ], session[S_DRAWS])
    if job == NONE:
        return False
    session[S_DRAWS] += t.numbers[UNIFORM]
    if session[S_WAITS] == 1:
        wait_no_more(t, slot)
    grant(t, slot, job)
    return True


@compiled
def _settle(t: Tables) -> int:
    """Match what became matchable, in order of session, until the plan's inputs change."""
    numbers, fresh = t.numbers, t.fresh
    for place in range(numbers[FRESH_DONE] + 1, numbers[FRESH]):
        slot, at = fresh[place], place
        while at > numbers[FRESH_DONE] and t.sessions[fresh[at - 1], S_SEQ] > t.sessions[slot, S_SEQ]:
            fresh[at] = fresh[at - 1]
            at -= 1
        fresh[at] = slot
    while numbers[FRESH_DONE] < numbers[FRESH]:
        slot, later = fresh[numbers[FRESH_DONE]], numbers[DIRTY] == 1 or numbers[VACANT] == 1
        if not later and not room(t):
            return MORE_SLOTS
        numbers[FRESH_DONE] += 1
        if later or not _match(t, slot):
            wait(t, slot)
    numbers[FRESH] = numbers[FRESH_DONE] = 0
    numbers[PHASE] = REPLAN
    return GO_ON


@compiled
def _replan(t: Tables) -> int:
    numbers = t.numbers
    if numbers[DIRTY] == 0 and numbers[VACANT] == 0:
        numbers[PHASE] = NEXT
        return GO_ON
    numbers[VACANT] = 0
    if numbers[DIRTY] == 0:
        numbers[SWEEP] += 1
        numbers[PHASE] = MATCH
        return GO_ON
    numbers[DIRTY] = 0
    numbers[PLANS] += 1
    numbers[SWEEP] += 1
    numbers[PHASE] = MATCH
    return GO_ON if numbers[PLANNER] != NONE and make_plan(t) else PLAN_WANTED


@compiled
def _match_waiting(t: Tables) -> int:
    """All that wait in order of session, until a fill asks for another plan."""
    numbers, cells, aside, code = t.numbers, t.cells, NONE, GO_ON
    while numbers[WAITING] > 0 and numbers[DIRTY] == 0:
        if not room(t):
            code = MORE_SLOTS
            break
        first, of = NONE, NONE
        for cell in range(len(cells)):
            slot = cells[cell, R_POOL]
            if slot == NONE or cells[cell, R_DRY] == numbers[SWEEP]:
                continue
            if first == NONE or t.sessions[slot, S_SEQ] < t.sessions[first, S_SEQ]:
                first, of = slot, cell
        if first == NONE:
            break
        if _match(t, first):
            continue
        if wanted(t, of):  # this device alone is used up: those behind it may not be
            wait_no_more(t, first)
            t.sessions[first, S_SIBLING], aside = aside, first
        else:
            cells[of, R_DRY] = numbers[SWEEP]
    while aside != NONE:
        slot, aside = aside, t.sessions[aside, S_SIBLING]
        wait(t, slot)
    if code == GO_ON:
        numbers[PHASE] = REPLAN
    return code
