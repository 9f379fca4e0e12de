"""The reference path, on worlds small enough to work by hand."""

import math
from collections import Counter

import numpy as np
import pytest

from coordinator.engine.effects import AdoptPlan, Effect, EndLease, OfferLease
from coordinator.engine.events import AttemptOpened, Event, LeaseAccepted, SessionEnded, TaskFinished, TurnEnded
from coordinator.engine.model import LeaseEnd, SessionEnd, StragglerRule
from coordinator.policies.fifo import Fifo
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import QUANTILES, Outcome, Progress, Simulation, noise_index, noise_table
from testbed.testing.worlds import Session, has, job, world
from testbed.world.arrays import Matching

Told = list[tuple[float, Event, list[Effect]]]


def played(simulation: Simulation) -> tuple[Outcome, Told]:
    """Its outcome and its journal; every invariant is checked after every event."""
    told: Told = []
    outcome = simulate_events(
        simulation,
        Fifo(),
        journal=lambda now, event, effects: told.append((now, event, list(effects))),
        validate=True,
    )
    return outcome, told


def ends(outcome: Outcome) -> dict[LeaseEnd, int]:
    return {reason: count for reason, count in outcome.leases.items() if count}


def offers(told: Told) -> list[tuple[float, str, str]]:
    return [
        (now, effect.device, effect.job)
        for now, _, effects in told
        for effect in effects
        if isinstance(effect, OfferLease)
    ]


def test_two_rounds_by_hand() -> None:
    """Two devices wait from 1 and 2 on; a task takes 3 s: round 1 from 0 to 5, round 2 from 5 to 8."""
    outcome, _ = played(world([job("a", 2, rounds=2, compute=3.0)], [Session(1, 99, 0), Session(2, 99, 1)]))
    assert outcome.ended_s.tolist() == [8.0]
    assert outcome.attempts.opened_s.tolist() == [0.0, 5.0]
    assert outcome.attempts.filled_s.tolist() == [2.0, 5.0]
    assert outcome.attempts.ended_s.tolist() == [5.0, 8.0]
    assert outcome.attempts.round.tolist() == [1, 2]
    assert outcome.attempts.counted.tolist() == [2, 2]
    assert outcome.attempts.closed.all()
    assert ends(outcome) == {LeaseEnd.COUNTED: 4}
    assert outcome.device_s.tolist() == [12.0]
    assert outcome.wasted_device_s.tolist() == [0.0]
    assert (outcome.check_ins, outcome.live, outcome.now_s, outcome.path) == (2, 0, 8.0, "events")


def test_a_device_that_answers_first_gets_the_next_round() -> None:
    """Device 0 answers at 4 and waits: its round closes at 5 by device 1, and both are leased again at 5."""
    _, told = played(world([job("a", 2, rounds=2, compute=3.0)], [Session(1, 99, 0), Session(2, 99, 1)]))
    assert offers(told) == [(1.0, "0", "a"), (2.0, "1", "a"), (5.0, "0", "a"), (5.0, "1", "a")]


def test_a_response_is_recorded_then_followed_up_and_only_then_finished() -> None:
    _, told = played(world([job("a", 1, rounds=2, compute=3.0)], [Session(1, 99, 0)]))
    names = [type(event).__name__ for now, event, _ in told if now == 4.0 and not isinstance(event, TurnEnded)]
    assert names == ["ResponsesRecorded", "AttemptOpened", "TaskFinished", "LeaseAccepted"]


def test_all_that_is_said_at_once_is_one_turn() -> None:
    """The round closes, the next one opens and the device that lags has stopped: then one plan is made."""
    jobs = [job("a", 2, rounds=2, compute=3.0, min_response="0.5", stragglers=StragglerRule.REVOKE)]
    _, told = played(world(jobs, [Session(1, 99, 0), Session(2, 99, 1)]))
    names = [type(event).__name__ for now, event, _ in told if now == 4.0]
    plans = [effect for now, _, effects in told if now == 4.0 for effect in effects if isinstance(effect, AdoptPlan)]
    assert names[:4] == ["ResponsesRecorded", "AttemptOpened", "LeaseReleased", "TurnEnded"]
    assert len(plans) == 2  # and one because the second device fills the next round


