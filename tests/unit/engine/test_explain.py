"""Words and counts for people."""

from fractions import Fraction
from pathlib import Path

from coordinator.engine.counts import (
    DeviceCounts,
    device_counts,
    device_line,
    job_counts,
    lease_counts,
    region_counts,
)
from coordinator.engine.effects import EndLease
from coordinator.engine.events import DriverLost, JobEnded, LeaseDeclined
from coordinator.engine.ids import DeviceId, JobId
from coordinator.engine.model import FailureReason, JobEnd, LeaseEnd, Outcome
from coordinator.engine.requirements import AllDevices, Comparison, Every
from testbed.report.record import load_run
from testbed.report.summary import summarise
from testbed.report.words import lease_sum
from testbed.testing.engine import ScriptedEngine, needs
from tests.unit.engine.test_leases import working
from tests.unit.report.world import World

ROOMY, FAST = Comparison("memory", ">=", 4.0), Comparison("cpu", ">=", 7.0)


def why(play: ScriptedEngine, name: str) -> str:
    return play.engine.explain_device(DeviceId(name))[0]


def test_a_job_says_what_it_waits_for() -> None:
    play = ScriptedEngine()
    job = play.job(demand=2, **needs(ROOMY, "roomy"))

    def says() -> str:
        return play.engine.explain_job(job.id)[0]

    assert says() == "no attempt is open: its driver has to open one"
    request = play.open(job)
    assert says() == "2 places open, no eligible device was ever seen; it needs memory >= 4"
    first = play.run("one", numbers={"memory": 8.0})
    play.wait(4.0)
    assert says() == "1 place open; no further eligible device present; 0.2 check-ins per second"
    few = "TOO_FEW_DEVICES: a round needs responses of 2 devices, and 1 of those known are eligible"
    assert few in play.engine.explain_job(job.id)
    play.run("two", numbers={"memory": 8.0})
    assert says() == "collecting: 2 of 2 responses missing, 2 leases live, deadline in 56.0 s"
    play.fail("two")
    assert "COOLING: 1 idle devices failed it lately" in play.engine.explain_job(job.id)
    play.handle(DriverLost(job.id, 1))
    assert says() == "DRIVER_AWAY: its driver's stream ended"
    play.record(request, first)
    play.handle(JobEnded(job.id, JobEnd.CANCELLED, "enough"))
    assert says() == "it has cancelled: enough"


def test_its_recent_story_follows() -> None:
    play = ScriptedEngine()
    request = play.request(demand=1)
    play.record(request, play.run("one"))
    history = "\n".join(play.engine.explain_job(request.job.id))
    for word in ("ARRIVED", "OPENED", "FILLED", "CLOSED"):
        assert word in history


def test_a_device_says_what_it_waits_for() -> None:
    play = ScriptedEngine()
    play.check_in("one", numbers={"memory": 2.0}, per_session=1)
    assert why(play, "one").startswith("NO_WORK")
    request = play.request("a", demand=1)
    assert why(play, "one") == "it works: lease 1 of me/a/1 round 1 attempt 1, offered"
    play.check_in("two", numbers={"memory": 2.0})
    assert why(play, "two") == "no open request that it could serve has a place left"
    lease = play.lease("one")
    play.accept("one")
    play.record(request, lease)
    assert why(play, "one") == "it has not said yet that it stopped: lease 1 ended (counted)"
    play.finish("one", lease)
    assert why(play, "one").startswith("LIMIT: 1 of 1 tasks in this availability interval")
    play.leave("two")
    assert why(play, "two") == "it is gone: its session ended (connection_ended)"


def test_a_device_says_why_it_idles_beside_open_places() -> None:
    play = ScriptedEngine()
    play.request("a", demand=1)
    lease = play.offer("busy")
    play.handle(LeaseDeclined(play.session("busy"), lease, FailureReason.BUSY, 5.0))
    assert why(play, "busy") == "BUSY: it said so; it is asked again in 5.0 s"
    play.run("cool")
    play.fail("cool")
    assert why(play, "cool") == "COOLING: for me/a/1, 30.0 s more after 1 failure"
    play.offer("mute")
    play.beat(8)
    play.wait(3.0)
    assert why(play, "mute").startswith("UNACCEPTED")


