"""Failures: cooling, pauses and what lifts them."""

from fractions import Fraction

import pytest

from coordinator.engine.effects import EndLease, OfferLease, PauseJob, ResumeJob
from coordinator.engine.events import DriverFollowed, DriverLost, JobSubmitted, LeaseDeclined
from coordinator.engine.ids import DeviceId
from coordinator.engine.model import AttemptStatus, FailureReason, LeaseEnd, Outcome, Phase
from testbed.testing.engine import ScriptedEngine, spec


def offered(play: ScriptedEngine, seconds: int) -> bool:
    return any(isinstance(effect, OfferLease) for effect in play.beat(seconds))


def test_a_failed_pair_cools_twice_as_long_each_time() -> None:
    play = ScriptedEngine()
    play.request(demand=1, deadline_s=1e6, lease_s=1e6)
    play.offer("one")
    for seconds in (30, 60, 120):
        play.accept("one")
        play.fail("one")
        assert play.one(EndLease).phase is Phase.ON_DEVICE
        assert play.one(EndLease).reason is LeaseEnd.FAILED
        assert not offered(play, seconds - 1)
        assert any("COOLING" in line for line in play.engine.explain_device(DeviceId("one"))[:1])
        assert offered(play, 2)


def test_cooling_lasts_an_hour_at_most_and_a_response_ends_it() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2, deadline_s=1e6, lease_s=1e6)
    play.offer("one")
    device = play.device("one")
    for _ in range(12):
        play.accept("one")
        play.fail("one")
        play.now = device.cooling[request.job.id].until
        play.check_in("one")
    assert device.cooling[request.job.id].until - play.now == 0.0
    assert play.engine.world.now - 3600.0 > 0
    waits = [line for line in play.engine.explain_device(DeviceId("one")) if "COOLING" in line]
    assert "3600 s" in waits[-1]
    play.accept("one")
    play.record(request, play.lease("one"))
    assert request.job.id not in device.cooling


def test_other_jobs_may_have_the_device_meanwhile() -> None:
    play = ScriptedEngine()
    play.request("a", demand=1)
    play.request("b", demand=1)
    play.run("one")
    play.fail("one", FailureReason.DRIVER_UNREACHABLE)
    assert play.one(OfferLease).job == "me/b/1"


def test_a_few_bad_devices_among_many_do_not_pause_the_job() -> None:
    play = ScriptedEngine(crashes_to_pause=2)
    request = play.request(demand=10)
    leases = {f"d{number}": play.run(f"d{number}") for number in range(10)}
    play.record(request, leases["d0"], leases["d1"])
    for number in range(2, 6):
        play.fail(f"d{number}", FailureReason.DATA_MISSING)
    assert not request.job.pauses  # 4 failed, 2 have served and 4 serve
    play.fail("d6", FailureReason.DATA_MISSING)
    assert play.one(PauseJob).message.startswith("data_missing on 5 devices in round 1")


@pytest.mark.parametrize("demand", [1, 5])
def test_five_bad_devices_among_many_end_no_job(demand: int) -> None:
    """They come first and fail at once, each in its own way; those that wait are yet to try."""
    play = ScriptedEngine()
    bad, good = [f"bad-{number}" for number in range(5)], [f"good-{number}" for number in range(6)]
    for name in bad + good:
        play.check_in(name)
    request = play.request(demand=demand, deadline_s=1e4)
    for name, reason in zip(bad, [FailureReason.TASK_CRASHED, FailureReason.DATA_MISSING] * 3, strict=False):
        play.accept(name)
        play.fail(name, reason)
    assert not request.job.pauses
    assert len(request.job.crashed) == 5
    for name in good[:demand]:
        play.accept(name)
        play.record(request, play.lease(name))
    assert request.status is AttemptStatus.CLOSED


@pytest.mark.parametrize("demand", [1, 5])
def test_code_that_is_broken_everywhere_is_paused_once_half_have_tried_it(demand: int) -> None:
    play = ScriptedEngine()
    names = [f"d{number:02}" for number in range(20)]
    for name in names:
        play.check_in(name)
    request = play.request(demand=demand, deadline_s=1e4)
    for number, name in enumerate(names, 1):
        play.accept(name)
        play.fail(name)
        assert bool(request.job.pauses) == (number == 10)
        if request.job.pauses:
            break
    assert play.one(PauseJob).message == "task_crashed on 10 devices in round 1; first d00: ValueError: no"


def test_who_has_served_the_round_is_no_reason_to_go_on_twice() -> None:
    """Three of nine can do it, and no round of eight closes: those who have done it wait now, and count once."""
    play = ScriptedEngine()
    names = [f"d{number}" for number in range(9)]
    for name in names:
        play.check_in(name)
    request = play.request(demand=8, deadline_s=1e4)
    for name in names[:3]:
        lease = play.lease(name)
        play.accept(name)
        play.record(request, lease)
        play.finish(name, lease)
    for name in names[3:]:
        assert not request.job.pauses
        play.accept(name)
        play.fail(name)
        if len(request.job.crashed) == 5:
            break
    assert play.got(PauseJob)


