"""Which responses count in an asynchronous job: in the round that is open, once, and not when they are too stale."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_driver.rounds import AttemptNo, Outcome, Rounds, Status


def rounds_of(needed: int = 2, max_staleness: int | None = None) -> Rounds:
    rounds = Rounds(keep_s=100.0, asynchronous=True, max_staleness=max_staleness)
    rounds.open(AttemptNo(1, 1), needed)
    return rounds


def outcome(rounds: Rounds, round_: int, lease: int, attempt: int = 1) -> Outcome:
    return rounds.decide(AttemptNo(round_, attempt), lease, f"device {lease}", b"x").outcome


def flush(rounds: Rounds, round_: int, needed: int = 2) -> None:
    rounds.end(AttemptNo(round_, 1), Status.CLOSED, 0.0)
    rounds.open(AttemptNo(round_ + 1, 1), needed)


def test_a_lease_of_an_earlier_round_counts_in_the_open_one() -> None:
    rounds = rounds_of()
    assert [outcome(rounds, 1, lease) for lease in (1, 2)] == [Outcome.COUNTED] * 2
    flush(rounds, 1)
    assert outcome(rounds, 1, 3) is Outcome.COUNTED
    into = rounds.into(AttemptNo(1, 1))
    assert (into.no.round, into.counted, into.staleness) == (2, [3], [1])
    assert rounds.decide(AttemptNo(1, 1), 1, "device 1", b"x").outcome is Outcome.COUNTED  # as it was decided
    assert into.counted == [3]


def test_a_full_buffer_lets_wait_until_the_next_round_is_open() -> None:
    rounds = rounds_of(1)
    assert not rounds.waits(AttemptNo(1, 1), 1)
    outcome(rounds, 1, 1)
    assert rounds.waits(AttemptNo(1, 1), 2)
    assert not rounds.waits(AttemptNo(1, 1), 1)  # it has its answer
    assert rounds.foresee(AttemptNo(1, 1), 2, "device 2") is None  # its bytes are wanted
    rounds.end(AttemptNo(1, 1), Status.CLOSED, 0.0)
    assert rounds.waits(AttemptNo(1, 1), 2)
    rounds.finish()
    assert rounds.foresee(AttemptNo(1, 1), 2, "device 2") is Outcome.STRAGGLER


@pytest.mark.parametrize(("most", "said"), [(0, Outcome.STRAGGLER), (1, Outcome.COUNTED), (None, Outcome.COUNTED)])
def test_staleness_has_a_bound(most: int | None, said: Outcome) -> None:
    rounds = rounds_of(1, most)
    outcome(rounds, 1, 1)
    flush(rounds, 1, 1)
    assert outcome(rounds, 1, 2) is said


def test_a_model_that_is_not_here_any_more_cannot_count() -> None:
    rounds = rounds_of(1)
    outcome(rounds, 1, 1)
    flush(rounds, 1, 1)
    rounds.oldest = 2
    assert rounds.foresee(AttemptNo(1, 1), 2, "device 2") is Outcome.STRAGGLER


def test_after_an_abort_earlier_leases_do_not_count() -> None:
    rounds = rounds_of(1)
    rounds.end(AttemptNo(1, 1), Status.ABORTED, 0.0)
    rounds.open(AttemptNo(1, 2), 1)
    assert outcome(rounds, 1, 1) is Outcome.STRAGGLER
    assert outcome(rounds, 1, 2, attempt=2) is Outcome.COUNTED


def test_with_a_new_request_leases_of_a_closed_round_do_not_count() -> None:
    rounds = rounds_of(1)
    outcome(rounds, 1, 1)
    rounds.end(AttemptNo(1, 1), Status.CLOSED, 0.0)
    rounds.open(AttemptNo(2, 1), 1, anew=True)
    assert outcome(rounds, 1, 2) is Outcome.STRAGGLER


def test_a_decision_that_is_taken_back_leaves_the_round_it_counted_in() -> None:
    rounds = rounds_of()
    for lease in (1, 2):
        outcome(rounds, 1, lease)
    flush(rounds, 1)
    outcome(rounds, 1, 3)
    rounds.retract(AttemptNo(1, 1), 3, "OUT_OF_SPACE")
    into = rounds.into(AttemptNo(1, 1))
    assert (into.counted, into.staleness) == ([], [])


@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60))
def test_every_round_has_its_buffer_and_no_lease_counts_twice(needed: int, script: list[tuple[int, int]]) -> None:
    rounds, round_, attempts = rounds_of(needed), 1, []
    for back, lease in script:
        given_in = max(1, round_ - back)
        seq = 10 * given_in + lease  # a lease is of one round
        if not rounds.waits(AttemptNo(given_in, 1), seq):
            outcome(rounds, given_in, seq)
        into = rounds.into(AttemptNo(given_in, 1))
        if not into.wants:
            attempts.append(into)
            flush(rounds, round_, needed)
            round_ += 1
    counted = [lease for attempt in attempts for lease in attempt.counted]
    assert len(counted) == len(set(counted)) == needed * len(attempts)
    assert all(stale >= 0 for attempt in attempts for stale in attempt.staleness)


def test_a_device_counts_once_in_each_buffer() -> None:
    rounds = Rounds(keep_s=100.0, asynchronous=True)
    first, second = AttemptNo(1, 1), AttemptNo(2, 1)
    rounds.open(first, 2)
    told = [rounds.decide(first, lease, device, b"x").outcome for lease, device in ((1, "a"), (2, "a"), (3, "b"))]
    assert told == [Outcome.COUNTED, Outcome.STRAGGLER, Outcome.COUNTED]
    assert rounds.foresee(first, 4, "a") is None  # it waits for the next buffer
    rounds.end(first, Status.CLOSED, now=0.0)
    rounds.open(second, 2)
    assert rounds.decide(first, 4, "a", b"x").outcome is Outcome.COUNTED
