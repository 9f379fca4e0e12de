"""What the kernel keeps in order: events to come (a heap), waiting sessions (a pairing heap per cell), leases (a
list per job), what is said, and the digest of what has happened."""

import numpy as np
from numpy.typing import NDArray

from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.layout import (
    DIGEST,
    FREE_LEASE,
    FREE_SESSION,
    H_CODE,
    H_SLOT,
    HEAP,
    J_HEAD,
    J_TAIL,
    K_CELL,
    L_JOB,
    L_NEXT,
    L_PREVIOUS,
    L_SEQ,
    NONE,
    NOW,
    R_POOL,
    S_CHILD,
    S_KIND,
    S_NEXT,
    S_PREVIOUS,
    S_SEQ,
    S_SIBLING,
    S_TIER,
    S_WAITS,
    SAID,
    WAITING,
)
from testbed.simulate.compiled.tables import Tables

SESSION_ENDS = 1 << 60  # added to the session's number: after all responses of the same time
# In place of a session, see ``coordinator.engine.record.Digest``.
OPENED, FILLED, CLOSED, ABORTED = (np.uint64(2**64 - number) for number in (1, 2, 3, 4))
# What is said. OPENS: 1 after a close, 0 after an abort, 2 asynchronously; ENDS: leases granted until then.
OPENS, ENDS, FOLLOWS, RELEASES = range(4)


@compiled
def note(t: Tables, what: np.uint64, request: int) -> None:
    """Add to the digest what happens now."""
    state = mixed(t.bits[DIGEST] ^ t.real_bits[NOW])
    t.bits[DIGEST] = mixed(mixed(state ^ what) ^ np.uint64(request))


@compiled
def say(t: Tables, what: int, subject: int, number: int) -> None:
    """To be heard before the next event."""
    place = t.numbers[SAID]
    t.said[place, 0], t.said[place, 1], t.said[place, 2] = what, subject, number
    t.numbers[SAID] = place + 1


# -- events to come


@compiled
def push(t: Tables, at: float, code: int, slot: int) -> None:
    """There is room: ``room`` of ``kernel_rules``."""
    heap_at, heap = t.heap_at, t.heap
    place = t.numbers[HEAP]
    t.numbers[HEAP] = place + 1
    while place > 0:
        above = (place - 1) >> 2
        if heap_at[above] < at or (heap_at[above] == at and heap[above, H_CODE] < code):
            break
        heap_at[place] = heap_at[above]
        heap[place, H_CODE], heap[place, H_SLOT] = heap[above, H_CODE], heap[above, H_SLOT]
        place = above
    heap_at[place] = at
    heap[place, H_CODE], heap[place, H_SLOT] = code, slot


@compiled
def pop(t: Tables) -> None:
    """Remove the first."""
    heap_at, heap = t.heap_at, t.heap
    count = t.numbers[HEAP] - 1
    t.numbers[HEAP] = count
    at, code, slot = heap_at[count], heap[count, H_CODE], heap[count, H_SLOT]
    place = 0
    while True:
        first = 4 * place + 1
        if first >= count:
            break
        if first + 4 <= count:
            one = first + _later(t, first, first + 1)
            other = first + 2 + _later(t, first + 2, first + 3)
            least = one + (other - one) * _later(t, one, other)
        else:
            least = first
            for each in range(first + 1, count):
                least += (each - least) * _later(t, least, each)
        if at < heap_at[least] or (at == heap_at[least] and code < heap[least, H_CODE]):
            break
        heap_at[place] = heap_at[least]
        heap[place, H_CODE], heap[place, H_SLOT] = heap[least, H_CODE], heap[least, H_SLOT]
        place = least
    heap_at[place] = at
    heap[place, H_CODE], heap[place, H_SLOT] = code, slot


@compiled
def _later(t: Tables, one: int, other: int) -> int:
    """1: an event comes after another, 0: before. Without a branch, for which of them does cannot be foretold."""
    heap_at, heap = t.heap_at, t.heap
    tied = (heap_at[other] == heap_at[one]) & (heap[other, H_CODE] < heap[one, H_CODE])
    return int((heap_at[other] < heap_at[one]) | tied)


# -- waiting sessions of a cell, the first in order of check-in on top


