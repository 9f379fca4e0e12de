"""Which responses count: one decision per lease, K of them in a round, each of another device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_driver.counting import AttemptNo, Collector, Decision, Outcome, Receipts, Status

FIRST, SECOND = AttemptNo(1, 1), AttemptNo(2, 1)


@pytest.fixture
def receipts() -> Receipts:
    receipts = Receipts(Collector(2), keep_s=100)
    receipts.open(FIRST)
    return receipts


def outcome(receipts: Receipts, lease: int, no: AttemptNo = FIRST, problem: str = "") -> Outcome:
    return receipts.decide(no, lease, f"device {lease}", b"digest", problem).outcome


def test_the_first_k_distinct_leases_count(receipts: Receipts) -> None:
    assert [outcome(receipts, lease) for lease in (5, 5, 3, 9)] == [
        Outcome.COUNTED,
        Outcome.COUNTED,
        Outcome.COUNTED,
        Outcome.STRAGGLER,
    ]
    attempt = receipts.collector.latest
    assert attempt.counted == [5, 3]
    assert attempt.stragglers == 1


def test_what_does_not_fit_is_rejected_and_takes_no_place(receipts: Receipts) -> None:
    assert outcome(receipts, 1, problem="SIZE: too large") is Outcome.REJECTED
    assert outcome(receipts, 1) is Outcome.REJECTED
    assert [outcome(receipts, lease) for lease in (2, 3)] == [Outcome.COUNTED] * 2


def test_a_lease_that_ended_is_rejected_unless_it_was_decided(receipts: Receipts) -> None:
    outcome(receipts, 1)
    receipts.lease_ended(FIRST, 1, "expired")
    receipts.lease_ended(FIRST, 2, "expired")
    assert outcome(receipts, 1) is Outcome.COUNTED
    assert receipts.decide(FIRST, 2, "two", b"").reason == "LEASE_ENDED: expired"
    receipts.lease_ended(AttemptNo(7, 1), 3, "about an attempt that is not known")


def test_after_its_end_an_attempt_counts_nothing(receipts: Receipts) -> None:
    outcome(receipts, 1)
    assert receipts.end(FIRST, Status.ABORTED, now=1.0)
    assert not receipts.end(FIRST, Status.CLOSED, now=2.0)
    assert outcome(receipts, 2) is Outcome.STRAGGLER
    assert outcome(receipts, 3, problem="whatever its bytes are") is Outcome.STRAGGLER
    assert receipts.collector.latest.status is Status.ABORTED


def test_what_is_foreseen_needs_no_bytes(receipts: Receipts) -> None:
    assert receipts.foresee(FIRST, 1, "one") is None
    receipts.lease_ended(FIRST, 1, "lost")
    assert receipts.foresee(FIRST, 1, "one") is Outcome.REJECTED
    outcome(receipts, 2)
    outcome(receipts, 3)
    assert receipts.foresee(FIRST, 4, "one") is Outcome.STRAGGLER


def test_receipts_are_kept_until_the_next_round_closed_and_no_ticket_can_be_valid(receipts: Receipts) -> None:
    outcome(receipts, 1)
    receipts.end(FIRST, Status.CLOSED, now=0.0)
    receipts.open(SECOND)
    receipts.end(SECOND, Status.CLOSED, now=50.0)
    assert receipts.find(FIRST) is not None  # a ticket of it may still be shown
    receipts.open(AttemptNo(3, 1))
    receipts.end(AttemptNo(3, 1), Status.CLOSED, now=120.0)
    assert receipts.find(FIRST) is None
    assert receipts.find(SECOND) is not None


def test_attempts_open_in_order_one_at_a_time(receipts: Receipts) -> None:
    with pytest.raises(ValueError, match="cannot open"):
        receipts.open(SECOND)
    receipts.end(FIRST, Status.ABORTED, now=0.0)
    with pytest.raises(ValueError, match="cannot open"):
        receipts.open(FIRST)
    receipts.open(AttemptNo(1, 2))
    with pytest.raises(ValueError, match="at least one"):
        Collector(0)


def test_a_decision_that_could_not_be_written_down_is_taken_back(receipts: Receipts) -> None:
    outcome(receipts, 1)
    assert receipts.retract(FIRST, 1, "OUT_OF_SPACE").outcome is Outcome.REJECTED
    assert [outcome(receipts, lease) for lease in (2, 3)] == [Outcome.COUNTED] * 2


def test_a_restored_attempt_goes_on_where_it_was(receipts: Receipts) -> None:
    for decision in (Decision(FIRST, 4, Outcome.COUNTED, b"x"), Decision(FIRST, 6, Outcome.REJECTED, b"", "DIGEST")):
        receipts.restore(FIRST, decision, f"device {decision.lease}")
    assert [outcome(receipts, lease) for lease in (4, 6, 7, 8)] == [
        Outcome.COUNTED,
        Outcome.REJECTED,
        Outcome.COUNTED,
        Outcome.STRAGGLER,
    ]


def test_a_device_counts_once_in_an_attempt(receipts: Receipts) -> None:
    assert receipts.decide(FIRST, 1, "a", b"").outcome is Outcome.COUNTED
    assert receipts.foresee(FIRST, 2, "a") is Outcome.STRAGGLER
    assert receipts.decide(FIRST, 2, "a", b"") == Decision(FIRST, 2, Outcome.STRAGGLER, b"", "REPEATED")
    assert receipts.foresee(FIRST, 3, "b") is None
    receipts.end(FIRST, Status.ABORTED, now=0)
    retry = AttemptNo(1, 2)
    receipts.open(retry)
    assert receipts.decide(retry, 4, "a", b"").outcome is Outcome.COUNTED


def test_a_job_may_let_it_count_again() -> None:
    receipts = Receipts(Collector(2, repeat=True))
    receipts.open(FIRST)
    assert [receipts.decide(FIRST, lease, "a", b"").outcome for lease in (1, 2)] == [Outcome.COUNTED] * 2


def test_a_device_whose_decision_was_taken_back_may_count(receipts: Receipts) -> None:
    receipts.decide(FIRST, 1, "a", b"")
    receipts.retract(FIRST, 1, "OUT_OF_SPACE")
    assert receipts.decide(FIRST, 2, "a", b"").outcome is Outcome.COUNTED


def test_a_restored_attempt_knows_its_devices(receipts: Receipts) -> None:
    receipts.restore(FIRST, Decision(FIRST, 1, Outcome.COUNTED, b""), "a")
    assert receipts.decide(FIRST, 2, "a", b"").reason == "REPEATED"


def test_the_next_attempt_is_at_the_same_round_until_one_closes() -> None:
    collector = Collector(1, rounds=5, closed=3)
    assert collector.next == AttemptNo(4, 1)
    for status, following in ((Status.ABORTED, (4, 2)), (Status.CLOSED, (5, 1)), (Status.CLOSED, None)):
        assert collector.next is not None
        collector.open(collector.next)
        collector.end(collector.latest.no, status)
        assert collector.next == following
    assert Collector(1, rounds=3, closed=3).next is None


def test_a_job_that_is_finished_opens_no_attempt() -> None:
    collector = Collector(1)
    collector.open(FIRST)
    collector.end(FIRST, Status.CLOSED)
    collector.finish()
    assert collector.next is None


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["submit", "bad", "ended"]))))
def test_never_more_than_k_and_each_lease_once(needed: int, script: list[tuple[int, str]]) -> None:
    receipts = Receipts(Collector(needed), keep_s=1)
    attempt = receipts.open(FIRST)
    told: dict[int, Outcome] = {}
    for lease, what in script:
        if what == "ended":
            receipts.lease_ended(FIRST, lease, "lost")
            continue
        said = outcome(receipts, lease, problem="" if what == "submit" else "DIGEST")
        assert told.setdefault(lease, said) is said
    counted = [lease for lease, said in told.items() if said is Outcome.COUNTED]
    assert len(counted) <= needed
    assert sorted(counted) == sorted(attempt.counted)
    if Outcome.STRAGGLER in told.values():
        assert len(counted) == needed
