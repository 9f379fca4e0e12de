"""The round machine: one decision per lease, K of them count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_driver.rounds import AttemptNo, Decision, Outcome, Rounds, Status

FIRST, SECOND = AttemptNo(1, 1), AttemptNo(2, 1)


@pytest.fixture
def rounds() -> Rounds:
    machine = Rounds(keep_s=100)
    machine.open(FIRST, needed=2)
    return machine


def outcome(rounds: Rounds, lease: int, no: AttemptNo = FIRST, problem: str = "") -> Outcome:
    return rounds.decide(no, lease, f"device {lease}", b"digest", problem).outcome


def test_the_first_k_distinct_leases_count(rounds: Rounds) -> None:
    assert [outcome(rounds, lease) for lease in (5, 5, 3, 9)] == [
        Outcome.COUNTED,
        Outcome.COUNTED,
        Outcome.COUNTED,
        Outcome.STRAGGLER,
    ]
    attempt = rounds.find(FIRST)
    assert attempt is not None
    assert attempt.counted == [5, 3]
    assert attempt.stragglers == 1


def test_what_does_not_fit_is_rejected_and_takes_no_place(rounds: Rounds) -> None:
    assert outcome(rounds, 1, problem="SIZE: too large") is Outcome.REJECTED
    assert outcome(rounds, 1) is Outcome.REJECTED
    assert [outcome(rounds, lease) for lease in (2, 3)] == [Outcome.COUNTED] * 2


def test_a_lease_that_ended_is_rejected_unless_it_was_decided(rounds: Rounds) -> None:
    outcome(rounds, 1)
    rounds.lease_ended(FIRST, 1, "expired")
    rounds.lease_ended(FIRST, 2, "expired")
    assert outcome(rounds, 1) is Outcome.COUNTED
    assert rounds.decide(FIRST, 2, "two", b"").reason == "LEASE_ENDED: expired"
    rounds.lease_ended(AttemptNo(7, 1), 3, "about an attempt that is not known")


def test_after_its_end_an_attempt_counts_nothing(rounds: Rounds) -> None:
    outcome(rounds, 1)
    assert rounds.end(FIRST, Status.ABORTED, now=1.0)
    assert not rounds.end(FIRST, Status.CLOSED, now=2.0)
    assert outcome(rounds, 2) is Outcome.STRAGGLER
    assert outcome(rounds, 3, problem="whatever its bytes are") is Outcome.STRAGGLER
    assert rounds.find(FIRST).status is Status.ABORTED  # type: ignore[union-attr]


def test_what_is_foreseen_needs_no_bytes(rounds: Rounds) -> None:
    assert rounds.foresee(FIRST, 1, "one") is None
    rounds.lease_ended(FIRST, 1, "lost")
    assert rounds.foresee(FIRST, 1, "one") is Outcome.REJECTED
    outcome(rounds, 2)
    outcome(rounds, 3)
    assert rounds.foresee(FIRST, 4, "one") is Outcome.STRAGGLER


def test_receipts_are_kept_until_the_next_round_closed_and_no_ticket_can_be_valid(rounds: Rounds) -> None:
    outcome(rounds, 1)
    rounds.end(FIRST, Status.CLOSED, now=0.0)
    rounds.open(SECOND, 1)
    rounds.end(SECOND, Status.CLOSED, now=50.0)
    assert rounds.find(FIRST) is not None  # a ticket of it may still be shown
    rounds.open(AttemptNo(3, 1), 1)
    rounds.end(AttemptNo(3, 1), Status.CLOSED, now=120.0)
    assert rounds.find(FIRST) is None
    assert rounds.find(SECOND) is not None


def test_attempts_open_in_order_one_at_a_time(rounds: Rounds) -> None:
    with pytest.raises(ValueError, match="cannot open"):
        rounds.open(SECOND, 1)
    rounds.end(FIRST, Status.ABORTED, now=0.0)
    with pytest.raises(ValueError, match="cannot open"):
        rounds.open(FIRST, 1)
    rounds.open(AttemptNo(1, 2), 1)
    with pytest.raises(ValueError, match="at least one"):
        Rounds(keep_s=1).open(FIRST, 0)


def test_a_decision_that_could_not_be_written_down_is_taken_back(rounds: Rounds) -> None:
    outcome(rounds, 1)
    assert rounds.retract(FIRST, 1, "OUT_OF_SPACE").outcome is Outcome.REJECTED
    assert [outcome(rounds, lease) for lease in (2, 3)] == [Outcome.COUNTED] * 2


def test_a_restored_attempt_goes_on_where_it_was(rounds: Rounds) -> None:
    decisions = Decision(4, Outcome.COUNTED, b"x"), Decision(6, Outcome.REJECTED, b"", "DIGEST")
    rounds.restore(FIRST, [(FIRST, decision, f"device {decision.lease}") for decision in decisions])
    assert [outcome(rounds, lease) for lease in (4, 6, 7, 8)] == [
        Outcome.COUNTED,
        Outcome.REJECTED,
        Outcome.COUNTED,
        Outcome.STRAGGLER,
    ]


def test_a_device_counts_once_in_an_attempt(rounds: Rounds) -> None:
    assert rounds.decide(FIRST, 1, "a", b"").outcome is Outcome.COUNTED
    assert rounds.foresee(FIRST, 2, "a") is Outcome.STRAGGLER
    assert rounds.decide(FIRST, 2, "a", b"") == Decision(2, Outcome.STRAGGLER, b"", "REPEATED")
    assert rounds.foresee(FIRST, 3, "b") is None
    rounds.end(FIRST, Status.ABORTED, now=0)
    retry = AttemptNo(1, 2)
    rounds.open(retry, 2)
    assert rounds.decide(retry, 4, "a", b"").outcome is Outcome.COUNTED


def test_a_job_may_let_it_count_again() -> None:
    rounds = Rounds(keep_s=100, repeat=True)
    rounds.open(FIRST, 2)
    assert [rounds.decide(FIRST, lease, "a", b"").outcome for lease in (1, 2)] == [Outcome.COUNTED] * 2


def test_a_device_whose_decision_was_taken_back_may_count(rounds: Rounds) -> None:
    rounds.decide(FIRST, 1, "a", b"")
    rounds.retract(FIRST, 1, "OUT_OF_SPACE")
    assert rounds.decide(FIRST, 2, "a", b"").outcome is Outcome.COUNTED


def test_a_restored_attempt_knows_its_devices(rounds: Rounds) -> None:
    rounds.restore(FIRST, [(FIRST, Decision(1, Outcome.COUNTED, b""), "a")])
    assert rounds.decide(FIRST, 2, "a", b"").reason == "REPEATED"


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["submit", "bad", "ended"]))))
def test_never_more_than_k_and_each_lease_once(needed: int, script: list[tuple[int, str]]) -> None:
    rounds = Rounds(keep_s=1)
    attempt = rounds.open(FIRST, needed)
    told: dict[int, Outcome] = {}
    for lease, what in script:
        if what == "ended":
            rounds.lease_ended(FIRST, lease, "lost")
            continue
        said = outcome(rounds, lease, problem="" if what == "submit" else "DIGEST")
        assert told.setdefault(lease, said) is said
    counted = [lease for lease, said in told.items() if said is Outcome.COUNTED]
    assert len(counted) <= needed
    assert sorted(counted) == sorted(attempt.counted)
    if Outcome.STRAGGLER in told.values():
        assert len(counted) == needed