def test_a_response_at_its_deadline_counts() -> None:
    """Both tasks are done at the very deadline; so the first response must not let it pass before the second."""
    jobs = [job("a", 1, rounds=2, compute=4.0, deadline=5.0), job("b", 1, compute=4.0, deadline=5.0)]
    outcome, _ = played(world(jobs, [Session(1, 99, 0), Session(1, 99, 1)]))
    assert outcome.attempts.closed.all()
    assert outcome.ended_s.tolist() == [9.0, 5.0]


def test_an_attempt_that_misses_its_deadline_is_opened_again() -> None:
    """One device before 10, two after: the round aborts at 10, its one response is waste, and it closes at 16."""
    sessions = [Session(1, 99, 0), Session(12, 99, 1), Session(13, 99, 2)]
    made = world([job("a", 2, compute=3.0, deadline=10.0)], sessions, tasks_per_session=1)
    outcome, _ = played(made)
    assert outcome.attempts.attempt.tolist() == [1, 2]
    assert outcome.attempts.closed.tolist() == [False, True]
    assert outcome.attempts.opened_s.tolist() == [0.0, 10.0]
    assert outcome.attempts.filled_s.tolist() == [10.0, 13.0]
    assert outcome.ended_s.tolist() == [16.0]
    assert ends(outcome) == {LeaseEnd.COUNTED: 3}
    assert outcome.device_s.tolist() == [9.0]
    assert outcome.wasted_device_s.tolist() == [3.0]


def test_a_revoked_device_is_free_at_once() -> None:
    """Its task would take 30 s: revoked at 10, it is leased to the second attempt at the same instant."""
    outcome, told = played(world([job("a", 1, compute=30.0, deadline=10.0)], [Session(1, 99, 0)], until_s=25.0))
    assert offers(told) == [(1.0, "0", "a"), (10.0, "0", "a"), (20.0, "0", "a")]
    assert ends(outcome) == {LeaseEnd.REVOKED: 2}
    assert (outcome.live, outcome.now_s) == (1, 25.0)
    assert math.isnan(outcome.ended_s[0])
    assert outcome.device_s.tolist() == outcome.wasted_device_s.tolist() == [24.0]


@pytest.mark.parametrize(
    ("rule", "at", "reason"),
    [(StragglerRule.FINISH, 6.0, LeaseEnd.STRAGGLER), (StragglerRule.REVOKE, 4.0, LeaseEnd.REVOKED)],
)
def test_what_is_left_of_a_round_that_closed(rule: StragglerRule, at: float, reason: LeaseEnd) -> None:
    """Round 1 closes at 4 by device 0; device 1 would be done at 6, before round 2 closes at 7."""
    sessions = [Session(1, 99, 0), Session(1, 99, 1, slow=5 / 3)]
    made = world([job("a", 2, rounds=2, min_response="1/2", compute=3.0, stragglers=rule)], sessions)
    outcome, told = played(made)
    assert [now for now, _, effects in told for one in effects if isinstance(one, EndLease) and one.lease == 2] == [at]
    assert outcome.leases[reason] >= 1
    assert outcome.leases[LeaseEnd.COUNTED] == 2
    assert outcome.ended_s.tolist() == [7.0]


def test_over_commitment_leases_more_than_it_needs() -> None:
    """C = 3, K = 2: the round closes at the second response, and the third lease of the last round is revoked."""
    sessions = [Session(1, 99, device, slow=device + 1.0) for device in range(4)]
    outcome, told = played(world([job("a", 2, over_commit="1/2", compute=1.0)], sessions))
    assert len(offers(told)) == 3
    assert outcome.ended_s.tolist() == [3.0]
    assert ends(outcome) == {LeaseEnd.COUNTED: 2, LeaseEnd.REVOKED: 1}
    assert outcome.attempts.filled_s.tolist() == [1.0]


