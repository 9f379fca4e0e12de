"""What the compiled loop keeps in order, one structure at a time."""

from hypothesis import given
from hypothesis import strategies as st

from testbed.simulate.compiled import kernel_lists
from testbed.simulate.compiled.layout import NONE
from testbed.simulate.compiled.tables import Tables, more_room
from testbed.testing.worlds import job
from tests.unit.simulate.kernels import SLOTS, small, uncompiled

LISTS = uncompiled(kernel_lists)


@given(st.lists(st.integers(0, 9), max_size=60))
def test_events_come_by_time_and_then_by_code(times: list[int]) -> None:
    t, expected = small([job("a", 1)]), sorted((float(at), code) for code, at in enumerate(times))
    for code, at in sorted(enumerate(times), key=lambda item: -item[0] % 7):
        LISTS.push(t, float(at), code, 100 + code)
    found = []
    while t.run.heap:
        assert t.heap[0].slot == 100 + t.heap[0].code
        found.append((float(t.heap[0].at), int(t.heap[0].code)))
        LISTS.pop(t)
    assert found == expected


@given(st.permutations(range(1, 20)), st.sets(st.integers(1, 19)))
def test_the_first_that_checked_in_waits_on_top_whoever_leaves(order: list[int], leave: set[int]) -> None:
    t, slots = small([job("a", 1)]), {}
    for seq in order:
        slots[seq] = LISTS.new_session(t, seq)
        t.sessions[slots[seq]].tier = NONE
        LISTS.wait(t, slots[seq])
    left = set(order)
    for seq in sorted(leave, key=order.index):
        LISTS.wait_no_more(t, slots[seq])
        left.remove(seq)
        assert t.cells[0].pool == (slots[min(left)] if left else NONE)
    LISTS.wait_again(t)
    for seq in sorted(left):
        assert t.cells[0].pool == slots[seq]
        LISTS.wait_no_more(t, slots[seq])
    assert (t.cells[0].pool, t.run.waiting) == (NONE, 0)


@given(st.lists(st.integers(0, 99), max_size=50))
def test_leases_of_a_job_are_in_the_order_of_their_grant(steps: list[int]) -> None:
    """An even number grants one, an odd one ends one of those that are there."""
    t, live = small([job("a", 1)]), {}
    for seq, step in enumerate(steps, 1):
        if step % 2 == 0 or not live:
            live[seq] = LISTS.new_lease(t, seq, 0)
        else:
            LISTS.free_lease(t, live.pop(sorted(live)[step % len(live)]))
        there, back = _followed(t, "head", "next"), _followed(t, "tail", "previous")
        assert there == list(live.values()) == back[::-1]


def _followed(t: Tables, end: str, link: str) -> list[int]:
    found, slot = [], t.jobs[0][end]
    while slot != NONE:
        found.append(int(slot))
        slot = t.leases[slot][link]
    return found


def test_more_slots_are_free_beside_those_that_were() -> None:
    t = small([job("a", 1)])
    taken = [LISTS.new_session(t, seq) for seq in range(1, SLOTS + 1)]
    t = more_room(t)
    free, slot = [], t.run.free_session
    while slot != NONE:
        free.append(int(slot))
        slot = t.sessions[slot].next
    assert sorted(free + taken) == list(range(2 * SLOTS))
