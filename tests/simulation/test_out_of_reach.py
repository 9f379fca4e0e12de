"""Devices that the timeline disconnects, partitions or suspends, on worlds small enough to work by hand."""

from dataclasses import replace
from typing import Any

from coordinator.engine.effects import EndLease, EndSession, MissLease, OfferLease, ResumeLease
from coordinator.engine.events import DeviceCheckedIn
from coordinator.engine.model import HeldPhase, Repeat
from coordinator.policies.fifo import Fifo
from testbed.simulate.build import simulated_settings
from testbed.simulate.compiled.bulk import why_not
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Cut, Outcome, SimulatedJob, Simulation
from testbed.testing.worlds import Session, job, world
from testbed.world.limits import Limits
from testbed.world.links import link_schedule
from tests.simulation.test_breaks import Told, killed

CUT, SILENT, STILL = Cut.DISCONNECT, Cut.PARTITION, Cut.SUSPEND


def cut(jobs: list[SimulatedJob], sessions: list[Session], how: Cut, at: float = 3.0, **settings: Any) -> Simulation:
    """Device 0 gets out of reach."""
    made = world(jobs, sessions, **settings)
    return replace(made, settings=simulated_settings(1, "test", silent=True), cuts={(0, at): how})


def played(made: Simulation) -> tuple[Outcome, Told]:
    told = Told()
    outcome = simulate_events(made, Fifo(), journal=told.hear, validate=True)
    return outcome, told


def times(told: Told, kind: type) -> list[float]:
    return [now for _, now, _ in told.effects(kind)]


def ended(told: Told) -> list[tuple[float, int, str]]:
    """Sessions: (now, session, reason)"""
    return [(now, one.session, one.reason.value) for _, now, one in told.effects(EndSession)]


def lease_ends(told: Told) -> list[tuple[float, int, str]]:
    return [(now, one.lease, one.reason.value) for _, now, one in told.effects(EndLease)]


def test_a_device_that_is_disconnected_comes_back_with_its_lease() -> None:
    """Its task of 10 s is done at 10, and it has been there again since 5."""
    outcome, told = played(cut([job("a", 1, compute=10.0)], [Session(0, 3, 0), Session(5, 99, 0)], CUT))
    assert ended(told) == [(3.0, 1, "connection_ended")]
    assert (times(told, MissLease), times(told, ResumeLease)) == ([3.0], [5.0])
    second = [event for _, now, event in told.events(DeviceCheckedIn) if now == 5.0]
    assert [(one.lease, one.phase) for one in second[0].held] == [(1, HeldPhase.WORKING)]
    assert outcome.ended_s.tolist() == [10.0]
    assert lease_ends(told) == [(10.0, 1, "counted")]


def test_what_is_done_meanwhile_is_delivered_when_it_is_back() -> None:
    outcome, told = played(cut([job("a", 1, compute=10.0)], [Session(0, 3, 0), Session(25, 99, 0)], CUT))
    assert times(told, ResumeLease) == [25.0]
    assert outcome.ended_s.tolist() == [25.0]


def test_its_place_may_be_taken_meanwhile() -> None:
    sessions = [Session(0, 3, 0), Session(4, 99, 1), Session(5, 99, 0)]
    outcome, told = played(cut([job("a", 1, compute=10.0)], sessions, CUT))
    assert lease_ends(told) == [(5.0, 1, "replaced"), (14.0, 2, "counted")]
    assert outcome.ended_s.tolist() == [14.0]


def test_silence_is_noticed_after_the_liveness_interval() -> None:
    """A partition from 23 to 40: until 33 nobody knows, and the place is held; then the other device has it."""
    sessions = [Session(20, 23, 0), Session(21, 99, 1), Session(40, 99, 0)]
    outcome, told = played(cut([job("a", 1, compute=15.0)], sessions, SILENT, at=23.0))
    assert ended(told) == [(33.0, 1, "silent")]
    assert [(now, one.device) for _, now, one in told.effects(OfferLease)] == [(20.0, "0"), (33.0, "1")]
    assert lease_ends(told) == [(40.0, 1, "replaced"), (48.0, 2, "counted")]
    assert outcome.ended_s.tolist() == [48.0]


def test_nothing_is_silent_to_a_young_coordinator() -> None:
    _, told = played(cut([job("a", 1, compute=30.0)], [Session(0, 3, 0), Session(40, 99, 0)], SILENT))
    assert ended(told)[0] == (20.0, 1, "silent")


def test_a_partition_that_nobody_has_noticed() -> None:
    """Back at 9 it dials anew: the newer stream wins, and its task goes on."""
    outcome, told = played(cut([job("a", 1, compute=10.0)], [Session(0, 3, 0), Session(9, 99, 0)], SILENT))
    assert ended(told) == [(9.0, 1, "superseded")]
    assert outcome.ended_s.tolist() == [10.0]
    assert lease_ends(told) == [(10.0, 1, "counted")]