@pytest.mark.parametrize(
    ("crash", "reason"), [(False, SessionEnd.GOODBYE_SESSION_OVER), (True, SessionEnd.CONNECTION_ENDED)]
)
def test_a_session_that_ends_in_mid_task_gives_its_place_back(crash: bool, reason: SessionEnd) -> None:
    """Device 0 leaves at 3; device 1 takes its place at 4; device 0 returns at 5, without its lease, which is lost."""
    sessions = [Session(1, 3, 0, crash=crash), Session(4, 99, 1), Session(5, 99, 0)]
    outcome, told = played(world([job("a", 1, compute=10.0)], sessions))
    assert [event.reason for _, event, _ in told if isinstance(event, SessionEnded)] == [reason]
    lost = [now for now, _, effects in told for one in effects if isinstance(one, EndLease) and one.reason == "lost"]
    assert lost == [5.0]
    assert outcome.ended_s.tolist() == [14.0]
    assert outcome.wasted_device_s.tolist() == [4.0]


def test_a_lease_of_a_device_that_never_returns_expires() -> None:
    sessions = [Session(1, 3, 0), Session(4, 99, 1)]
    outcome, told = played(world([job("a", 1, compute=10.0, lease=11.0)], sessions))
    lost = [now for now, _, effects in told for one in effects if isinstance(one, EndLease) and one.reason == "lost"]
    assert lost == [12.0]
    assert ends(outcome) == {LeaseEnd.LOST: 1, LeaseEnd.COUNTED: 1}
    assert outcome.ended_s.tolist() == [14.0]


def test_a_lease_that_outlives_its_expiry_frees_its_device() -> None:
    """The task takes 10 s and a lease 4: the device gives up at 5, is leased again, and then cools each time."""
    outcome, told = played(world([job("a", 1, compute=10.0, lease=4.0)], [Session(1, 107, 0)]))
    assert offers(told) == [(1.0, "0", "a"), (5.0, "0", "a"), (39.0, "0", "a"), (103.0, "0", "a")]
    assert ends(outcome) == {LeaseEnd.EXPIRED: 4}
    assert (outcome.live, outcome.now_s) == (0, 107.0)


def test_the_order_at_one_instant() -> None:
    """At 5: a response, then a session's end, then an arrival, then a check-in."""
    jobs = [job("a", 1, compute=4.0), job("b", 1, arrives=5.0, compute=4.0)]
    sessions = [Session(1, 9, 0), Session(2, 5, 1), Session(5, 99, 2)]
    _, told = played(world(jobs, sessions))
    names = [type(event).__name__ for now, event, _ in told if now == 5.0 and not isinstance(event, TurnEnded)]
    assert names == [
        "ResponsesRecorded",
        "JobEnded",
        "TaskFinished",
        "SessionEnded",
        "JobSubmitted",
        "DriverFollowed",
        "AttemptOpened",
        "LeaseAccepted",
        "DeviceCheckedIn",
    ]


def test_responses_at_one_instant_go_by_lease() -> None:
    """Device 0 is leased first and both are done at 4: its response is the one that counts."""
    sessions = [Session(1, 99, 0, slow=3.0), Session(2, 99, 1, slow=2.0)]
    _, told = played(world([job("a", 2, rounds=2, min_response="1/2", compute=1.0)], sessions))
    finished = [(event.lease, event.outcome.value) for _, event, _ in told if isinstance(event, TaskFinished)]
    assert finished[:2] == [(1, "counted"), (2, "straggler")]


def test_matched_at_check_in_a_device_leaves_if_nothing_is_given_to_it() -> None:
    """Device 0 comes before the job and is gone; device 1 is leased, and leaves after its task."""
    sessions = [Session(1, 99, 0), Session(3, 99, 1)]
    made = world([job("a", 1, rounds=2, arrives=2.0, compute=4.0)], sessions, matching=Matching.AT_CHECK_IN)
    outcome, told = played(made)
    left = [(now, event.session, event.reason.value) for now, event, _ in told if isinstance(event, SessionEnded)]
    assert left == [(1.0, 1, "goodbye_session_over"), (7.0, 2, "goodbye_told_to")]
    assert offers(told) == [(3.0, "1", "a")]
    assert (outcome.now_s, outcome.live) == (7.0, 0)


def test_limits() -> None:
    """One task per session and two per day: the third session of the day is sent away, the next day's is not."""
    sessions = [Session(at, at + 50, 0) for at in (0, 100, 200, 86_400)]
    made = world([job("a", 1, rounds=9, compute=4.0)], sessions, tasks_per_session=1, tasks_per_day=2)
    _, told = played(made)
    assert [now for now, _, _ in offers(told)] == [0.0, 100.0, 86_400.0]


