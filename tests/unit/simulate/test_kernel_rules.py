"""The ends of leases, rounds and attempts in the compiled loop."""

import numpy as np

from coordinator.engine.model import StragglerRule
from testbed.simulate.compiled.kernel_lists import ENDS, OPENS, RELEASES
from testbed.simulate.compiled.layout import COUNTED, EXPIRED, LOST, NONE, REVOKED, STRAGGLER
from testbed.simulate.compiled.tables import Tables
from testbed.testing.worlds import job
from tests.unit.simulate.kernels import RULES, lease, small


def ends(t: Tables) -> dict[int, int]:
    """How many leases have ended, by reason."""
    return {reason: int(count) for reason, count in enumerate(t.ends) if count}


def said(t: Tables) -> list[tuple[int, int, int]]:
    return [(int(one.what), int(one.subject), int(one.number)) for one in t.said[: t.run.said]]


def test_a_grant_takes_a_place_and_foresees_the_response() -> None:
    t = small([job("a", 2, compute=30.0)])
    t.run.now = 10.0
    slot, one = lease(t, 0, 5)
    assert (t.jobs[0].placed, t.jobs[0].live, t.run.live, t.run.dirty) == (1, 1, 1, 0)
    assert (t.leases[one].session, t.leases[one].device_no, t.leases[one].granted) == (slot, 5, 10.0)
    assert (t.run.heap, t.heap[0].at, t.heap[0].slot) == (1, 40.0, one)
    assert np.isnan(t.jobs[0].filled)
    t.run.now = 20.0
    lease(t, 0, 6)
    assert (t.jobs[0].filled, t.run.dirty) == (20.0, 1)  # the plan is to be made again without it


def test_no_response_is_foreseen_after_the_end_of_the_session_or_of_the_lease() -> None:
    t = small([job("a", 2, compute=30.0, lease=40.0), job("b", 2, compute=30.0, lease=20.0)])
    lease(t, 0, 5, end=29.0)
    lease(t, 1, 6)
    assert (t.run.heap, t.run.due) == (0, 20.0)


def test_a_response_counts_for_its_open_round_and_takes_the_place_for_good() -> None:
    t = small([job("a", 3)])
    slot, one = lease(t, 0, 5)
    t.run.now = 30.0
    assert RULES.respond(t, one) == slot
    assert ends(t) == {COUNTED: 1}
    assert (t.jobs[0].placed, t.jobs[0].responses, t.jobs[0].live) == (0, 1, 0)
    assert (t.jobs[0].attained, t.jobs[0].counted_s, t.sessions[slot].lease) == (30.0, 30.0, NONE)


def test_a_round_closes_at_its_kth_response_and_a_later_one_is_a_straggler() -> None:
    t = small([job("a", 3, rounds=2, min_response="2/3")])
    one, other, late = (lease(t, 0, device)[1] for device in range(3))
    t.run.now = 30.0
    RULES.respond(t, one)
    assert (t.run.logged, t.jobs[0].open) == (0, 1)
    RULES.respond(t, other)
    assert (t.run.logged, t.jobs[0].open, said(t)) == (1, 0, [(OPENS, 0, 1)])
    assert (t.attempts[0].closed, t.attempts[0].counted, t.attempts[0].ended) == (1, 2, 30.0)
    assert t.jobs[0].useful_s == 60.0
    RULES.open_attempt(t, 0, 1)
    lease(t, 0, 3)
    RULES.respond(t, late)
    assert ends(t) == {COUNTED: 2, STRAGGLER: 1}
    assert (t.jobs[0].responses, t.jobs[0].placed) == (0, 1)  # it is of the round before


def test_the_last_round_ends_the_job() -> None:
    t = small([job("a", 1)])
    RULES.respond(t, lease(t, 0, 5)[1])
    assert said(t) == [(ENDS, 0, 1)]
    RULES.end_job(t, 0, 1)
    assert (t.jobs[0].ended, t.run.unfinished) == (0.0, 0)


def test_a_device_that_leaves_gives_its_place_back_and_its_lease_is_lost_when_that_is_sure() -> None:
    t = small([job("a", 1)])
    slot, one = lease(t, 0, 5)
    t.run.dirty = 0
    RULES.close_session(t, slot)
    assert (t.jobs[0].placed, t.run.dirty, t.run.present) == (0, 1, 0)
    assert (t.devices[5].lease, t.jobs[0].live, ends(t)) == (one, 1, {})  # it may still resume
    RULES.lose_absent(t, one)
    assert (t.devices[5].lease, t.jobs[0].live, ends(t)) == (NONE, 0, {LOST: 1})


def test_a_lease_that_runs_out_gives_its_place_back_and_frees_its_device() -> None:
    t = small([job("a", 2)])
    slot, one = lease(t, 0, 5)
    RULES.expire(t, one)
    assert ends(t) == {EXPIRED: 1}
    assert (t.jobs[0].placed, t.sessions[slot].lease) == (0, NONE)
    assert t.fresh[: t.run.fresh].tolist() == [slot]


def test_a_lease_that_runs_out_without_its_device_is_lost_and_gives_no_second_place_back() -> None:
    t = small([job("a", 2)])
    (slot, one), _ = lease(t, 0, 5), lease(t, 0, 6)
    RULES.close_session(t, slot)
    RULES.expire(t, one)
    assert (ends(t), t.jobs[0].placed) == ({LOST: 1}, 1)


def test_stragglers_are_revoked_when_the_round_closes_where_the_job_says_so() -> None:
    t = small([job("a", 2, rounds=2, min_response="1/2", stragglers=StragglerRule.REVOKE)])
    (_, one), (slot, _) = lease(t, 0, 5), lease(t, 0, 6)
    RULES.respond(t, one)
    assert ends(t) == {COUNTED: 1, REVOKED: 1}
    assert said(t) == [(OPENS, 0, 1), (RELEASES, slot, 2)]


def test_a_deadline_aborts_the_attempt_and_the_next_one_tries_the_same_round() -> None:
    t = small([job("a", 2, deadline=100.0), job("b", 2)])
    (_, one), _, _ = lease(t, 0, 5), lease(t, 0, 6), lease(t, 1, 7)
    assert t.jobs[0].deadline == 100.0
    t.run.now = 30.0
    RULES.respond(t, one)
    t.run.now = 100.0
    RULES.abort(t, 0)
    assert (t.attempts[0].closed, t.attempts[0].counted, t.jobs[0].open) == (0, 1, 0)
    assert (ends(t), t.jobs[0].useful_s, t.jobs[1].live) == ({COUNTED: 1, REVOKED: 1}, 0.0, 1)
    assert said(t)[0] == (OPENS, 0, 0)
    RULES.open_attempt(t, 0, 0)
    assert (t.jobs[0].round_no, t.jobs[0].attempt, t.jobs[0].responses, t.jobs[0].deadline) == (1, 2, 0, 200.0)
