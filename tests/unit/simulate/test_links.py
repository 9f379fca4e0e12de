"""Links in virtual time, held against cases worked by hand."""

from itertools import repeat

import pytest

from coordinator.engine.effects import Effect, OfferLease
from coordinator.engine.events import Event, TaskFinished
from coordinator.engine.model import LeaseEnd, Workload
from coordinator.policies.fifo import Fifo
from testbed.scenario.loader import parse
from testbed.simulate.build import build
from testbed.simulate.compiled.bulk import why_not
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Outcome
from testbed.simulate.run import simulate
from testbed.world.limits import Limits
from testbed.world.links import (
    CONNECT,
    FETCH_CODE,
    FRAMES,
    Message,
    Part,
    Way,
    arrival,
    chances,
    free_at,
    link_schedule,
    task_end,
    tcp_rate,
)

ONE = """
version: 1
name: one
backend: sim
duration: 10m
jobs:
  only: {demand: 1, rounds: 2, deadline: 5m, workload: {compute: 4s, download: 999940 B, upload: 499940 B}}
fleets:
  phones: {count: 1, cpu: 2}
"""


def run(*changes: tuple[str, str], told: list[tuple[float, Event, list[Effect]]] | None = None) -> Outcome:
    text = ONE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    journal = None if told is None else lambda now, event, effects: told.append((now, event, list(effects)))
    return simulate_events(build(parse(text)), Fifo(), journal=journal, validate=True)


def linked(**limits: float) -> Limits:
    return Limits(**limits)  # type: ignore[arg-type]


# -- one message


def test_a_change_in_mid_transfer_counts_from_its_moment() -> None:
    link = link_schedule(linked(up_bits=8000.0), [(2.0, 4.0, linked(up_bits=800.0))])
    assert link.left(Message(Way.UP, 2000), 0.0) == 2.0
    assert link.left(Message(Way.UP, 2100), 0.0) == 3.0  # 100 bytes more at 100 bytes/s
    assert link.left(Message(Way.UP, 3200), 0.0) == 5.0  # 2,000, 200 and 1,000
    assert link.left(Message(Way.UP, 1000), 4.0) == 5.0
    assert link.left(Message(Way.DOWN, 10**9), 3.0) == 3.0


def test_one_change_right_behind_another() -> None:
    link = link_schedule(Limits(), [(1.0, 2.0, linked(delay_s=0.2)), (2.0, 3.0, linked(delay_s=0.4))])
    assert [link.at(when).delay_s for when in (0.9, 1.0, 1.9, 2.0, 2.9, 3.0)] == [0.0, 0.2, 0.2, 0.4, 0.4, 0.0]


def test_half_a_delay_each_way_as_it_is_when_the_last_byte_leaves() -> None:
    link = link_schedule(linked(up_bits=8000.0, delay_s=0.2), [(1.0, 9.0, linked(up_bits=8000.0, delay_s=2.0))])
    assert arrival(link, (Message(Way.UP, 500),), 0.0, repeat(0.5)) == pytest.approx(0.6)
    assert arrival(link, (Message(Way.UP, 1500),), 0.0, repeat(0.5)) == pytest.approx(2.5)


@pytest.mark.parametrize(("chance", "took"), [(0.0, 0.07), (0.5, 0.1), (1.0 - 2**-53, 0.13)])
def test_jitter_scatters_evenly(chance: float, took: float) -> None:
    link = link_schedule(linked(delay_s=0.2, jitter_s=0.06), ())
    assert arrival(link, (Message(Way.DOWN, 9),), 0.0, repeat(chance)) == pytest.approx(took)


# -- loss


def test_the_rate_of_tcp_where_packets_are_lost() -> None:
    """RFC 5348, 3.1, by hand: 0.1 x sqrt(0.02/3) + 0.3 x 3 x sqrt(0.03/8) x 0.01 x 1.0032 = 0.0087179 s a packet."""
    assert tcp_rate(0.01, 0.1) == pytest.approx(1448 / 0.0087179, rel=1e-4)


