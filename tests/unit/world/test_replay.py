"""What is repeated, and how."""

from collections.abc import Iterator
from itertools import islice, takewhile

import numpy as np
import pytest

from device_agent.sessions import DAY_S, Block
from testbed.world.sessions import PHONES_AVAILABILITY, TICK_S, Replay, numbered, sessions
from venn.wire.errors import UsageError

DEVICES, PERIOD = 300, 2 * DAY_S


def made() -> Iterator[Block]:
    return sessions(PHONES_AVAILABILITY, DEVICES, 3, PERIOD)


def block(*rows: tuple[float, float, int, int]) -> Block:
    start, end, device, number = zip(*rows, strict=True)
    return Block(np.array(start, float), np.array(end, float), np.array(device), np.array(number))


def rows(of: Block) -> list[tuple[float, float, int, int]]:
    return list(zip(of.start_s.tolist(), of.end_s.tolist(), of.device.tolist(), of.number.tolist(), strict=True))


def periods(count: int) -> list[Block]:
    """What begins in each of the first periods."""
    blocks = takewhile(
        lambda block: block.start_s[0] < count * PERIOD, Replay(made, DEVICES, PERIOD, begun_before=True)()
    )
    whole = Block.of(list(blocks))
    period = np.floor(whole.start_s / PERIOD)
    return [whole.rows(np.flatnonzero(period == number)) for number in range(count)]


def test_repeats_shift_exactly_and_number_on() -> None:
    first, *others = periods(4)
    again = first.rows(np.flatnonzero(first.start_s > 0))
    each = np.bincount(again.device, minlength=DEVICES)
    for repeat, other in enumerate(others, start=1):
        np.testing.assert_array_equal(other.start_s - repeat * PERIOD, again.start_s)
        np.testing.assert_array_equal(other.end_s - repeat * PERIOD, again.end_s)
        np.testing.assert_array_equal(other.device, again.device)
        np.testing.assert_array_equal(other.number, again.number + repeat * each[again.device])


def test_sessions_of_a_device_never_overlap_and_are_numbered_without_a_gap() -> None:
    whole = Block.of(periods(3))
    assert (np.diff(whole.start_s) >= 0).all()
    assert (whole.end_s > whole.start_s).all()
    order = np.lexsort((whole.start_s, whole.device))
    same = np.diff(whole.device[order]) == 0
    assert (whole.start_s[order][1:] >= whole.end_s[order][:-1])[same].all()
    assert (np.diff(whole.number[order]) == 1)[same].all()


def test_it_starts_again_from_the_beginning_without_asking_for_the_sessions_again() -> None:
    asked = []

    def once() -> Iterator[Block]:
        asked.append(1)
        return made()

    replay = Replay(once, DEVICES, PERIOD, begun_before=True)
    one, other = (list(islice(replay(), 3)) for _ in range(2))
    assert [rows(each) for each in one] == [rows(each) for each in other]
    assert len(asked) == 1


def test_what_is_under_way_at_the_end_goes_on_until_the_device_comes_again() -> None:
    given = block((0, 3, 0, 5), (0, 50, 1, 9), (4, 12, 0, 6), (9, 30, 2, 1))
    first, second = islice(Replay(lambda: [given], 3, 10.0, begun_before=True)(), 2)
    assert rows(first) == [(0, 3, 0, 5), (0, 10, 1, 9), (4, 12, 0, 6), (9, 19, 2, 1)]
    # Device 1 has no session but the one that had begun before: it is there all the time.
    assert rows(second) == [(10, 20, 1, 10), (14, 22, 0, 7), (19, 29, 2, 2)]


def test_sessions_of_a_file_that_start_at_0_are_repeated() -> None:
    given = block((0, 3, 0, 1), (4, 12, 0, 2), (11, 12, 1, 1))
    first, second = islice(Replay(lambda: [given], 2, 10.0, begun_before=False)(), 2)
    assert rows(first) == [(0, 3, 0, 1), (4, 10, 0, 2)]
    assert rows(second) == [(10, 13, 0, 3), (14, 20, 0, 4)]


def test_times_are_cut_to_ticks_and_no_session_is_lost_by_that() -> None:
    given = block((1 + TICK_S / 3, 1 + TICK_S / 2, 0, 1))
    (first,) = islice(Replay(lambda: [given], 1, 10.0, begun_before=False)(), 1)
    assert rows(first) == [(1, 1 + TICK_S, 0, 1)]


def test_a_period_without_a_session_is_refused() -> None:
    replay = Replay(lambda: [block((11, 12, 0, 1))], 1, 10.0, begun_before=False)
    with pytest.raises(UsageError, match="no session begins in the period"):
        next(replay())


def test_numbers_within_a_device_go_on_over_blocks() -> None:
    seen = np.zeros(3, np.int64)
    assert numbered(np.array([2, 0, 2, 2, 0]), seen).tolist() == [1, 1, 2, 3, 2]
    assert numbered(np.array([0, 1, 2]), seen).tolist() == [3, 1, 4]
    assert numbered(np.array([], np.int64), seen).tolist() == []
    assert seen.tolist() == [3, 1, 4]