def test_who_is_suspended_stands_still_and_goes_on() -> None:
    """3 s of 10 are done; from 3 to 7 nothing is, and nobody notices."""
    outcome, told = played(cut([job("a", 1, compute=10.0)], [Session(0, 3, 0), Session(7, 99, 0)], STILL))
    assert ended(told) == []
    assert len(told.events(DeviceCheckedIn)) == outcome.check_ins == 1
    assert outcome.ended_s.tolist() == [14.0]


def test_who_is_suspended_for_long_is_silent_and_comes_back_with_its_lease() -> None:
    outcome, told = played(cut([job("a", 1, compute=10.0)], [Session(0, 3, 0), Session(23, 99, 0)], STILL))
    assert ended(told) == [(20.0, 1, "silent")]
    assert times(told, ResumeLease) == [23.0]
    assert outcome.ended_s.tolist() == [30.0]


def test_a_silent_device_takes_no_offer() -> None:
    """A job arrives at 4 and its lease goes to the device that nobody hears; 10 s later another may have the place."""
    sessions = [Session(0, 3, 0), Session(6, 99, 1), Session(60, 99, 0)]
    outcome, told = played(cut([job("a", 1, arrives=4.0, compute=1.0)], sessions, SILENT))
    assert lease_ends(told) == [(14.0, 1, "unaccepted"), (15.0, 2, "counted")]
    assert outcome.ended_s.tolist() == [15.0]


def test_who_was_suspended_hears_what_was_said_meanwhile() -> None:
    """An offer of 4 is taken at 7, when the device goes on."""
    sessions = [Session(0, 3, 0), Session(7, 99, 0)]
    outcome, told = played(cut([job("a", 1, arrives=4.0, compute=1.0)], sessions, STILL))
    assert times(told, OfferLease) == [4.0]
    assert outcome.ended_s.tolist() == [8.0]


def test_who_is_told_to_stop_while_it_is_away_hears_of_it_when_it_is_back() -> None:
    """The round is over at 5; from 9 on the device is free for the next one."""
    jobs = [job("a", 1, compute=30.0, deadline=5.0)]
    _, told = played(cut(jobs, [Session(0, 3, 0), Session(9, 12, 0)], CUT))
    assert lease_ends(told)[0] == (5.0, 1, "revoked")
    assert times(told, OfferLease) == [0.0, 9.0, 10.0]


def test_who_never_comes_back_is_not_waited_for() -> None:
    outcome, told = played(cut([job("a", 1, compute=10.0)], [Session(0, 3, 0)], SILENT))
    assert ended(told) == [(20.0, 1, "silent")]
    assert outcome.now_s == 20.0


def test_a_coordinator_that_came_back_meanwhile_knows_what_it_holds() -> None:
    sessions = [Session(0, 3, 0), Session(8, 99, 0)]
    outcome, told = played(cut([job("a", 1, compute=10.0)], sessions, CUT, breaks=(killed(5.0),)))
    second = [event for life, _, event in told.events(DeviceCheckedIn) if life == 2]
    assert [(one.lease, one.phase) for one in second[0].held] == [(1, HeldPhase.WORKING)]
    assert outcome.ended_s.tolist() == [10.0]


def test_a_response_waits_for_a_driver_and_a_device() -> None:
    """The task is done at 4, with the driver away until 6; by then the device is cut off, until 8."""
    sessions = [Session(0, 5, 0), Session(8, 99, 0)]
    made = cut([job("a", 1, compute=4.0)], sessions, CUT, at=5.0)
    outcome, _ = played(replace(made, breaks=(killed(3.0, 6.0, made.jobs[0].spec.job),)))
    assert outcome.ended_s.tolist() == [8.0]


def test_such_a_simulation_is_not_in_bulk() -> None:
    assert why_not(cut([job("a", 1)], [Session(0, 3, 0)], CUT)) == "the timeline cuts devices off"


def test_a_receipt_waits_for_a_device_that_stands_still() -> None:
    """It would be there, and said so, at 10; so the next lease is at 12."""
    slow = link_schedule(Limits(up_bits=None, delay_s=2.0, jitter_s=0.0, loss=0.0), ())
    there = [Session(0, 9.5, 0), Session(12, 99, 0)]
    again = job("a", 1, rounds=2, compute=1.0, repeat=Repeat.ALLOW)
    _, told = played(cut([again], there, STILL, 9.5, links=(slow,)))
    assert times(told, OfferLease) == [0.0, 12.0]
