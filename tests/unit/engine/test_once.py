"""A device counts at most once in a round, whatever attempts it takes; asynchronously in one buffer."""

from fractions import Fraction

import pytest

from coordinator.engine.effects import EndLease, OfferLease, RevokeLease
from coordinator.engine.events import AttemptOpened
from coordinator.engine.ids import DeviceId
from coordinator.engine.lifecycle import DeviceState, InvariantError
from coordinator.engine.model import Asynchronous, AttemptStatus, LeaseEnd, Outcome, Repeat
from coordinator.engine.requirements import Comparison
from coordinator.engine.state import Request
from testbed.testing.engine import ScriptedEngine
from tests.unit.engine.tiny import Uniform


def respond(play: ScriptedEngine, request: Request, name: str) -> None:
    """The driver counts the response of a device, which then has its receipt."""
    lease = play.lease(name)
    play.record(request, lease)
    play.finish(name, lease)


@pytest.mark.parametrize("policy", [None, Uniform()])
def test_a_device_that_counts_is_not_leased_to_the_same_round(policy: Uniform | None) -> None:
    play = ScriptedEngine(policy)
    request = play.request(demand=3)
    play.run("one")
    respond(play, request, "one")
    assert play.device("one").state is DeviceState.IDLE
    assert (request.eligible, request.left, request.unmet) == (1, 0, 2)
    play.leave("one")
    play.check_in("one", interval=2)
    assert not play.got(OfferLease)
    assert play.offer("two")
    assert (request.eligible, request.left) == (2, 1)


def test_a_job_may_allow_it() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3, repeat=Repeat.ALLOW)
    for _ in range(2):
        play.check_in("one") if "one" not in play.engine.devices else None
        play.accept("one")
        respond(play, request, "one")
    assert (request.counted, request.left) == (2, 1)


def test_it_serves_another_job_meanwhile() -> None:
    play = ScriptedEngine()
    first = play.request("a", demand=2)
    second = play.request("b", demand=2)
    play.run("one")
    respond(play, first, "one")
    assert play.one(OfferLease).request == second.id


def test_the_next_round_and_a_retry_may_have_it_again() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2, deadline_s=20.0)
    play.run("one")
    respond(play, request, "one")
    play.beat(21)
    assert request.status is AttemptStatus.ABORTED
    retry = play.open(request.job, 1, 2)
    assert play.one(OfferLease).request == retry.id  # what counted in the aborted attempt is waste
    play.accept("one")
    respond(play, retry, "one")
    play.run("two")
    respond(play, retry, "two")
    assert retry.status is AttemptStatus.CLOSED
    later = play.open(request.job, 2, 1)
    assert [offer.request for offer in play.got(OfferLease)] == [later.id] * 2


def test_a_failure_and_a_straggler_of_an_older_round_do_not_block() -> None:
    play = ScriptedEngine(cooling_first_s=1.0)
    request = play.request(demand=1, over_commit=Fraction(1))
    late = play.run("late")
    play.run("one")
    respond(play, request, "one")
    assert request.status is AttemptStatus.CLOSED
    second = play.open(request.job, 2, 1)
    assert play.one(OfferLease).device == "one"
    play.record(request, late, outcome=Outcome.STRAGGLER)
    play.finish("late", late, Outcome.STRAGGLER)
    assert play.one(OfferLease).device == "late"
    play.fail("late")
    play.wait(2.0)
    late_again = play.device("late").lease
    assert late_again is not None
    assert late_again.request is second


def test_a_receipt_blocks_until_the_driver_has_spoken() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3, lease_s=9.0)
    lease = play.run("one")
    play.finish("one")
    assert not play.got(OfferLease)  # its receipt says COUNTED, and the driver has not said so yet
    assert request.left == 0
    effects = play.beat(10)  # the lease expires, and the driver has said nothing: it does not count
    assert request.leases[lease].reason is LeaseEnd.EXPIRED
    assert [one.device for one in effects if isinstance(one, OfferLease)] == ["one"]


def test_a_receipt_that_says_straggler_does_not_block() -> None:
    play = ScriptedEngine()
    play.request(demand=3)
    play.run("one")
    play.finish("one", outcome=Outcome.STRAGGLER)
    assert play.one(OfferLease).device == "one"