def test_leases_add_up_however_they_end() -> None:
    play = ScriptedEngine(crashes_to_pause=99)
    request = play.request(demand=12, min_response=Fraction(1, 4), deadline_s=500.0, lease_s=30.0)
    leases = {name: play.run(name) for name in "abcdefgh"}
    play.record(request, leases["a"])
    play.record(request, leases["b"], outcome=Outcome.STRAGGLER)
    play.record(request, leases["c"], outcome=Outcome.REJECTED)
    play.fail("d")
    play.leave("e")
    play.check_in("e")
    play.beat(11)  # e lets its new offer lapse
    play.handle(JobEnded(request.job.id, JobEnd.FINISHED))
    counts = lease_counts(play.engine)
    ends = play.engine.world.ends
    assert counts.adds_up
    assert (counts.responses, counts.stragglers, counts.lost, counts.live) == (1, 1, 1, 0)
    assert counts.failed == ends[LeaseEnd.FAILED] + ends[LeaseEnd.REJECTED] == 2
    assert counts.expired == ends[LeaseEnd.UNACCEPTED] >= 1
    assert counts.revoked >= 3


def test_a_place_that_was_taken_while_its_device_was_away_is_lost_wherever_leases_are_summed(tmp_path: Path) -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.run("one")
    play.leave("one")
    play.offer("two")
    play.check_in("one", held=working(lease))
    assert play.one(EndLease).reason is LeaseEnd.REPLACED
    live = lease_counts(play.engine)
    assert (live.lost, live.revoked, live.adds_up) == (1, 0, True)
    world = World()
    world.check_in(1.0, world.device("one"))
    world.job(1.0, "a", AllDevices(), label="any", demand=1, rounds=1)
    world.lose(4.0, world.lease(2.0, "one", world.open(2.0, "a", 1)), LeaseEnd.REPLACED)
    summary = summarise(load_run(world.write(tmp_path)))
    assert summary.leases == summary.audit.leases
    assert (summary.leases.lost, summary.leases.revoked) == (1, 0)
    assert "1 lost" in lease_sum(summary)


def test_devices_are_counted_by_what_they_do() -> None:
    play = ScriptedEngine()
    play.request(demand=2)
    play.run("busy")
    play.run("served", per_session=1)
    play.finish("served")
    play.check_in("waiting")
    play.check_in("gone")
    play.leave("gone")
    assert device_counts(play.engine) == DeviceCounts(known=4, waiting=1, busy=1, served=1, gone=1)
    states = {one.id: device_line(play.engine, one) for one in play.engine.devices.values()}
    assert {id_: line.state for id_, line in states.items()} == {name: name for name in states}
    assert states[DeviceId("busy")].job == JobId("me/a/1")
    assert states[DeviceId("served")].tasks == 1


def test_regions_say_who_gets_the_next_device() -> None:
    play = ScriptedEngine()
    play.request("a", demand=9)
    play.request("b", demand=9, **needs(ROOMY, "roomy"))
    play.request("c", demand=1, **needs(Every((ROOMY, FAST)), "powerful"))
    for number in range(8):
        play.check_in(f"d{number}", numbers={"memory": 8.0 if number < 4 else 2.0, "cpu": 9.0 if number == 0 else 1.0})
    play.beat(4)
    regions, _ = region_counts(play.engine)
    assert [(one.devices, one.check_ins_per_s) for one in regions] == [(4, 1.0), (3, 0.75), (1, 0.25)]
    assert regions[2].groups == ("any", "roomy", "powerful")
    assert regions[2].order == ("me/a/1", "me/b/1", "me/c/1")
    assert regions[0].order == ("me/a/1",)


def test_jobs_say_where_they_stand() -> None:
    play = ScriptedEngine()
    job = play.job(demand=10, over_commit=Fraction(1, 5), min_response=Fraction(4, 5), rounds=6)
    (before,) = job_counts(play.engine)
    assert (before.phase, before.round, before.places) == ("arriving", 0, 12)
    request = play.open(job)
    play.record(request, play.run("one"))
    play.run("two")
    play.wait(2.0)
    (now,) = job_counts(play.engine)
    assert (now.phase, now.round, now.leased, now.places, now.responses, now.responses_needed) == (
        "filling",
        1,
        2,
        12,
        1,
        8,
    )
    assert now.waits.startswith("10 places open")
    play.handle(DriverLost(job.id, 1))
    assert job_counts(play.engine)[0].phase == "paused"