def test_a_device_does_not_cool_for_a_driver_that_is_away() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2)
    play.run("one")
    play.run("two")
    play.fail("one", FailureReason.DRIVER_UNREACHABLE)
    play.handle(DriverLost(request.job.id, 1))
    play.fail("two", FailureReason.DRIVER_UNREACHABLE)
    devices = play.engine.devices
    assert [request.job.id in devices[DeviceId(name)].cooling for name in ("one", "two")] == [True, False]
    play.handle(DriverFollowed(request.job.id, 1))
    assert play.one(OfferLease).device == "two"


def test_one_device_that_cannot_reach_the_driver_costs_a_round_one_lease() -> None:
    play = ScriptedEngine()
    request = play.request(demand=10, min_response=Fraction(9, 10))
    leases = [play.run(f"d{number}") for number in range(10)]
    play.fail("d0", FailureReason.DRIVER_UNREACHABLE)
    play.beat(20)
    play.record(request, *leases[1:])
    assert request.counted == 9
    assert len(request.leases) == 10
    assert not request.job.pauses


def test_crashes_on_several_devices_in_one_round_pause_the_job_and_show_the_first() -> None:
    play = ScriptedEngine(crashes_to_pause=3)
    request = play.request(demand=5)
    for name in ("one", "two", "three", "four"):
        play.run(name)
    play.fail("one")
    play.fail("two", FailureReason.DRIVER_UNREACHABLE)  # not the job's fault
    play.fail("three")
    assert not play.got(PauseJob)
    play.fail("four")
    pause = play.one(PauseJob)
    assert pause.reason == "JOB_CRASHES"
    assert "one: ValueError: no" in pause.message
    play.check_in("five")
    assert not play.got(OfferLease)
    assert play.engine.explain_job(request.job.id)[0].startswith("JOB_CRASHES")


def test_the_same_device_crashing_again_is_one_device() -> None:
    play = ScriptedEngine(crashes_to_pause=2, cooling_first_s=1.0)
    play.request(demand=1, deadline_s=1e4)
    play.run("one")
    play.fail("one")
    play.beat(2)
    play.accept("one")
    play.fail("one")
    assert not play.got(PauseJob)


@pytest.mark.parametrize("how", ["restart", "round"])
def test_a_restarted_driver_or_a_new_round_lifts_the_pause(how: str) -> None:
    play = ScriptedEngine(crashes_to_pause=1)
    request = play.request(demand=2, min_response=Fraction(1, 2))
    lease = play.run("one")
    play.run("two")
    play.fail("two")
    assert play.got(PauseJob)
    if how == "restart":
        play.handle(JobSubmitted(spec(min_response=Fraction(1, 2)), 2))
    else:
        play.record(request, lease)
        play.open(request.job, 2)
    assert play.one(ResumeJob)


def test_a_retry_of_the_same_round_stays_paused() -> None:
    play = ScriptedEngine(crashes_to_pause=1)
    request = play.request(demand=2, deadline_s=5.0)
    play.run("one")
    play.fail("one")
    play.wait(5.0)
    play.open(request.job, 1, 2)
    assert not play.got(ResumeJob)


def test_code_that_devices_may_not_run_pauses_the_job_as_well() -> None:
    play = ScriptedEngine(crashes_to_pause=2)
    play.request(demand=2)
    for name in ("one", "two"):
        lease = play.offer(name)
        play.handle(LeaseDeclined(play.session(name), lease, FailureReason.CODE_NOT_ALLOWED, 0.0, "not told to"))
    assert "code_not_allowed on 2 devices" in play.one(PauseJob).message


def test_responses_that_are_refused_on_every_device_pause_the_job() -> None:
    play = ScriptedEngine(crashes_to_pause=2)
    request = play.request(demand=2)
    leases = [play.run("one"), play.run("two")]
    play.record(request, *leases, outcome=Outcome.REJECTED)
    assert play.one(PauseJob).reason == "JOB_CRASHES"


def test_a_device_that_cools_when_it_is_idle_already_is_leased_again_once_that_is_over() -> None:
    """Its receipt was heard of before its driver's record: nothing else need happen for it to be looked at again."""
    play = ScriptedEngine()
    request = play.request(demand=1)
    lease = play.run("one")
    play.finish("one", lease, Outcome.REJECTED)
    play.record(request, lease, outcome=Outcome.REJECTED)
    play.wait(play.engine.settings.cooling_first_s)
    assert play.one(OfferLease).device == "one"
