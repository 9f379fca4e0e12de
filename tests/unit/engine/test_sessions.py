"""Sessions: check-ins, reconnects, limits, draining, and sending away."""

from coordinator.engine.chance import Purpose, draw, fraction
from coordinator.engine.effects import (
    CloseSession,
    EndLease,
    EndSession,
    MissLease,
    OfferLease,
    OpenSession,
    ResumeLease,
    RevokeLease,
    SendAway,
)
from coordinator.engine.events import (
    DeviceCheckedIn,
    DeviceHeard,
    DevicesDrained,
    JobEnded,
    TaskProgressed,
)
from coordinator.engine.ids import DeviceId, LeaseSeq, SessionSeq
from coordinator.engine.lifecycle import DeviceState
from coordinator.engine.model import ComeBackReason, HeldLease, HeldPhase, JobEnd, LeaseEnd, Repeat, SessionEnd
from coordinator.engine.requirements import Capabilities, Comparison
from testbed.testing.engine import ScriptedEngine, needs


def ends(play: ScriptedEngine) -> list[SessionEnd]:
    return [effect.reason for effect in play.got(EndSession)]


def test_the_newest_stream_of_an_instance_wins_and_goes_on_with_its_lease() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    lease = play.run("one")
    old = play.session("one")
    play.check_in("one", held=(HeldLease(lease, HeldPhase.WORKING),))
    assert play.one(CloseSession) == CloseSession(old, DeviceId("one"), SessionEnd.SUPERSEDED)
    assert play.one(EndSession).in_task
    assert [type(effect) for effect in play.effects if type(effect) in (MissLease, OpenSession, ResumeLease)] == [
        MissLease,
        OpenSession,
        ResumeLease,
    ]
    assert play.handle(TaskProgressed(old, lease, 0.5)) == []  # its late frames are dropped


def test_an_older_stream_never_wins() -> None:
    play = ScriptedEngine()
    play.check_in("one")
    newest = play.check_in("one")
    event = DeviceCheckedIn(SessionSeq(1), DeviceId("one"), "i", 1, Capabilities())
    play.handle(event)
    assert play.one(CloseSession).reason is SessionEnd.SUPERSEDED
    assert play.session("one") == newest


def test_the_same_check_in_twice_is_one_session() -> None:
    play = ScriptedEngine()
    event = DeviceCheckedIn(SessionSeq(5), DeviceId("one"), "i", 1, Capabilities())
    play.handle(event)
    assert play.handle(event) == []


def test_another_instance_waits_while_the_first_is_alive_and_takes_over_later() -> None:
    play = ScriptedEngine()
    play.check_in("one", instance="aa")
    play.wait(4.0)
    play.check_in("one", instance="bb")
    assert play.one(CloseSession).reason is SessionEnd.DUPLICATE_DEVICE
    assert play.one(CloseSession).retry_after_s == 10.0
    assert not play.got(OpenSession)
    assert any("DUPLICATE" in line for line in play.engine.explain_device(DeviceId("one")))
    play.leave("one", SessionEnd.SILENT)
    play.check_in("one", instance="bb")
    assert play.one(OpenSession)


def test_another_instance_need_not_wait_for_a_stream_that_has_ended() -> None:
    play = ScriptedEngine()
    play.check_in("one", instance="aa")
    play.leave("one")
    play.check_in("one", instance="bb")
    assert play.one(OpenSession)


def test_a_sign_of_life_is_news_only_where_it_changes_something() -> None:
    play = ScriptedEngine()
    play.check_in("idle")
    assert not play.engine.is_news(DeviceHeard(play.session("idle")))
    assert not play.engine.is_news(DeviceHeard(SessionSeq(99)))
    play.leave("idle")
    request = play.request(demand=2)
    lease = play.offer("one")
    assert play.engine.is_news(TaskProgressed(play.session("one"), lease, 0.5))  # its acceptance was lost
    play.accept("one")
    assert not play.engine.is_news(TaskProgressed(play.session("one"), lease, 0.6))
    assert play.engine.is_news(TaskProgressed(play.session("one"), LeaseSeq(99), 0.6))
    play.offer("quiet")
    play.wait(10.0)
    assert request.placed == 1
    assert play.engine.is_news(DeviceHeard(play.session("quiet")))


def test_a_stream_that_ends_without_goodbye_is_lost_at_once() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    play.run("one")
    play.leave("one")
    assert play.one(EndSession).reason is SessionEnd.CONNECTION_ENDED
    assert play.one(EndSession).in_task


def test_leases_of_another_incarnation_are_revoked_unknown_and_the_device_is_busy_with_them() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    play.check_in("one", foreign=(41,))
    assert play.one(RevokeLease) == RevokeLease(play.session("one"), LeaseSeq(41), LeaseEnd.UNKNOWN)
    assert not play.got(OfferLease)
    play.release("one", LeaseSeq(41))
    assert play.one(OfferLease)


