"""Devices that accept leases and never deliver: they cool, and honest slow ones are not starved."""

from fractions import Fraction

import pytest

from coordinator.engine.effects import OfferLease
from coordinator.engine.events import DriverFollowed, DriverLost
from coordinator.engine.ids import DeviceId
from coordinator.engine.model import AttemptStatus, HeldLease, HeldPhase, LeaseEnd, Outcome, StragglerRule
from testbed.testing.engine import ScriptedEngine


def cools(play: ScriptedEngine, name: str = "one", job: str = "me/a/1") -> float:
    """For how long, in seconds; 0: it does not."""
    cooling = play.device(name).cooling.get(job)  # type: ignore[call-overload]
    return max(0.0, cooling.until - play.now) if cooling is not None else 0.0


def test_two_devices_that_accept_and_never_work_do_not_keep_the_places() -> None:
    """They were there first, and each attempt ended at its deadline without a round."""
    play = ScriptedEngine()
    request = play.request(demand=2, deadline_s=3.0, lease_s=3.0)
    for sitter in ("sit-1", "sit-2"):
        play.run(sitter)
    for name in ("good-1", "good-2"):
        play.check_in(name)
    for attempt in (2, 3):
        play.beat(3)
        assert request.status is AttemptStatus.ABORTED
        request = play.open(request.job, 1, attempt)
        for lease in list(request.live()):
            play.accept(lease.device.id)
    assert [lease.device.id for lease in request.live()] == ["good-1", "good-2"]
    play.record(request, *[lease.seq for lease in request.live()])
    assert request.status is AttemptStatus.CLOSED


@pytest.mark.parametrize("how", ["expires", "leaves", "hides", "ignores"])
def test_however_a_device_holds_a_place_in_vain_the_time_is_summed_up(how: str) -> None:
    """It lets leases expire, leaves shortly before, goes on in a new session that has forgotten the lease, or does not
    even accept.
    """
    play = ScriptedEngine()
    play.request(demand=1, deadline_s=1e6, lease_s=20.0)
    play.check_in("one")
    held = 0.0
    while not cools(play):
        began = play.now
        if how != "ignores":
            play.accept("one")
        play.wait({"expires": 20.0, "leaves": 19.0, "hides": 7.0, "ignores": 10.0}[how])
        if how in ("leaves", "hides"):
            play.leave("one")
        held += play.now - began
        play.check_in("one") if how in ("leaves", "hides") else play.beat(1)
        assert held < 60.0
    assert held > 30.0  # one lease and a half
    assert not play.got(OfferLease)


def test_it_cools_twice_as_long_each_time_and_an_hour_at_most() -> None:
    play = ScriptedEngine()
    play.request(demand=1, deadline_s=1e7, lease_s=20.0)
    play.run("one")
    waits = []
    for _ in range(12):
        play.wait(20.0)
        waits.append(cools(play))
        play.wait(waits[-1])
        play.accept("one")
    assert waits == [0.0, *[30.0 * 2**n for n in range(7)], *[3600.0] * 4]


def test_an_honest_slow_device_is_not_starved() -> None:
    """It misses two leases, cools, delivers the third time, and nothing is held against it."""
    play = ScriptedEngine()
    request = play.request(demand=2, deadline_s=1e6, lease_s=20.0)
    play.run("one")
    play.wait(20.0)
    play.accept("one")
    play.wait(20.0)
    assert cools(play) == 30.0
    assert any("COOLING" in line for line in play.engine.explain_device(DeviceId("one")))
    play.wait(30.0)
    lease = play.lease("one")
    play.accept("one")
    play.record(request, lease)
    assert not play.device("one").cooling


def test_a_straggler_has_delivered_too() -> None:
    play = ScriptedEngine()
    play.request(demand=1, deadline_s=1e6, lease_s=20.0)
    play.run("one")
    play.wait(20.0)
    lease = play.lease("one")
    request = play.engine.leases[lease].request
    play.accept("one")
    play.record(request, lease, outcome=Outcome.STRAGGLER)
    assert not play.device("one").cooling


def test_a_pair_that_held_no_place_for_an_hour_begins_anew() -> None:
    for idle, cooled in ((3600, True), (3601, False)):
        play = ScriptedEngine()
        request = play.request(demand=1, deadline_s=1e6, lease_s=20.0)
        play.run("one")
        play.wait(20.0)
        play.leave("one")
        play.wait(float(idle))
        play.run("one")
        play.wait(20.0)
        assert request.job.id in play.device("one").cooling
        assert bool(cools(play)) == cooled


def test_other_jobs_may_have_it() -> None:
    play = ScriptedEngine()
    play.request("a", demand=1, deadline_s=1e6, lease_s=20.0)
    play.request("b", demand=1, deadline_s=1e6, lease_s=20.0)
    play.run("one")
    play.wait(20.0)
    play.accept("one")
    play.wait(20.0)
    assert cools(play) == 30.0
    assert play.lease("one")
    assert play.engine.leases[play.lease("one")].request.job.id == "me/b/1"


def test_a_device_cannot_deliver_while_the_driver_is_away() -> None:
    for away, held in ((25.0, 20.0), (50.0, 0.0)):  # it comes back in time, or not
        play = ScriptedEngine()
        job = play.request(demand=1, deadline_s=1e6, lease_s=20.0).job
        play.run("one")
        play.handle(DriverLost(job.id, 1))
        play.wait(away)
        play.handle(DriverFollowed(job.id, 1))
        play.wait(20.0)
        assert play.engine.world.ends[LeaseEnd.EXPIRED] + play.engine.world.ends[LeaseEnd.REVOKED] == 1
        cooling = play.device("one").cooling.get(job.id)
        assert (cooling.vain_s if cooling is not None else 0.0) == held


def test_time_away_holds_no_place() -> None:
    """A lease that is resumed counts the time that it had its place."""
    play = ScriptedEngine()
    play.request(demand=1, deadline_s=1e6, lease_s=100.0)
    lease = play.run("one")
    for _ in range(3):
        play.wait(10.0)
        play.leave("one")
        play.wait(20.0)
        play.check_in("one", held=(HeldLease(lease, HeldPhase.WORKING),))
    play.wait(10.0)
    play.leave("one")
    assert play.device("one").cooling["me/a/1"].vain_s == 40.0  # type: ignore[index]


def test_a_device_with_a_receipt_holds_its_place_for_the_driver() -> None:
    play = ScriptedEngine()
    play.request(demand=1, deadline_s=1e6, lease_s=20.0)
    play.run("one")
    play.finish("one")
    play.wait(20.0)
    assert play.engine.world.ends[LeaseEnd.EXPIRED] == 1
    assert not play.device("one").cooling


def test_whoever_is_stopped_by_a_close_has_held_its_place_as_well() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2, min_response=Fraction(1, 2), lease_s=20.0, stragglers=StragglerRule.REVOKE)
    sitter, lease = play.run("sitter"), play.run("good")
    play.wait(15.0)
    play.record(request, lease)
    assert sitter not in play.engine.leases
    assert play.device("sitter").cooling["me/a/1"].vain_s == 15.0  # type: ignore[index]