def test_limits_by_kind() -> None:
    """Devices of kind 0 take one task in a session, those of kind 1 as many as there are."""
    sessions = [Session(0, 50, 0, kind=0), Session(0, 50, 1, kind=1)]
    made = world([job("a", 2, rounds=3, compute=4.0)], sessions, kinds=[has(""), has("a")], limits=((1, 0), (0, 0)))
    _, told = played(made)
    assert [(now, device) for now, device, _ in offers(told)][:3] == [(0.0, "0"), (0.0, "1"), (4.0, "1")]


def test_transfers_and_noise_make_a_task_longer() -> None:
    """(2 s x 1.5 + 400 bytes x 0.01 s) x the factor of lease 1."""
    made = world(
        [job("a", 1, compute=2.0, down=300, up=100)], [Session(1, 99, 0, slow=1.5, byte_s=0.01)], noise_sigma=0.5
    )
    outcome, _ = played(made)
    factor = float(noise_table(0.5)[noise_index(made.settings.seed, 1)])
    assert factor != 1.0
    assert outcome.ended_s.tolist() == [1.0 + (2.0 * 1.5 + 400.0 * 0.01) * factor]


def test_noise_is_log_normal() -> None:
    table = noise_table(0.5)
    assert len(table) == QUANTILES
    assert np.median(table) == pytest.approx(1.0, rel=1e-3)
    assert np.log(table).std() == pytest.approx(0.5, rel=1e-2)
    drawn = Counter(noise_index(7, lease) * 8 // QUANTILES for lease in range(8000))
    assert all(abs(drawn[eighth] - 1000) < 120 for eighth in range(8))


def test_unknown_rounds_are_not_told() -> None:
    _, told = played(world([job("a", 1, rounds=2, known=False)], [Session(1, 99, 0)]))
    opened = [(event.round, event.rounds_left) for _, event, _ in told if isinstance(event, AttemptOpened)]
    assert opened == [(1, None), (2, None)]


def test_it_ends_when_nobody_can_come_any_more() -> None:
    """The last session ends at 9; the round would be opened again and again for ever."""
    outcome, _ = played(world([job("a", 2, compute=3.0, deadline=2.0)], [Session(1, 9, 0)]))
    assert outcome.now_s == 9.0
    assert np.isnan(outcome.ended_s).all()
    assert outcome.attempts.closed.tolist() == [False] * 4


def test_a_job_that_never_arrives_in_time() -> None:
    outcome, _ = played(world([job("a", 1), job("b", 1, arrives=50.0)], [Session(1, 99, 0)], until_s=40.0))
    assert outcome.ended_s[0] == 1.0
    assert math.isnan(outcome.ended_s[1])
    assert (outcome.now_s, outcome.device_s.tolist()) == (40.0, [0.0, 0.0])


def test_blocks_do_not_matter() -> None:
    sessions = [Session(float(at), at + 7.0, at % 5, slow=1.0 + at % 3) for at in range(0, 60, 2)]
    jobs = [job("a", 3, rounds=3, compute=2.0), job("b", 2, rounds=4, arrives=3.0, compute=1.0)]
    digests = {simulate_events(world(jobs, sessions, blocks=count), Fifo()).digest for count in (1, 4, 40)}
    assert len(digests) == 1


def test_a_watch_is_told_and_can_stop_it() -> None:
    seen: list[Progress] = []

    def stop(progress: Progress) -> bool:
        seen.append(progress)
        return False

    sessions = [Session(float(at), at + 0.5, at) for at in range(2000)]
    outcome = simulate_events(world([job("a", 9999)], sessions, matching=Matching.AT_CHECK_IN), Fifo(), watch=stop)
    assert len(seen) == 1
    assert seen[0].jobs_ended == 0
    assert outcome.check_ins == seen[0].check_ins < 2000


def test_names_of_devices() -> None:
    _, told = played(world([job("a", 1)], [Session(1, 99, 0)], names=("budget-01",)))
    assert offers(told) == [(1.0, "budget-01", "a")]
    accepted = [event for _, event, _ in told if isinstance(event, LeaseAccepted)]
    assert len(accepted) == 1