def test_an_unknown_lease_keeps_a_device_busy_for_a_liveness_interval_at_most() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    play.check_in("one", held=(HeldLease(LeaseSeq(41), HeldPhase.FETCHING),))
    assert play.one(RevokeLease).reason is LeaseEnd.UNKNOWN
    assert [effect for effect in play.beat(11) if isinstance(effect, OfferLease)]


def test_a_device_at_its_limit_is_sent_away_after_its_task_and_counts_as_served() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3, repeat=Repeat.ALLOW)
    play.run("one", per_session=1)
    play.finish("one")
    assert play.one(SendAway) == SendAway(play.session("one"), DeviceId("one"), ComeBackReason.LIMIT, None)
    assert play.device("one").state is DeviceState.SERVED
    play.leave("one", SessionEnd.GOODBYE_TOLD_TO)
    assert play.device("one").state is DeviceState.SERVED
    play.check_in("one", per_session=1, interval=1)  # the same interval, by the same instance, goes on
    assert play.one(SendAway).reason is ComeBackReason.LIMIT
    play.leave("one", SessionEnd.GOODBYE_TOLD_TO)
    play.check_in("one", per_session=1, interval=2)
    assert play.one(OfferLease)
    assert request.placed == 2


def test_a_reconnect_within_an_interval_continues_its_limits_and_is_no_new_supply() -> None:
    play = ScriptedEngine()
    play.request(demand=9)
    play.run("one", per_session=2)
    play.leave("one")
    play.check_in("one", per_session=2)
    assert play.one(OfferLease)
    play.accept("one")
    play.finish("one")
    assert play.one(SendAway).reason is ComeBackReason.LIMIT
    assert sum(play.engine.supply.totals.values()) == 1


def test_a_task_that_is_declined_does_not_count_against_limits() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    play.offer("one", per_session=1)
    play.wait(11.0)
    assert play.device("one").tasks_in_interval == 0


def test_a_limit_per_day_holds_over_intervals_until_the_next_day() -> None:
    play = ScriptedEngine()
    play.request(demand=9, deadline_s=200_000.0)
    play.run("one", per_day=1)
    play.finish("one")
    assert play.one(SendAway).reason is ComeBackReason.LIMIT
    play.leave("one", SessionEnd.GOODBYE_TOLD_TO)
    play.check_in("one", interval=2, per_day=1)
    assert play.one(SendAway).reason is ComeBackReason.LIMIT
    assert sum(play.engine.supply.totals.values()) == 1  # its limits do not let it work
    play.leave("one", SessionEnd.GOODBYE_TOLD_TO)
    play.now = 86_400.0
    play.check_in("one", interval=3, per_day=1)
    assert play.one(OfferLease)


def test_a_device_that_never_leaves_serves_again_tomorrow() -> None:
    play = ScriptedEngine()
    play.request(demand=9, deadline_s=200_000.0)
    play.wait(1_000.0)
    play.run("one", per_day=1)
    play.finish("one")
    away = play.one(SendAway)
    assert (away.reason, away.after_s) == (
        ComeBackReason.LIMIT,
        85_400.0 + 3.0 * fraction(draw(7, Purpose.COME_BACK, away.session)),
    )
    assert "serves again tomorrow" in play.engine.explain_device(DeviceId("one"))[0]
    play.leave("one", SessionEnd.GOODBYE_TOLD_TO)
    play.wait(away.after_s or 0.0)
    play.check_in("one", per_day=1)  # the same availability interval
    assert play.one(OfferLease)


def test_tomorrow_does_not_help_a_device_at_its_limit_per_interval() -> None:
    play = ScriptedEngine()
    play.request(demand=9)
    play.run("one", per_session=1, per_day=1)
    play.finish("one")
    assert play.one(SendAway).after_s is None


def test_devices_at_their_limit_do_not_come_back_all_at_once() -> None:
    play = ScriptedEngine(come_back_per_s=2.0)
    play.request(demand=20)
    for number in range(20):
        play.run(f"d{number}", per_day=1)
    for number in range(20):
        play.finish(f"d{number}")
    aways = [effect.after_s for effect in play.all if isinstance(effect, SendAway) and effect.after_s]
    assert len(set(aways)) == 20
    assert 86_403.0 < max(aways) < 86_410.0


def test_a_device_that_was_sent_away_and_stays_is_closed() -> None:
    play = ScriptedEngine()
    play.request(demand=3)
    play.run("one", per_session=1)
    play.finish("one")
    play.beat(11)
    assert [effect.reason for effect in play.all if isinstance(effect, EndSession)] == [SessionEnd.SENT_AWAY]