def test_loss_holds_a_fast_link_back_and_a_slow_one_hardly() -> None:
    big = Message(Way.UP, 10**6)
    fast, lossy = (link_schedule(linked(up_bits=1e8, delay_s=0.1, loss=loss), ()) for loss in (0.0, 0.01))
    assert lossy.left(big, 0.0) > 10 * fast.left(big, 0.0)
    slow = [link_schedule(linked(up_bits=1e5, delay_s=0.1, loss=loss), ()).left(big, 0.0) for loss in (0.0, 0.01)]
    assert slow[0] == slow[1]


def test_a_message_that_is_lost_comes_a_retransmission_timeout_later() -> None:
    """A quarter gets lost: of 0.9 of the chances two in a row do not, 0.25^2 < 0.1 < 0.25."""
    link = link_schedule(linked(delay_s=0.4, loss=0.25), ())
    message = (Message(Way.UP, 0),)
    assert arrival(link, message, 0.0, iter((0.5, 0.5))) == pytest.approx(0.2)
    assert arrival(link, message, 0.0, iter((0.5, 0.9))) == pytest.approx(0.2 + 0.6)
    assert arrival(link, message, 0.0, iter((0.5, 0.99))) == pytest.approx(0.2 + 3 * 0.6)


# -- a task


@pytest.mark.parametrize(("upload_bytes", "trips"), [(0, 2), (64 * 1024, 2), (64 * 1024 + 1, 3)])
def test_round_trips_of_a_task(upload_bytes: int, trips: int) -> None:
    """To the response two, or three if it is large, one more to be free; half a one and a whole one at first."""
    link, work = link_schedule(linked(delay_s=0.2), ()), Workload(upload_bytes=upload_bytes)
    took = [
        task_end(link, 0.0, work, 1.0, first=first, chance=repeat(0.5))
        for first in ((), CONNECT, FETCH_CODE, CONNECT + FETCH_CODE)
    ]
    assert took == pytest.approx([1 + (trips + more) * 0.2 for more in (0, 0.5, 1, 1.5)])
    assert free_at(link, 5.0, repeat(0.5)) == pytest.approx(5.2)


def test_chances_are_those_of_the_lease() -> None:
    first, again, other, receipt = (
        [next(found) for _ in range(9)]
        for found in (
            chances(1, 7, Part.TASK),
            chances(1, 7, Part.TASK),
            chances(1, 8, Part.TASK),
            chances(1, 7, Part.RECEIPT),
        )
    )
    assert first == again
    assert len({*first, *other, *receipt}) == 27


# -- a scenario


def test_bytes_cost_nothing_where_no_link_is_limited() -> None:
    outcome = run()
    assert outcome.ended_s.tolist() == [4.0]
    assert outcome.digest == run((", download: 999940 B, upload: 499940 B", "")).digest
    assert build(parse(ONE)).links == ()


def test_what_a_link_makes_of_a_task() -> None:
    """Down 8 s, computing 2 s, up 4 s; so few bytes a second say that the protocol's own hardly count."""
    outcome = run(("cpu: 2", "cpu: 2, up: 1 Mbit/s, down: 1 Mbit/s"))
    protocol_s = ((370 + 260 + 200 + 50) * 2 + (40 + 260 + 70) + (150 + 140)) * 8 / 1e6
    assert 999_940 + FRAMES == 10**6
    assert outcome.ended_s.tolist() == pytest.approx([2 * 14.0 + protocol_s])


def test_it_is_told_that_a_task_is_finished_when_the_receipt_has_gone_there_and_back() -> None:
    told: list[tuple[float, Event, list[Effect]]] = []
    outcome = run(("cpu: 2", "cpu: 2, delay: 1s"), told=told)
    assert [now for now, event, _ in told if isinstance(event, TaskFinished)] == pytest.approx([7.5])
    offers = [now for now, _, effects in told for each in effects if isinstance(each, OfferLease)]
    assert offers == pytest.approx([0.0, 7.5])  # 2 s and 4.5 round trips, and one until it is free
    assert outcome.ended_s.tolist() == pytest.approx([12.5])  # 2 s and 3


