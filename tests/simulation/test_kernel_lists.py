"""What the compiled loop keeps in order, one structure at a time, as it stands: nothing is compiled here."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.simulate.compiled import kernel_lists
from testbed.simulate.compiled.compiled import plain
from testbed.simulate.compiled.layout import CELL, NONE
from testbed.simulate.compiled.tables import Tables, more_slots, tables
from testbed.testing.worlds import Session, job, world

SLOTS = 64


def _uncompiled() -> dict[str, Any]:
    """The functions of the module, calling each other as they are written."""
    names: dict[str, Any] = dict(vars(kernel_lists))
    for name, value in vars(kernel_lists).items():
        if isinstance(function := plain(value), FunctionType) and function.__module__ == kernel_lists.__name__:
            names[name] = FunctionType(function.__code__, names)
    return names


LISTS: dict[str, Callable[..., Any]] = _uncompiled()


def _tables() -> Tables:
    """Of one job and one kind of devices, in one cell."""
    t = tables(world([job("a", 1)], [Session(0.0, 1.0, 0)]), [0], 1, slots=SLOTS)
    cells = np.zeros(1, CELL)
    cells["pool"] = NONE
    t.kinds["cell"] = 0
    return t.with_(cells=cells, serves=np.ones((1, 1), np.bool_))


@given(st.lists(st.integers(0, 9), max_size=60))
def test_events_come_by_time_and_then_by_code(times: list[int]) -> None:
    t, expected = _tables(), sorted((float(at), code) for code, at in enumerate(times))
    for code, at in sorted(enumerate(times), key=lambda item: -item[0] % 7):
        LISTS["push"](t, float(at), code, 100 + code)
    found = []
    while t.run.heap:
        assert t.heap[0].slot == 100 + t.heap[0].code
        found.append((float(t.heap[0].at), int(t.heap[0].code)))
        LISTS["pop"](t)
    assert found == expected


@given(st.permutations(range(1, 20)), st.sets(st.integers(1, 19)))
def test_the_first_that_checked_in_waits_on_top_whoever_leaves(order: list[int], leave: set[int]) -> None:
    t, slots = _tables(), {}
    for seq in order:
        slots[seq] = LISTS["new_session"](t, seq)
        t.sessions[slots[seq]].tier = NONE
        LISTS["wait"](t, slots[seq])
    left = set(order)
    for seq in sorted(leave, key=order.index):
        LISTS["wait_no_more"](t, slots[seq])
        left.remove(seq)
        assert t.cells[0].pool == (slots[min(left)] if left else NONE)
    LISTS["wait_again"](t)
    for seq in sorted(left):
        assert t.cells[0].pool == slots[seq]
        LISTS["wait_no_more"](t, slots[seq])
    assert (t.cells[0].pool, t.run.waiting) == (NONE, 0)


@given(st.lists(st.integers(0, 99), max_size=50))
def test_leases_of_a_job_are_in_the_order_of_their_grant(steps: list[int]) -> None:
    """An even number grants one, an odd one ends one of those that are there."""
    t, live = _tables(), {}
    for seq, step in enumerate(steps, 1):
        if step % 2 == 0 or not live:
            live[seq] = LISTS["new_lease"](t, seq, 0)
        else:
            LISTS["free_lease"](t, live.pop(sorted(live)[step % len(live)]))
        there, back = _followed(t, "head", "next"), _followed(t, "tail", "previous")
        assert there == list(live.values()) == back[::-1]


def _followed(t: Tables, end: str, link: str) -> list[int]:
    found, slot = [], t.jobs[0][end]
    while slot != NONE:
        found.append(int(slot))
        slot = t.leases[slot][link]
    return found


def test_more_slots_are_free_beside_those_that_were() -> None:
    t = _tables()
    taken = [LISTS["new_session"](t, seq) for seq in range(1, SLOTS - 2)]
    t = more_slots(t)
    free, slot = [], t.run.free_session
    while slot != NONE:
        free.append(int(slot))
        slot = t.sessions[slot].next
    assert sorted(free + taken) == list(range(2 * SLOTS))