def test_a_device_without_a_job_to_serve_is_sent_away_after_a_while_for_a_drawn_time() -> None:
    play = ScriptedEngine(no_work_patience_s=30.0)
    play.job(**needs(Comparison("memory", ">=", 4.0), "roomy"))
    play.check_in("small")
    play.check_in("large", numbers={"memory": 8.0})
    effects = play.beat(31)
    (away,) = [effect for effect in effects if isinstance(effect, SendAway)]
    assert (away.device, away.reason) == ("small", ComeBackReason.NO_WORK)
    assert away.after_s == 3.0 * fraction(draw(7, Purpose.COME_BACK, away.session))
    assert play.device("large").state is DeviceState.IDLE  # an unfinished job has its region


def test_the_window_grows_with_the_crowd() -> None:
    play = ScriptedEngine(no_work_patience_s=5.0, come_back_per_s=2.0)
    for number in range(20):
        play.check_in(f"d{number}")
    aways = [effect.after_s for effect in play.beat(6) if isinstance(effect, SendAway)]
    assert len(set(aways)) == 20
    assert 3.0 < max(after for after in aways if after is not None) < 10.0


def test_when_the_last_job_ends_patience_begins_anew() -> None:
    play = ScriptedEngine(no_work_patience_s=5.0)
    job = play.job()
    play.check_in("one")
    play.beat(20)
    play.handle(JobEnded(job.id, JobEnd.FINISHED))
    assert not play.got(SendAway)
    assert [effect.reason for effect in play.beat(6) if isinstance(effect, SendAway)] == [ComeBackReason.NO_WORK]


def test_over_the_bound_a_device_that_no_request_takes_is_sent_away() -> None:
    play = ScriptedEngine(most_sessions=1)
    play.job()
    play.check_in("one")
    play.check_in("two")
    assert play.one(SendAway).reason is ComeBackReason.OVERLOAD
    play.leave("two", SessionEnd.GOODBYE_TOLD_TO)
    play.request("b", demand=2)
    play.check_in("two")
    assert play.one(OfferLease)  # never while an open request could take it


def test_drained_devices_leave_now_or_after_their_task() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    play.run("busy")
    play.check_in("idle")
    play.handle(DevicesDrained(None))
    assert [(effect.device, effect.reason) for effect in play.got(CloseSession)] == [("idle", SessionEnd.DRAINED)]
    play.finish("busy")
    assert ends(play) == [SessionEnd.DRAINED]
    play.check_in("new")
    assert play.one(CloseSession).reason is SessionEnd.DRAINED
    assert "new" not in play.engine.devices


def test_one_device_can_be_drained() -> None:
    play = ScriptedEngine()
    play.check_in("one")
    play.check_in("two")
    play.handle(DevicesDrained((DeviceId("one"), DeviceId("nobody"))))
    assert [effect.device for effect in play.got(CloseSession)] == ["one"]
    play.check_in("one")
    assert play.one(CloseSession).reason is SessionEnd.DRAINED
    assert play.device("two").session


def test_devices_that_left_first_are_forgotten_first_but_never_with_a_lease() -> None:
    play = ScriptedEngine(most_devices=2)
    play.request(demand=1)
    play.run("one")
    play.leave("one")
    play.check_in("two")
    play.leave("two")
    play.check_in("three")
    assert sorted(play.engine.devices) == ["one", "three"]
    assert not play.got(EndLease)


def test_devices_that_left_first_are_forgotten_when_their_capabilities_take_too_much_memory() -> None:
    label = {"packages": frozenset(f"package-{number}" for number in range(10))}
    size = Capabilities({}, label).memory_bytes
    play = ScriptedEngine(most_device_bytes=3 * size + 1)
    for name in ("one", "two", "three", "four"):
        play.check_in(name, labels=label)
        play.leave(name)
    assert list(play.engine.devices) == ["two", "three", "four"]
    play.check_in("two", labels={"packages": label["packages"] | {f"more-{number}" for number in range(20)}})
    play.check_in("small")
    assert list(play.engine.devices) == ["two", "small"]
    play.engine.validate()


def test_capabilities_take_memory_by_their_texts() -> None:
    assert Capabilities().memory_bytes == 0
    one = Capabilities({"cpu": 1.0}, {"site": frozenset({"lab"})}).memory_bytes
    assert 500 < one < 1000
    assert Capabilities({"cpu": 1.0}, {"site": frozenset({"lab" * 1000})}).memory_bytes > one + 2900


def test_capabilities_may_change_between_sessions() -> None:
    play = ScriptedEngine()
    play.request(demand=1, **needs(Comparison("memory", ">=", 4.0), "roomy"))
    play.check_in("one", numbers={"memory": 2.0})
    play.leave("one")
    assert play.offer("one", numbers={"memory": 4.0})
