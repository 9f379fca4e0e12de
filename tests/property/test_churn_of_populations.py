"""Timelines on populations are granted, cut and simulated as those of fleets are."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.policies.registry import load_policy
from device_agent.sessions import LEAST_SESSION_S
from device_agent.spec import Absence, AbsenceKind, Ending, Interval, without
from testbed.simulate.compiled.bulk import simulate_in_bulk
from testbed.simulate.compiled.compiled import COMPILES
from testbed.simulate.events.loop import simulate_events
from testbed.testing.worlds import Session, job, world
from testbed.world import absences as cut
from testbed.world.arrays import CheckIns
from testbed.world.states import Roster, States
from testbed.world.timeline import Entry, Selection, Verb
from tests.property.test_churn import COUNT, TIMELINES, expand, meant
from tests.simulation.test_bulk import assert_equal


def sessions(seed: int) -> list[Session]:
    """Of all devices, up to time 60; some follow each other without a gap, and some devices have none."""
    rng = np.random.default_rng(seed)
    found = []
    for device in range(COUNT):
        at = float(rng.integers(0, 12)) / 2 if device else math.inf
        while at < 60:
            end = at + float(rng.integers(1, 20)) / 2
            found.append(Session(at, end, device, slow=1.0 + device % 3, crash=bool(rng.random() < 0.3)))
            at = end + float(rng.integers(0, 6)) / 2
    return sorted(found, key=lambda one: one.start)


@settings(max_examples=150)
@given(TIMELINES, st.integers(0, 99))
def test_every_selection_is_granted_on_whom_it_can_be(timeline: list[Entry], seed: int) -> None:
    rows = sessions(seed)
    assert expand(timeline, seed, rows) == expand(timeline, seed, rows)


@settings(max_examples=100)
@given(TIMELINES, st.integers(0, 99), st.integers(1, 5))
def test_what_is_left_of_the_sessions(timeline: list[Entry], seed: int, blocks: int) -> None:
    rows = sessions(seed)
    absences = expand(timeline, seed, rows).absences
    left = list(cut.without(world([], rows, blocks=blocks).trace, absences, COUNT)())
    starts = [start for block in left for start in block.start_s.tolist()]
    assert starts == sorted(starts)
    for device in range(COUNT):
        own = [one for one in rows if one.device == device]
        found = [row for block in left for row in rows_of(block, device)]
        assert [row[1:] for row in found] == list(pieces(own, absences.get(device, ())))
        numbers = [row[0] for row in found]
        assert numbers == sorted(set(numbers))


def rows_of(block: CheckIns, device: int) -> Iterator[tuple[int, float, float, bool]]:
    mine = block.device == device
    columns = (block.interval[mine], block.start_s[mine], block.end_s[mine], block.crash[mine])
    return zip(*(column.tolist() for column in columns), strict=True)


def pieces(own: Sequence[Session], absences: Sequence[Absence]) -> Iterator[tuple[float, float, bool]]:
    """One absence after the other; and an agent has it so, too."""
    ends = {True: Ending.CRASH, False: Ending.GOODBYE}
    intervals = [Interval(number, one.start, one.end, ends[one.crash]) for number, one in enumerate(own, start=1)]
    agent = [(one.start_s, one.end_s, one.ends is not Ending.GOODBYE) for one in without(intervals, absences)]
    found = []
    for one in own:
        start = one.start
        for absence in absences:
            if absence.until_s > start and absence.from_s < one.end:
                found.append((start, absence.from_s, absence.how is not AbsenceKind.LEAVE))
                start = absence.until_s
        found.append((start, one.end, one.crash))
    found = [each for each in found if each[1] - each[0] >= LEAST_SESSION_S]
    assert agent == found
    return iter(found)


@pytest.mark.bulk
@pytest.mark.skipif(not COMPILES, reason="needs Numba")
@settings(max_examples=40)
@given(TIMELINES, st.integers(0, 99), st.sampled_from(["fifo", "venn", "venn-plus"]))
def test_in_bulk_it_is_the_same(timeline: list[Entry], seed: int, policy: str) -> None:
    rows = sessions(seed)
    absences = expand(timeline, seed, rows).absences
    trace = cut.without(world([], rows, blocks=3).trace, absences, COUNT)
    jobs = [job("a", 3, rounds=9, deadline=9.0, compute=1.5), job("b", 2, rounds=9, deadline=9.0, arrives=4.0)]
    made = world(jobs, rows, seed=seed, trace=trace)
    assert_equal(simulate_events(made, load_policy(policy), validate=True), simulate_in_bulk(made, load_policy(policy)))


def test_nothing_is_read_that_nobody_asks_for() -> None:
    """A night for each device is known without its sessions; a trace goes on for ever."""

    def trace() -> Iterator[CheckIns]:
        raise AssertionError("it was read")

    wanted = [Selection(1.0, 0, Verb.LEAVE, 3, 1, 2.0)]
    made = States(Roster(COUNT, trace, meant), wanted, seed=1)
    assert [action.target for action in made.grant(wanted[0])] == ["3"]
    assert made.absences() == {3: [Absence(1.0, 3.0, AbsenceKind.LEAVE)]}


def test_many_pieces_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "ROWS", 4)
    rows = [Session(0.0, 100.0, device) for device in range(COUNT)]
    away = [Absence(10.0 * at, 10.0 * at + 5, AbsenceKind.LEAVE) for at in range(1, 5)]
    left = list(cut.without(world([], rows).trace, dict.fromkeys(range(COUNT), away), COUNT)())
    assert sum(map(len, left)) == 5 * COUNT
    assert max(map(len, left)) == 4
    again = list(islice(cut.without(world([], rows).trace, {}, COUNT)(), 9))
    assert [len(block) for block in again] == [COUNT]
