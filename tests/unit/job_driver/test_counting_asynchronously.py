"""Which responses count in an asynchronous job: in the round that is open, once, and not when they are too stale."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_driver.counting import AttemptNo, Collector, Outcome, Receipts, Status


def receipts_of(needed: int = 2, max_staleness: int | None = None) -> Receipts:
    receipts = Receipts(Collector(needed, asynchronous=True, max_staleness=max_staleness), keep_s=100.0)
    receipts.open(AttemptNo(1, 1))
    return receipts


def outcome(receipts: Receipts, round_: int, lease: int, attempt: int = 1) -> Outcome:
    return receipts.decide(AttemptNo(round_, attempt), lease, f"device {lease}", b"x").outcome


def flush(receipts: Receipts, round_: int) -> None:
    receipts.end(AttemptNo(round_, 1), Status.CLOSED, 0.0)
    receipts.open(AttemptNo(round_ + 1, 1))


def test_a_lease_of_an_earlier_round_counts_in_the_open_one() -> None:
    receipts = receipts_of()
    assert [outcome(receipts, 1, lease) for lease in (1, 2)] == [Outcome.COUNTED] * 2
    flush(receipts, 1)
    assert outcome(receipts, 1, 3) is Outcome.COUNTED
    into = receipts.collector.latest
    assert (into.no.round, into.counted, into.staleness) == (2, [3], [1])
    assert receipts.decide(AttemptNo(1, 1), 1, "device 1", b"x").outcome is Outcome.COUNTED  # as it was decided
    assert into.counted == [3]


def test_a_full_buffer_lets_wait_until_the_next_round_is_open() -> None:
    receipts = receipts_of(1)
    assert not receipts.waits(AttemptNo(1, 1), 1)
    outcome(receipts, 1, 1)
    assert receipts.waits(AttemptNo(1, 1), 2)
    assert not receipts.waits(AttemptNo(1, 1), 1)  # it has its answer
    assert receipts.foresee(AttemptNo(1, 1), 2, "device 2") is None  # its bytes are wanted
    receipts.end(AttemptNo(1, 1), Status.CLOSED, 0.0)
    assert receipts.waits(AttemptNo(1, 1), 2)
    receipts.collector.finish()
    assert receipts.foresee(AttemptNo(1, 1), 2, "device 2") is Outcome.STRAGGLER


@pytest.mark.parametrize(("most", "said"), [(0, Outcome.STRAGGLER), (1, Outcome.COUNTED), (None, Outcome.COUNTED)])
def test_staleness_has_a_bound(most: int | None, said: Outcome) -> None:
    receipts = receipts_of(1, most)
    outcome(receipts, 1, 1)
    flush(receipts, 1)
    assert outcome(receipts, 1, 2) is said


def test_a_model_that_is_not_here_any_more_cannot_count() -> None:
    receipts = receipts_of(1)
    outcome(receipts, 1, 1)
    flush(receipts, 1)
    receipts.collector.oldest = 2
    assert receipts.foresee(AttemptNo(1, 1), 2, "device 2") is Outcome.STRAGGLER


def test_after_an_abort_earlier_leases_do_not_count() -> None:
    receipts = receipts_of(1)
    receipts.end(AttemptNo(1, 1), Status.ABORTED, 0.0)
    receipts.open(AttemptNo(1, 2))
    assert outcome(receipts, 1, 1) is Outcome.STRAGGLER
    assert outcome(receipts, 1, 2, attempt=2) is Outcome.COUNTED


def test_with_a_new_request_leases_of_a_closed_round_do_not_count() -> None:
    receipts = receipts_of(1)
    outcome(receipts, 1, 1)
    receipts.end(AttemptNo(1, 1), Status.CLOSED, 0.0)
    receipts.collector.forget_request()
    receipts.open(AttemptNo(2, 1))
    assert outcome(receipts, 1, 2) is Outcome.STRAGGLER


def test_a_decision_that_is_taken_back_leaves_the_round_it_counted_in() -> None:
    receipts = receipts_of()
    for lease in (1, 2):
        outcome(receipts, 1, lease)
    flush(receipts, 1)
    outcome(receipts, 1, 3)
    receipts.retract(AttemptNo(1, 1), 3, "OUT_OF_SPACE")
    into = receipts.collector.latest
    assert (into.counted, into.staleness) == ([], [])


def test_after_the_last_round_nobody_waits() -> None:
    receipts = Receipts(Collector(1, rounds=1, asynchronous=True))
    receipts.open(AttemptNo(1, 1))
    outcome(receipts, 1, 1)
    assert receipts.waits(AttemptNo(1, 1), 2)  # the attempt may abort yet
    receipts.end(AttemptNo(1, 1), Status.CLOSED, 0.0)
    assert not receipts.waits(AttemptNo(1, 1), 2)
    assert outcome(receipts, 1, 2) is Outcome.STRAGGLER


@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60))
def test_every_round_has_its_buffer_and_no_lease_counts_twice(needed: int, script: list[tuple[int, int]]) -> None:
    receipts, round_, attempts = receipts_of(needed), 1, []
    for back, lease in script:
        given_in = max(1, round_ - back)
        seq = 10 * given_in + lease  # a lease is of one round
        if not receipts.waits(AttemptNo(given_in, 1), seq):
            outcome(receipts, given_in, seq)
        into = receipts.collector.latest
        if not into.wants:
            attempts.append(into)
            flush(receipts, round_)
            round_ += 1
    counted = [lease for attempt in attempts for lease in attempt.counted]
    assert len(counted) == len(set(counted)) == needed * len(attempts)
    assert all(stale >= 0 for attempt in attempts for stale in attempt.staleness)


def test_a_device_counts_once_in_each_buffer() -> None:
    receipts, first, second = receipts_of(2), AttemptNo(1, 1), AttemptNo(2, 1)
    told = [receipts.decide(first, lease, device, b"x").outcome for lease, device in ((1, "a"), (2, "a"), (3, "b"))]
    assert told == [Outcome.COUNTED, Outcome.STRAGGLER, Outcome.COUNTED]
    assert receipts.foresee(first, 4, "a") is None  # it waits for the next buffer
    receipts.end(first, Status.CLOSED, now=0.0)
    receipts.open(second)
    assert receipts.decide(first, 4, "a", b"x").outcome is Outcome.COUNTED