@compiled
def _meld(t: Tables, one: int, other: int) -> int:
    """Two pools into one, by their tops."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    sessions = t.sessions
    if sessions[other, S_SEQ] < sessions[one, S_SEQ]:
        one, other = other, one
    child = sessions[one, S_CHILD]
    sessions[other, S_SIBLING], sessions[other, S_PREVIOUS] = child, one
    if child != NONE:
        sessions[child, S_PREVIOUS] = other
    sessions[one, S_CHILD] = other
    return one


@compiled
def _without_top(t: Tables, top: int) -> int:
    """What is left of a pool: in pairs, from left to right, and then into one, back again."""
    sessions = t.sessions
    pairs, child = NONE, sessions[top, S_CHILD]
    while child != NONE:
        other = sessions[child, S_SIBLING]
        after = NONE if other == NONE else sessions[other, S_SIBLING]
        pair = _meld(t, child, other)
        sessions[pair, S_SIBLING] = pairs
        pairs, child = pair, after
    rest = NONE
    while pairs != NONE:
        after = sessions[pairs, S_SIBLING]
        rest = _meld(t, rest, pairs)
        pairs = after
    return rest


@compiled
def cell_of(t: Tables, slot: int) -> int:
    """Of a session."""
    return int(t.kinds[t.sessions[slot, S_KIND], K_CELL] + t.sessions[slot, S_TIER] + 1)


@compiled
def wait(t: Tables, slot: int) -> None:
    """A session joins the pool of its cell."""
    sessions, cell = t.sessions, cell_of(t, slot)
    sessions[slot, S_CHILD] = sessions[slot, S_SIBLING] = sessions[slot, S_PREVIOUS] = NONE
    sessions[slot, S_WAITS] = 1
    t.numbers[WAITING] += 1
    t.cells[cell, R_POOL] = _meld(t, t.cells[cell, R_POOL], slot)


@compiled
def wait_no_more(t: Tables, slot: int) -> None:
    """A session that waits leaves its pool."""
    sessions, cell = t.sessions, cell_of(t, slot)
    sessions[slot, S_WAITS] = 0
    t.numbers[WAITING] -= 1
    top, rest = t.cells[cell, R_POOL], _without_top(t, slot)
    if top != slot:
        previous, sibling = sessions[slot, S_PREVIOUS], sessions[slot, S_SIBLING]
        if sessions[previous, S_CHILD] == slot:
            sessions[previous, S_CHILD] = sibling
        else:
            sessions[previous, S_SIBLING] = sibling
        if sibling != NONE:
            sessions[sibling, S_PREVIOUS] = previous
        rest = _meld(t, top, rest)
    t.cells[cell, R_POOL] = rest


@compiled
def wait_again(t: Tables) -> None:
    """Regions were numbered anew."""
    t.cells[:, R_POOL] = NONE
    t.numbers[WAITING] = 0
    for slot in range(len(t.sessions)):
        if t.sessions[slot, S_SEQ] > 0 and t.sessions[slot, S_WAITS] == 1:
            wait(t, slot)


# -- slots


@compiled
def new_session(t: Tables, seq: int) -> int:
    """Its slot. There is one."""
    slot = t.numbers[FREE_SESSION]
    t.numbers[FREE_SESSION] = t.sessions[slot, S_NEXT]
    t.sessions[slot, S_SEQ] = seq
    return int(slot)


@compiled
def free_session(t: Tables, slot: int) -> None:
    t.sessions[slot, S_SEQ] = 0
    t.sessions[slot, S_NEXT] = t.numbers[FREE_SESSION]
    t.numbers[FREE_SESSION] = slot


@compiled
def new_lease(t: Tables, seq: int, job: int) -> int:
    """Its slot, in the list of its job. There is one."""
    leases, slot, tail = t.leases, t.numbers[FREE_LEASE], t.jobs[job, J_TAIL]
    t.numbers[FREE_LEASE] = leases[slot, L_NEXT]
    leases[slot, L_SEQ], leases[slot, L_JOB] = seq, job
    leases[slot, L_NEXT], leases[slot, L_PREVIOUS] = NONE, tail
    if tail == NONE:
        t.jobs[job, J_HEAD] = slot
    else:
        leases[tail, L_NEXT] = slot
    t.jobs[job, J_TAIL] = slot
    return int(slot)


@compiled
def free_lease(t: Tables, slot: int) -> None:
    leases, job = t.leases, t.leases[slot, L_JOB]
    before, after = leases[slot, L_PREVIOUS], leases[slot, L_NEXT]
    if before == NONE:
        t.jobs[job, J_HEAD] = after
    else:
        leases[before, L_NEXT] = after
    if after == NONE:
        t.jobs[job, J_TAIL] = before
    else:
        leases[after, L_PREVIOUS] = before
    leases[slot, L_SEQ] = 0
    leases[slot, L_NEXT] = t.numbers[FREE_LEASE]
    t.numbers[FREE_LEASE] = slot


@compiled
def sort(items: NDArray[np.generic], keys: NDArray[np.generic]) -> None:
    """By key; equal ones stay as they are. There are few, and this moves few of them."""
    for place in range(1, len(items)):
        item, key, at = items[place], keys[place], place
        while at > 0 and keys[at - 1] > key:
            items[at], keys[at] = items[at - 1], keys[at - 1]
            at -= 1
        items[at], keys[at] = item, key
