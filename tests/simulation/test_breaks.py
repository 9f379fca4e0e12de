"""Programs that are killed or stand still, on worlds small enough to work by hand."""

import math
from typing import Any

import pytest

from coordinator.engine.effects import Effect, EndAttempt, OfferLease, ResumeLease, RevokeLease
from coordinator.engine.events import (
    AttemptOpened,
    CoordinatorRestarted,
    DeviceCheckedIn,
    DriverLost,
    Event,
    JobSubmitted,
    ResponsesRecorded,
)
from coordinator.engine.ids import JobId, LeaseSeq
from coordinator.engine.model import Asynchronous, AttemptEndReason, HeldLease, HeldPhase, LeaseEnd
from coordinator.engine.model import Outcome as Decided
from coordinator.policies.fifo import Fifo
from testbed.simulate.compiled.bulk import why_not
from testbed.simulate.events.drivers import Change, Programs, State
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Break, Outcome, Simulation
from testbed.testing.worlds import Session, job, world
from testbed.world.arrays import Matching

A = JobId("a")
ALWAYS = [Session(0, 99, 0), Session(0, 99, 1)]


class Told:
    """A journal, and how often the coordinator was started so far."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, float, Event, list[Effect]]] = []  # (life, now, event, effects)
        self.lives = [0.0]

    def hear(self, now: float, event: Event, effects: list[Effect]) -> None:
        if isinstance(event, CoordinatorRestarted):
            self.lives.append(now)
        self.lines.append((len(self.lives), now, event, list(effects)))

    def events(self, kind: type) -> list[tuple[int, float, Any]]:
        return [(life, now, event) for life, now, event, _ in self.lines if isinstance(event, kind)]

    def effects(self, kind: type) -> list[tuple[int, float, Any]]:
        return [(life, now, one) for life, now, _, effects in self.lines for one in effects if isinstance(one, kind)]

    def opened(self) -> list[tuple[int, float, int, int]]:
        """(life, now, round, attempt)"""
        return [(life, now, e.round, e.attempt) for life, now, e in self.events(AttemptOpened)]


def played(made: Simulation) -> tuple[Outcome, Told]:
    told = Told()
    outcome = simulate_events(made, Fifo(), journal=told.hear, validate=True)
    return outcome, told


def killed(at: float, until: float | None = None, job: JobId | None = None) -> Break:
    return Break(at, at if until is None else until, job)


def still(at: float, until: float, job: JobId | None = None) -> Break:
    return Break(at, until, job, stands_still=True)


# -- the coordinator


def test_a_coordinator_that_is_back_at_once() -> None:
    """Two rounds of 4 s. At 6 it dies in the middle of round 2, which goes on."""
    made = world([job("a", 2, rounds=2, compute=4.0)], ALWAYS, breaks=(killed(6.0),))
    outcome, told = played(made)
    assert told.lives == [0.0, 6.0]
    assert told.opened() == [(1, 0.0, 1, 1), (1, 4.0, 2, 1), (2, 6.0, 2, 1)]
    assert outcome.ended_s.tolist() == [8.0]
    assert outcome.attempts.closed.tolist() == [True, True]
    assert outcome.attempts.ended_s.tolist() == [4.0, 8.0]
    assert outcome.leases == {**dict.fromkeys(LeaseEnd, 0), LeaseEnd.COUNTED: 4}
    assert outcome.device_s.tolist() == [16.0]
    assert outcome.wasted_device_s.tolist() == [0.0]


def test_devices_check_in_again_with_what_they_hold_and_go_on() -> None:
    made = world([job("a", 2, compute=4.0)], ALWAYS, breaks=(killed(2.0, 3.0),))
    outcome, told = played(made)
    again = [(now, one.device, one.interval, one.held) for life, now, one in told.events(DeviceCheckedIn) if life == 2]
    holds = [(HeldLease(LeaseSeq(seq), HeldPhase.WORKING),) for seq in (1, 2)]
    assert again == [(3.0, "0", 0, holds[0]), (3.0, "1", 0, holds[1])]
    assert [(now, one.lease) for _, now, one in told.effects(ResumeLease)] == [(3.0, 1), (3.0, 2)]
    assert told.effects(RevokeLease) == []
    assert outcome.ended_s.tolist() == [4.0]


def test_a_response_that_comes_while_it_is_away_is_decided_and_heard_when_it_is_back() -> None:
    """Done at 4, with nobody there from 3 to 5: it counts for its driver, and its device has its receipt."""
    made = world([job("a", 1, compute=4.0)], [Session(0, 99, 0)], breaks=(killed(3.0, 5.0),))
    outcome, told = played(made)
    assert outcome.unheard == ()
    assert told.opened() == [(1, 0.0, 1, 1), (2, 5.0, 1, 1)]
    (again,) = [one for life, _, one in told.events(DeviceCheckedIn) if life == 2]
    assert again.held == (HeldLease(LeaseSeq(1), HeldPhase.DONE, Decided.COUNTED),)
    assert (outcome.ended_s.tolist(), outcome.wasted_device_s.tolist()) == ([5.0], [0.0])


def test_what_a_driver_decided_is_told_after_its_devices_have_left() -> None:
    made = world([job("a", 1, compute=4.0)], [Session(0, 5, 0)], breaks=(killed(3.0, 60.0),))
    outcome, _ = played(made)
    assert outcome.ended_s.tolist() == [60.0]
    assert not outcome.killed


def test_a_coordinator_that_never_comes_back_has_not_heard_what_was_decided() -> None:
    made = world([job("a", 1, compute=4.0)], [Session(0, 5, 0)], breaks=(killed(3.0, math.inf),))
    outcome, _ = played(made)
    assert [(one.lease, one.attempt, one.outcome.value) for one in outcome.unheard] == [(1, 1, "counted")]
    assert (outcome.killed, outcome.now_s) == (True, 5.0)


def test_who_left_while_it_was_away_is_lost_after_the_recovery_grace() -> None:
    """Its place goes to the device that waits, 20 s after the coordinator is back."""
    sessions = [Session(0, 4, 0), Session(2, 99, 1)]
    outcome, told = played(world([job("a", 1, compute=9.0)], sessions, breaks=(killed(3.0, 6.0),)))
    assert [(now, one.device) for _, now, one in told.effects(OfferLease)] == [(0.0, "0"), (26.0, "1")]
    assert outcome.ended_s.tolist() == [35.0]


def test_who_leaves_while_it_is_away_is_gone_and_who_comes_checks_in_later() -> None:
    sessions = [Session(0, 4, 0), Session(4, 99, 1), Session(4, 5, 2)]
    _, told = played(world([job("a", 1, compute=9.0)], sessions, breaks=(killed(3.0, 6.0),)))
    again = [(now, event.device) for life, now, event in told.events(DeviceCheckedIn) if life == 2]
    assert again == [(6.0, "1")]


def test_a_job_that_arrives_while_it_is_away_comes_when_it_is_back() -> None:
    made = world([job("a", 1, arrives=4.0, compute=1.0)], ALWAYS, breaks=(killed(3.0, 6.0),))
    outcome, told = played(made)
    assert told.opened() == [(2, 6.0, 1, 1)]
    assert outcome.ended_s.tolist() == [7.0]


def test_matched_at_check_in_they_check_in_again_and_leave() -> None:
    made = world(
        [job("a", 1, rounds=2, compute=4.0)], ALWAYS, matching=Matching.AT_CHECK_IN, breaks=(killed(3.0, 5.0),)
    )
    outcome, told = played(made)
    assert [(life, now, one.device) for life, now, one in told.effects(OfferLease)] == [(1, 0.0, "0")]
    assert outcome.attempts.ended_s.tolist() == [5.0]


def test_nobody_waits_for_a_coordinator_that_does_not_come_back() -> None:
    outcome, _ = played(world([job("a", 2, compute=4.0)], [Session(0, 5, 0)], breaks=(killed(3.0, math.inf),)))
    assert outcome.now_s == 5.0
    assert outcome.killed
    assert outcome.live == 1


def test_a_coordinator_that_stands_still_hears_it_all_when_it_goes_on() -> None:
    """Both tasks are done at 4, within the deadline of 7; it stands still from 3 to 9, and the deadline goes first."""
    made = world([job("a", 2, compute=4.0, deadline=7.0)], ALWAYS, breaks=(still(3.0, 9.0),))
    outcome, told = played(made)
    assert [(now, one.reason) for _, now, one in told.effects(EndAttempt)] == [
        (9.0, AttemptEndReason.DEADLINE),
        (13.0, AttemptEndReason.ENOUGH),
    ]
    assert outcome.leases[LeaseEnd.COUNTED] == 4
    assert outcome.wasted_device_s.tolist() == [18.0]  # 9 s of each lease, by its books
    assert outcome.check_ins == 2


def test_an_asynchronous_job_decides_nothing_between_two_rounds() -> None:
    """A buffer of one is full at 4; the other response, which comes at 5, waits until it has the next model at 9."""
    jobs = [job("a", 2, rounds=2, compute=4.0, asynchronous=Asynchronous(1))]
    sessions = [Session(0, 99, 0), Session(0, 99, 1, slow=1.25)]
    outcome, told = played(world(jobs, sessions, breaks=(still(3.0, 9.0),)))
    recorded = [(now, e.round) for _, now, e in told.events(ResponsesRecorded)]
    assert recorded == [(9.0, 1), (9.0, 2)]
    assert outcome.ended_s.tolist() == [9.0]


# -- drivers


def test_a_driver_takes_its_attempt_up_again() -> None:
    """One response comes at 4, another at 6, while the driver is away until 8: the round closes then, as it is."""
    sessions = [Session(0, 99, 0), Session(0, 99, 1, slow=1.5)]
    made = world([job("a", 2, compute=4.0)], sessions, breaks=(killed(5.0, 8.0, A),))
    outcome, told = played(made)
    assert [now for _, now, _ in told.events(DriverLost)] == [5.0]
    assert [(now, e.incarnation) for _, now, e in told.events(JobSubmitted)] == [(0.0, 1), (8.0, 2)]
    assert told.opened() == [(1, 0.0, 1, 1), (1, 8.0, 1, 1)]
    assert outcome.ended_s.tolist() == [8.0]
    assert outcome.attempts.opened_s.tolist() == [0.0]
    assert outcome.wasted_device_s.tolist() == [0.0]


def test_a_driver_that_stays_away_loses_its_attempt() -> None:
    """The grace is 30 s: at 33 the attempt aborts; the next one opens at 40, when the driver is back."""
    made = world([job("a", 2, compute=50.0)], ALWAYS, breaks=(killed(3.0, 40.0, A),))
    outcome, told = played(made)
    assert [(now, one.reason) for _, now, one in told.effects(EndAttempt)] == [
        (33.0, AttemptEndReason.DRIVER_AWAY),
        (90.0, AttemptEndReason.ENOUGH),
    ]
    assert told.opened() == [(1, 0.0, 1, 1), (1, 40.0, 1, 1), (1, 40.0, 1, 2)]
    assert outcome.ended_s.tolist() == [90.0]


def test_a_response_does_not_wait_in_a_device_that_leaves() -> None:
    sessions = [Session(0, 6, 0), Session(7, 99, 1)]
    outcome, _ = played(world([job("a", 1, compute=4.0)], sessions, breaks=(killed(3.0, 8.0, A),)))
    assert outcome.ended_s.tolist() == [12.0]


def test_a_driver_that_was_away_when_its_job_was_to_arrive() -> None:
    outcome, told = played(world([job("a", 1, arrives=4.0, compute=1.0)], ALWAYS, breaks=(killed(3.0, 6.0, A),)))
    assert told.opened() == [(1, 6.0, 1, 1)]
    assert outcome.ended_s.tolist() == [7.0]


def test_a_driver_that_stands_still_hears_it_all_in_order() -> None:
    """The response of 4 s and the deadline at 7 reach it at 9: the response first, and it counts in vain."""
    sessions = [Session(0, 99, 0), Session(0, 99, 1, slow=3.0)]
    made = world([job("a", 2, compute=4.0, deadline=7.0)], sessions, breaks=(still(3.0, 9.0, A),), until_s=9.0)
    _, told = played(made)
    assert told.events(DriverLost) == []
    assert told.opened() == [(1, 0.0, 1, 1), (1, 9.0, 1, 2)]


def test_a_driver_and_its_coordinator_are_both_away() -> None:
    """The driver comes back last, and gets the responses that waited for it in their devices."""
    made = world([job("a", 2, compute=4.0)], ALWAYS, breaks=(killed(2.0, 7.0, A), killed(3.0, 6.0)))
    outcome, told = played(made)
    assert told.opened() == [(1, 0.0, 1, 1), (2, 7.0, 1, 1)]
    assert outcome.ended_s.tolist() == [7.0]


# -- what takes turns


def changes(*breaks: Break) -> list[tuple[float, State]]:
    programs, found = Programs(breaks), []
    while (at := programs.next_at()) < float("inf"):
        found += [(at, change.now) for change in programs.take()]
    return found


def test_the_later_of_two_crashes_says_when_it_is_back() -> None:
    assert changes(killed(1.0, 9.0), killed(3.0, 4.0)) == [(1.0, State.AWAY), (4.0, State.THERE)]
    assert changes(killed(1.0, 4.0), killed(3.0)) == [(1.0, State.AWAY), (3.0, State.THERE)]


def test_who_is_killed_stands_still_no_longer() -> None:
    assert changes(still(1.0, 9.0), killed(3.0, 4.0)) == [(1.0, State.STILL), (3.0, State.AWAY), (4.0, State.THERE)]
    assert changes(killed(1.0, 9.0), still(3.0, 12.0)) == [(1.0, State.AWAY), (9.0, State.THERE)]


def test_programs_are_apart() -> None:
    programs = Programs((killed(1.0, 2.0, A), killed(1.0)))
    assert list(programs.take()) == [Change(A, State.THERE, State.AWAY)]
    assert list(programs.take()) == [Change(None, State.THERE, State.AWAY)]


def test_such_a_simulation_is_not_in_bulk() -> None:
    made = world([job("a", 1)], ALWAYS, breaks=(killed(1.0),))
    assert why_not(made) == "the timeline breaks programs"


@pytest.mark.parametrize("at", [0.0, 4.0])
def test_a_crash_at_the_time_of_something_else_comes_after_it(at: float) -> None:
    made = world([job("a", 1, rounds=2, compute=4.0)], ALWAYS[:1], breaks=(killed(at),))
    outcome, told = played(made)
    assert [life for life, _, one in told.effects(EndAttempt)] == ([1, 2] if at else [2, 2])
    assert outcome.ended_s.tolist() == [8.0]