def test_a_limit_of_the_timeline_is_played_and_what_it_does_not_say_stays() -> None:
    """The second download begins at 14 s: from 18 s to 26 s it gets an eighth."""
    churn = "churn: [{at: 18s, limit: all, down: 125 kbit/s, for: 8s}]\n"
    plain = run(("cpu: 2", "cpu: 2, up: 1 Mbit/s, down: 1 Mbit/s")).ended_s[0]
    slower = run(("cpu: 2", "cpu: 2, up: 1 Mbit/s, down: 1 Mbit/s"), ("fleets:", f"{churn}fleets:")).ended_s[0]
    assert slower - plain == pytest.approx(7.0, abs=0.01)  # what takes a second at full speed takes those eight


def test_devices_whose_links_are_not_limited_are_as_before() -> None:
    """With a limited device beside them, and one whose link the timeline alone limits, later than the job lasts."""
    two = "slow: {count: 1, cpu: 1, up: 1 kbit/s}\n"
    churn = "churn: [{at: 5m, limit: phones, up: 1 kbit/s, for: 1m}]\n"
    outcome = run(("fleets:\n", f"{churn}fleets:\n  {two}"), ("demand: 1", "demand: 2, min_response: 50%"))
    assert outcome.ended_s.tolist() == [4.0]
    assert outcome.leases[LeaseEnd.COUNTED] == 2
    links = build(parse(ONE.replace("fleets:\n", f"fleets:\n  {two}"))).links
    assert [link is not None for link in links] == [True, False]


def test_a_device_that_crashed_fetches_the_code_again_and_one_that_left_only_connects() -> None:
    """Compute 2 s and a round trip of 1 s; the second task begins at 8 s, in the second session."""
    ends = {}
    for verb in ("leave", "crash"):
        churn = f"churn: [{{at: 7s, {verb}: all, for: 1s}}]\n"
        ends[verb] = run(("cpu: 2", "cpu: 2, delay: 1s"), ("fleets:", f"{churn}fleets:")).ended_s[0]
    assert ends == pytest.approx({"leave": 8 + 2 + 3.5, "crash": 8 + 2 + 4.5})


def test_event_by_event_with_links_and_in_bulk_without() -> None:
    made = build(parse(ONE.replace("cpu: 2", "cpu: 2, link: 3g")))
    assert why_not(made) == "links are modelled"
    assert (simulate(made, Fifo()).path, simulate(made, Fifo()).why) == ("events", "links are modelled")
    assert why_not(build(parse(ONE))) == ""


def test_links_of_a_population_take_their_seconds_for_each_byte_in_bulk_too() -> None:
    text = "version: 1\nname: many\nbackend: sim\npopulation: {count: 300}\n"
    text += "jobs: {a: {demand: 20, rounds: 5, deadline: 1h, workload: {compute: 30s}}}\n"
    text += "drawn_jobs: {count: 2, arrives: exp(1m), table: paper, which: small, compute: 9s, repeat: allow}\n"
    text += "rounds_scale: 0.01\nscale: 0.1\n"
    with_bytes = text.replace("30s", "30s, download: 20 MB, upload: 5 MB").replace("9s", "9s, upload: 3 MB")
    plain, slower = (build(parse(each)) for each in (text, with_bytes))
    assert why_not(slower) == ""
    assert [job.spec.workload.upload_bytes for job in slower.jobs] == [5_000_000, 3_000_000, 3_000_000]
    outcome = simulate(slower, Fifo())
    assert outcome.digest == simulate_events(slower, Fifo()).digest != simulate_events(plain, Fifo()).digest
    assert outcome.device_s.sum() > simulate(plain, Fifo()).device_s.sum()
