"""What the kernel keeps in order: events to come (a heap), waiting sessions (a pairing heap per cell), leases (a
list per job), what is said, and the digest of what has happened."""

import numpy as np
from numpy.typing import NDArray

from testbed.simulate.compiled.compiled import compiled, mixed
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables

SESSION_ENDS = 1 << 60  # added to the session's number: after all responses of the same time
# In place of a session, see ``coordinator.engine.record.Digest``.
OPENED, FILLED, CLOSED, ABORTED = (np.uint64(2**64 - number) for number in (1, 2, 3, 4))
# What is said. OPENS: 1 after a close, 0 after an abort, 2 asynchronously; ENDS: leases granted until then.
OPENS, ENDS, FOLLOWS, RELEASES = range(4)


@compiled
def note(t: Tables, what: np.uint64, request: int) -> None:
    """Add to the digest what happens now."""
    state = mixed(t.run.digest ^ np.float64(t.run.now).view(np.uint64))
    t.run.digest = mixed(mixed(state ^ what) ^ np.uint64(request))


@compiled
def say(t: Tables, what: int, subject: int, number: int) -> None:
    """Note what is to be heard before the next event."""
    place = t.run.said
    one = t.said[place]
    one.what, one.subject, one.number = what, subject, number
    t.run.said = place + 1


# -- events to come


@compiled
def push(t: Tables, at: float, code: int, slot: int) -> None:
    """Push an event onto the heap. There is room: ``room`` of ``kernel_rules``."""
    heap = t.heap
    place = t.run.heap
    t.run.heap = place + 1
    while place > 0:
        above = (place - 1) >> 2
        if heap[above].at < at or (heap[above].at == at and heap[above].code < code):
            break
        heap[place].at = heap[above].at
        heap[place].code, heap[place].slot = heap[above].code, heap[above].slot
        place = above
    heap[place].at = at
    heap[place].code, heap[place].slot = code, slot


@compiled
def pop(t: Tables) -> None:
    """Remove the first."""
    heap = t.heap
    count = t.run.heap - 1
    t.run.heap = count
    at, code, slot = heap[count].at, heap[count].code, heap[count].slot
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
        if at < heap[least].at or (at == heap[least].at and code < heap[least].code):
            break
        heap[place].at = heap[least].at
        heap[place].code, heap[place].slot = heap[least].code, heap[least].slot
        place = least
    heap[place].at = at
    heap[place].code, heap[place].slot = code, slot


@compiled
def _later(t: Tables, one: int, other: int) -> int:
    """1: an event comes after another, 0: before. Without a branch, for which of them does cannot be foretold."""
    heap = t.heap
    tied = (heap[other].at == heap[one].at) & (heap[other].code < heap[one].code)
    return int((heap[other].at < heap[one].at) | tied)


# -- waiting sessions of a cell, the first in order of check-in on top


@compiled
def _meld(t: Tables, one: int, other: int) -> int:
    """Two pools into one, by their tops."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    sessions = t.sessions
    if sessions[other].seq < sessions[one].seq:
        one, other = other, one
    child = sessions[one].child
    sessions[other].sibling, sessions[other].previous = child, one
    if child != NONE:
        sessions[child].previous = other
    sessions[one].child = other
    return one


@compiled
def _without_top(t: Tables, top: int) -> int:
    """What is left of a pool: in pairs, from left to right, and then into one, back again."""
    sessions = t.sessions
    pairs, child = NONE, sessions[top].child
    while child != NONE:
        other = sessions[child].sibling
        after = NONE if other == NONE else sessions[other].sibling
        pair = _meld(t, child, other)
        sessions[pair].sibling = pairs
        pairs, child = pair, after
    rest = NONE
    while pairs != NONE:
        after = sessions[pairs].sibling
        rest = _meld(t, rest, pairs)
        pairs = after
    return rest


@compiled
def cell_of(t: Tables, slot: int) -> int:
    """The cell of a session."""
    return int(t.kinds[t.sessions[slot].kind].cell + t.sessions[slot].tier + 1)


@compiled
def wait(t: Tables, slot: int) -> None:
    """A session joins the pool of its cell."""
    sessions, cell = t.sessions, cell_of(t, slot)
    sessions[slot].child = sessions[slot].sibling = sessions[slot].previous = NONE
    sessions[slot].waits = 1
    t.run.waiting += 1
    t.cells[cell].pool = _meld(t, t.cells[cell].pool, slot)


@compiled
def wait_no_more(t: Tables, slot: int) -> None:
    """A session that waits leaves its pool."""
    sessions, cell = t.sessions, cell_of(t, slot)
    sessions[slot].waits = 0
    t.run.waiting -= 1
    top, rest = t.cells[cell].pool, _without_top(t, slot)
    if top != slot:
        previous, sibling = sessions[slot].previous, sessions[slot].sibling
        if sessions[previous].child == slot:
            sessions[previous].child = sibling
        else:
            sessions[previous].sibling = sibling
        if sibling != NONE:
            sessions[sibling].previous = previous
        rest = _meld(t, top, rest)
    t.cells[cell].pool = rest


@compiled
def wait_again(t: Tables) -> None:
    """Put all that wait into pools again, when regions were numbered anew."""
    t.cells["pool"][:] = NONE
    t.run.waiting = 0
    for slot in range(len(t.sessions)):
        if t.sessions[slot].seq > 0 and t.sessions[slot].waits == 1:
            wait(t, slot)


# -- slots


@compiled
def new_session(t: Tables, seq: int) -> int:
    """Take a slot for a session. There is one."""
    slot = t.run.free_session
    t.run.free_session = t.sessions[slot].next
    t.sessions[slot].seq = seq
    return int(slot)


@compiled
def free_session(t: Tables, slot: int) -> None:
    t.sessions[slot].seq = 0
    t.sessions[slot].next = t.run.free_session
    t.run.free_session = slot


@compiled
def new_lease(t: Tables, seq: int, job: int) -> int:
    """Take a slot for a lease, in the list of its job. There is one."""
    leases, slot, tail = t.leases, t.run.free_lease, t.jobs[job].tail
    t.run.free_lease = leases[slot].next
    leases[slot].seq, leases[slot].job = seq, job
    leases[slot].next, leases[slot].previous = NONE, tail
    if tail == NONE:
        t.jobs[job].head = slot
    else:
        leases[tail].next = slot
    t.jobs[job].tail = slot
    return int(slot)


@compiled
def free_lease(t: Tables, slot: int) -> None:
    leases, job = t.leases, t.leases[slot].job
    before, after = leases[slot].previous, leases[slot].next
    if before == NONE:
        t.jobs[job].head = after
    else:
        leases[before].next = after
    if after == NONE:
        t.jobs[job].tail = before
    else:
        leases[after].previous = before
    leases[slot].seq = 0
    leases[slot].next = t.run.free_lease
    t.run.free_lease = slot


@compiled
def sort(items: NDArray[np.generic], keys: NDArray[np.generic]) -> None:
    """Sort by key; equal ones stay as they are. There are few, and this moves few of them."""
    for place in range(1, len(items)):
        item, key, at = items[place], keys[place], place
        while at > 0 and keys[at - 1] > key:
            items[at], keys[at] = items[at - 1], keys[at - 1]
            at -= 1
        items[at], keys[at] = item, key
