"""The bucket of a link and its delay, on times that the tests choose."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.world.links import BURST_S, LEAST_CHUNK, MOST_CHUNK, PACKET, STALL_S, Delay, Pacer


def test_bytes_leave_at_the_rate() -> None:
    pacer = Pacer(1e6)
    left = [pacer.book(12_500, 0.0) for _ in range(10)]  # a tenth of a second each
    assert left[-1] == pytest.approx(1.0 - BURST_S)
    assert left == sorted(left)


def test_a_link_that_was_idle_gives_a_burst_and_no_more() -> None:
    pacer = Pacer(1e6)
    pacer.book(1_250, 0.0)
    assert pacer.book(1_250, 100.0) == pytest.approx(100.0)  # ten milliseconds of the rate
    assert pacer.book(1_250, 100.0) == pytest.approx(100.0 + BURST_S)


def test_without_a_limit_all_leaves_at_once() -> None:
    pacer = Pacer(None)
    assert pacer.book(10**9, 3.0) == 3.0
    assert pacer.chunk == MOST_CHUNK


@pytest.mark.parametrize(("rate", "chunk"), [(1e3, LEAST_CHUNK), (5e6, 6250), (1e9, MOST_CHUNK)])
def test_a_chunk_passes_in_a_burst(rate: float, chunk: int) -> None:
    assert Pacer(rate).chunk == chunk


@given(st.lists(st.tuples(st.integers(1, 65_536), st.floats(0, 0.5)), min_size=1, max_size=60), st.floats(1e5, 1e8))
def test_whatever_comes_no_more_than_the_rate_and_a_burst_passes(sends: list[tuple[int, float]], rate: float) -> None:
    pacer, now, sent = Pacer(rate), 0.0, 0
    for size, gap in sends:
        now += gap
        sent += size
        left = pacer.book(size, now)
        assert left >= now
        assert sent * 8 <= rate * (left + BURST_S) * (1 + 1e-9)


def test_a_way_has_half_of_a_round_trips_delay() -> None:
    delay = Delay(0.1, 0.0, random.Random(1))
    assert delay.arrival(1, 2.0, 0.0) == pytest.approx(2.05)


@given(st.integers(0, 2**32), st.floats(0, 0.5))
def test_jitter_stays_in_its_bounds_and_nothing_overtakes(seed: int, jitter: float) -> None:
    delay, before = Delay(0.5, jitter, random.Random(seed)), 0.0
    for number in range(50):
        left = number * 0.01
        arrives = delay.arrival(1, left, before)
        assert arrives >= before
        assert arrives >= left + 0.25 - jitter / 2 - 1e-9
        assert arrives <= max(before, left + 0.25 + jitter / 2 + 1e-9)
        before = arrives


def test_a_stall_holds_all_up_for_a_timeout_and_is_as_frequent_as_the_loss_of_its_packets() -> None:
    delay = Delay(0.1, 0.0, random.Random(1), stall=0.02)
    late = [delay.arrival(5 * PACKET, 0.0, 0.0) - 0.05 for _ in range(10_000)]
    assert {round(each, 6) for each in late} == {0.0, round(STALL_S + 0.1, 6)}
    assert sum(each > 0 for each in late) / len(late) == pytest.approx(1 - 0.98**5, abs=0.01)


def test_other_limits_hold_from_then_on() -> None:
    delay = Delay(0.1, 0.0, random.Random(1))
    delay.set(0.3, 0.1, 0.0)
    assert delay.of_both_ways == pytest.approx({"delay_s": 0.3, "jitter_s": 0.1, "stall": 0.0})
    assert delay.arrival(1, 2.0, 2.5) == 2.5
