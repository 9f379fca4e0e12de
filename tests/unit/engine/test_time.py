"""Deadlines, tables of life cycles, and checks that find what is broken."""

from collections.abc import Callable

import pytest

from coordinator.engine.deadlines import Deadlines, Key, Kind
from coordinator.engine.events import TimePassed
from coordinator.engine.ids import DeviceId
from coordinator.engine.lifecycle import (
    DEVICE,
    JOB,
    LEASE,
    REQUEST,
    DeviceState,
    InvariantError,
    LeaseState,
    LeaseStep,
    RequestState,
    advance,
    new_history,
)
from coordinator.engine.model import LeaseEnd
from testbed.testing.engine import ScriptedEngine


def test_the_earliest_is_due_first_and_ties_go_by_kind_and_key() -> None:
    times: dict[tuple[Kind, Key], float] = {
        (Kind.LEAVE, 1): 5.0,
        (Kind.LEASE, 9): 5.0,
        (Kind.LEASE, 2): 5.0,
        (Kind.TICK, 0): 4.0,
    }
    deadlines = Deadlines(lambda kind, key: times.get((kind, key)))
    for (kind, key), at in times.items():
        deadlines.set(kind, key, at)
    assert deadlines.next() == 4.0
    taken = []
    while (one := deadlines.take(5.0, inclusive=True)) is not None:
        taken.append(one)
    assert taken == [(Kind.TICK, 0), (Kind.LEASE, 2), (Kind.LEASE, 9), (Kind.LEAVE, 1)]
    assert deadlines.next() is None


def test_an_entry_whose_time_has_moved_is_put_where_it_belongs() -> None:
    times: dict[tuple[Kind, Key], float | None] = {(Kind.LEAVE, 1): 5.0, (Kind.LEASE, 1): 6.0}
    deadlines = Deadlines(lambda kind, key: times[kind, key])
    deadlines.set(Kind.LEAVE, 1, 5.0)
    deadlines.set(Kind.LEASE, 1, 6.0)
    times[Kind.LEAVE, 1] = 9.0  # heard again: no call
    assert deadlines.take(6.0, inclusive=False) is None
    assert deadlines.next() == 6.0
    times[Kind.LEASE, 1] = None
    assert deadlines.next() == 9.0
    times[Kind.LEAVE, 1] = 7.0
    deadlines.set(Kind.LEAVE, 1, 7.0)  # earlier: a call
    assert deadlines.take(7.0, inclusive=True) == (Kind.LEAVE, 1)
    assert deadlines.next() is None


def test_a_missing_entry_is_an_error_with_the_recent_story() -> None:
    history = new_history()
    history.append((1.5, "OFFERED", "lease 7"))
    with pytest.raises(InvariantError, match=r"lease 7: no step accept from ended. Before: 1.500 OFFERED lease 7"):
        advance(LEASE, LeaseState.ENDED, LeaseStep.ACCEPT, "lease 7", history)


@pytest.mark.parametrize("table", [DEVICE, LEASE, REQUEST, JOB])
def test_every_state_can_be_reached(table: dict[tuple[str, str], str]) -> None:
    states = {state for state, _ in table}
    firsts = {"gone", "offered", "filling", "arriving"}
    assert states <= set(table.values()) | firsts


def test_what_has_ended_stays_so() -> None:
    for state in (RequestState.CLOSED, RequestState.ABORTED):
        assert not [key for key in REQUEST if key[0] is state]
    assert all(after is LeaseState.ENDED for (state, _), after in LEASE.items() if state is LeaseState.ENDED)


def test_time_never_goes_back() -> None:
    play = ScriptedEngine()
    play.wait(5.0)
    play.handle(TimePassed())
    play.now = 4.0
    with pytest.raises(InvariantError, match="time went back"):
        play.handle(TimePassed())


def test_a_fresh_engine_waits_for_nothing() -> None:
    play = ScriptedEngine()
    assert play.engine.next_deadline() is None
    play.handle(TimePassed())
    assert play.engine.next_deadline() == 300 / 288
    assert play.engine.next_deadline(until=1.0) is None
    assert play.engine.next_deadline(until=300 / 288) == 300 / 288


def test_nobody_is_asked_for_the_truth_about_what_is_not_due_yet() -> None:
    asked: list[object] = []
    deadlines = Deadlines(lambda kind, key: asked.append(key))
    deadlines.set(Kind.LEASE, 1, 5.0)
    assert deadlines.soonest == 5.0
    assert deadlines.take(4.0, inclusive=True) is None
    assert asked == []


def _double(play: ScriptedEngine) -> None:
    play.device("two").lease = play.device("one").lease


def _over(play: ScriptedEngine) -> None:
    next(iter(play.engine.requests.values())).counted += 9


def _place(play: ScriptedEngine) -> None:
    next(iter(play.engine.requests.values())).placed -= 1


def _sum(play: ScriptedEngine) -> None:
    play.engine.world.ends[LeaseEnd.LOST] += 1


def _idle(play: ScriptedEngine) -> None:
    play.device("three").state = DeviceState.BUSY


def _forgotten(play: ScriptedEngine) -> None:
    play.engine.world.idle.clear()


def _withheld(play: ScriptedEngine) -> None:
    request = next(iter(play.engine.requests.values()))
    request.places += 1


def _late(play: ScriptedEngine) -> None:
    play.engine.world.now = 1e6


@pytest.mark.parametrize("break_it", [_double, _over, _place, _sum, _idle, _forgotten, _withheld, _late])
def test_validate_finds_what_does_not_hold(break_it: Callable[[ScriptedEngine], None]) -> None:
    play = ScriptedEngine()
    play.request(demand=2)
    play.run("one")
    play.run("two")
    play.check_in("three")
    play.engine.validate()
    break_it(play)
    with pytest.raises(InvariantError):
        play.engine.validate()


def test_an_invariant_error_tells_what_came_before() -> None:
    play = ScriptedEngine()
    play.request(demand=2)
    play.run("one")
    play.engine.devices[DeviceId("one")].state = DeviceState.IDLE
    with pytest.raises(InvariantError, match=r"one in idle: .*Before: .*RUNNING lease 1"):
        play.engine.validate()