def test_what_the_device_was_given_since_is_revoked_when_an_earlier_lease_counts_after_all() -> None:
    """It came back as another instance while its response was still on its way to the driver, which counted it."""
    play = ScriptedEngine()
    request = play.request(demand=3)
    first = play.run("one", instance="i")
    play.leave("one")
    second = play.run("one", instance="j")
    assert play.engine.world.ended[first].reason is LeaseEnd.LOST
    play.record(request, first)
    assert [(one.lease, one.reason) for one in play.got(EndLease)] == [
        (first, LeaseEnd.COUNTED),
        (second, LeaseEnd.REVOKED),
    ]
    assert play.one(RevokeLease).lease == second
    play.release("one", second)
    assert not play.got(OfferLease)
    assert (request.counted, request.placed, request.unmet) == (1, 0, 2)


def test_a_second_response_does_not_count_whatever_the_driver_says() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3)
    first = play.run("one", instance="i")
    play.leave("one")
    second = play.run("one", instance="j")
    play.record(request, second, first)
    assert request.counted == 1
    assert (request.leases[first].recorded, request.leases[first].reason) == (Outcome.STRAGGLER, LeaseEnd.LOST)


def test_asynchronously_it_counts_once_in_each_buffer() -> None:
    play = ScriptedEngine()
    request = play.request(demand=2, asynchronous=Asynchronous(2))
    play.run("one")
    respond(play, request, "one")
    assert not play.got(OfferLease)
    play.run("two")
    respond(play, request, "two")
    assert (request.round, request.held) == (2, 0)
    assert not play.got(OfferLease)  # until its driver has the next model
    play.handle(AttemptOpened(request.job.id, 1, 2, 1, None))
    assert [offer.device for offer in play.got(OfferLease)] == ["one", "two"]
    assert [offer.round for offer in play.got(OfferLease)] == [2, 2]


def test_a_receipt_blocks_in_the_next_buffer_too_where_an_earlier_lease_counted_in_this_one() -> None:
    """It says that it was told STRAGGLER for a lease that its driver then counts; and has a receipt for the next."""
    play = ScriptedEngine()
    request = play.request(demand=2, asynchronous=Asynchronous(2))
    first = play.run("one")
    play.finish("one", outcome=Outcome.STRAGGLER)
    play.accept("one")
    second = play.lease("one")
    play.finish("one")
    play.record(request, first)
    play.run("two")
    respond(play, request, "two")
    assert request.round == 2
    play.handle(AttemptOpened(request.job.id, 1, 2, 1, None))
    assert [offer.device for offer in play.got(OfferLease)] == ["two"]
    assert request.used == {DeviceId("one"): second}


def test_eligible_devices_are_counted_as_they_come_change_and_are_forgotten() -> None:
    play = ScriptedEngine(most_devices=3, most_regions=2)
    request = play.request(requirement=Comparison("memory", ">=", 4.0))
    for name, memory in (("a", 8.0), ("b", 2.0), ("c", 4.0)):
        play.check_in(name, numbers={"memory": memory})
    assert request.eligible == 2
    play.check_in("b", numbers={"memory": 6.0})
    assert request.eligible == 3
    play.leave("b")
    play.check_in("d", numbers={"memory": 1.0})
    assert request.eligible == 2
    other = play.request("other", requirement=Comparison("memory", ">=", 8.0))
    assert (request.eligible, other.eligible) == (3, 2)  # two classes are kept apart: the third device counts for all
    assert DeviceId("b") not in play.engine.devices


def test_the_invariants_find_a_device_that_counts_twice() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3)
    for name in ("one", "two"):
        play.run(name)
        respond(play, request, name)
    first, second = list(request.leases.values())[:2]
    second.device = first.device
    with pytest.raises(InvariantError, match="counts twice"):
        play.engine.validate()


def test_explain_says_so() -> None:
    play = ScriptedEngine()
    request = play.request(demand=3, min_response=Fraction(1, 2))
    for name in ("one", "two", "three"):
        play.run(name) if name != "three" else play.check_in(name)
        if name == "one":
            respond(play, request, "one")
            assert play.engine.explain_device(DeviceId("one"))[0] == "ONCE: it counts already in round 1 of me/a/1"
    play.leave("three")
    assert play.engine.explain_job(request.job.id)[:2] == [
        "1 place open; 1 present, held back (cooling, at a limit, of another tier, or counted in the round); "
        "3.0 check-ins per second",
        "ONCE: 1 idle devices count in this round already, 2 of 3 eligible ones are left",
    ]
