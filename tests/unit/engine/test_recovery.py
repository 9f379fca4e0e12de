"""A coordinator that comes back: leases keep their places, devices resume them, and nothing ends at once."""

from coordinator.engine.effects import (
    CloseSession,
    EndAttempt,
    EndLease,
    EndSession,
    MissLease,
    OfferLease,
    PauseJob,
    ResumeJob,
    ResumeLease,
    RevokeLease,
)
from coordinator.engine.events import CoordinatorRestarted, DevicesDrained, DriverFollowed
from coordinator.engine.ids import LeaseSeq
from coordinator.engine.lifecycle import LeaseState
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    HeldLease,
    HeldPhase,
    LeaseEnd,
    Outcome,
    SessionEnd,
)
from testbed.testing.engine import ScriptedEngine

GRACE_S = 20.0


def holds(lease: LeaseSeq, phase: HeldPhase = HeldPhase.WORKING) -> tuple[HeldLease, ...]:
    return (HeldLease(lease, phase, Outcome.COUNTED if phase is HeldPhase.DONE else None),)


def restart(play: ScriptedEngine, after_s: float = 1.0, *, stopped: bool = False) -> None:
    """Nobody hears of the time in between."""
    play.now += after_s
    play.handle(CoordinatorRestarted(stopped))


def test_sessions_without_a_lease_end_and_those_with_one_keep_its_place() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    running = play.run("works")
    play.check_in("idle")
    restart(play)
    assert [(one.device, one.reason) for one in play.got(EndSession)] == [("idle", SessionEnd.COORDINATOR_RESTARTED)]
    assert not play.got(EndLease) + play.got(MissLease)
    assert (request.placed, play.device("works").lease) == (1, play.engine.leases[running])


def test_a_device_that_comes_back_in_time_goes_on_with_its_lease_and_nobody_else_gets_its_place() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("works")
    restart(play)
    play.handle(DriverFollowed(request.job.id, 1))
    play.check_in("other")
    assert not play.got(OfferLease)
    play.check_in("works", held=holds(lease))
    assert play.one(ResumeLease).lease == lease
    assert play.engine.leases[lease].state is LeaseState.RUNNING
    play.record(request, lease)
    assert request.status is AttemptStatus.CLOSED


def test_an_offer_whose_acceptance_was_lost_is_taken_as_accepted_by_a_device_that_names_it() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.offer("phone")
    restart(play)
    play.check_in("phone", held=holds(lease, HeldPhase.FETCHING))
    assert play.engine.leases[lease].state is LeaseState.RUNNING
    assert not play.got(RevokeLease)


def test_an_offer_that_never_arrived_ends_and_its_device_is_free() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.offer("phone")
    restart(play)
    play.handle(DriverFollowed(request.job.id, 1))
    play.check_in("phone")
    assert (play.one(EndLease).lease, play.one(EndLease).reason) == (lease, LeaseEnd.LOST)
    assert play.one(OfferLease).lease == lease + 1


def test_a_device_that_was_started_anew_meanwhile_takes_over_from_the_one_that_was() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.run("phone", instance="i")
    restart(play)
    play.check_in("phone", instance="j")
    assert (play.one(EndLease).lease, play.one(EndLease).reason) == (lease, LeaseEnd.LOST)
    assert play.device("phone").instance == "j"


def test_a_device_that_was_done_meanwhile_delivers() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("phone")
    restart(play)
    play.check_in("phone", held=holds(lease, HeldPhase.DONE))
    assert play.engine.leases[lease].state is LeaseState.DELIVERED
    play.record(request, lease)
    assert request.status is AttemptStatus.CLOSED


def test_after_the_recovery_grace_a_device_that_has_not_come_back_is_lost() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2, deadline_s=90.0)
    running = play.run("works")
    offered = play.offer("offered")
    restart(play)
    play.wait(GRACE_S - 0.1)
    assert not play.got(EndSession) + play.got(EndLease)
    play.wait(0.2)
    assert {one.reason for one in play.got(EndSession)} == {SessionEnd.COORDINATOR_RESTARTED}
    assert [one.lease for one in play.got(MissLease)] == [running]
    assert [one.lease for one in play.got(EndLease)] == [offered]
    assert request.placed == 0
    play.check_in("works", held=holds(running))
    assert play.one(ResumeLease).lease == running


def test_what_fell_into_the_time_without_a_coordinator_ends_after_the_grace() -> None:
    """Deadline and expiry both passed: a driver may still say what it decided meanwhile."""
    play = ScriptedEngine()
    request = play.request(demand=1, deadline_s=10.0, lease_s=8.0)
    lease = play.run("phone")
    restart(play, after_s=60.0)
    assert not play.got(EndLease) + play.got(EndAttempt)
    play.record(request, lease)
    assert (request.status, request.responses) == (AttemptStatus.CLOSED, 1)
    late = play.open(request.job, 2)
    play.wait(11.0)
    assert late.reason is AttemptEndReason.DEADLINE


def test_without_news_an_attempt_ends_at_its_deadline_after_the_grace() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, deadline_s=10.0)
    restart(play, after_s=60.0)
    play.wait(GRACE_S - 1.0)
    assert request.open
    play.wait(2.0)
    assert request.reason is AttemptEndReason.DEADLINE


def test_drivers_are_away_until_they_follow_again_and_have_the_whole_grace() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1, deadline_s=300.0)
    restart(play, after_s=100.0)
    assert (play.one(PauseJob).reason, request.job.followed) == ("DRIVER_AWAY", False)
    play.check_in("phone")
    assert not play.got(OfferLease)
    play.wait(29.0)
    assert request.open
    play.check_in("phone")
    play.handle(DriverFollowed(request.job.id, 1))
    assert play.one(ResumeJob).job == request.job.id
    assert play.one(OfferLease).device == "phone"


def test_a_second_restart_within_the_grace_begins_a_new_one() -> None:
    play = ScriptedEngine()
    play.request(demand=1, deadline_s=300.0)
    lease = play.run("phone")
    restart(play)
    play.wait(15.0)
    restart(play)
    play.wait(15.0)
    assert lease in play.engine.leases
    assert len(play.engine.sessions) == 1
    play.wait(6.0)
    assert not play.engine.sessions


def test_a_coordinator_that_drained_to_stop_takes_devices_again_and_one_that_was_killed_stays_drained() -> None:
    play = ScriptedEngine()
    play.handle(DevicesDrained(None))
    restart(play)
    play.check_in("phone")
    assert play.one(CloseSession).reason is SessionEnd.DRAINED
    restart(play, stopped=True)
    play.check_in("phone")
    assert play.device("phone").session is not None
