"""Whatever sessions are repeated, and however they are read: in order, never two of a device at once, exactly again."""

from collections.abc import Iterator
from itertools import takewhile

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.sessions import Availability, Block, Day
from testbed.world.sessions import Replay, numbered, sessions
from venn.wire.errors import UsageError
from venn.wire.notation import Constant, Exponential, Uniform

DEVICES = 4
lengths = st.sampled_from(
    [Constant(1200.0, "duration"), Exponential(2700.0, "duration"), Uniform(15.0, 12_000.0, "duration")]
)  # fmt: skip
times = st.floats(0.01, 50.0, allow_nan=False)


@st.composite
def listed(draw: st.DrawFn) -> Block:
    """Sessions of a file: sorted, those of a device one after the other."""
    free = [0.0] * DEVICES
    rows = []
    for device, gap, length in draw(st.lists(st.tuples(st.integers(0, DEVICES - 1), st.just(0.0) | times, times))):
        start = free[device] + gap
        free[device] = start + length
        rows.append((start, start + length, device))
    rows.sort()
    start, end, device = (np.array([row[place] for row in rows]) for place in range(3))
    number = device.astype(np.int64)
    return Block(start.astype(float), end.astype(float), number, numbered(number, np.zeros(DEVICES, np.int64)))


def in_parts(block: Block, size: int) -> Iterator[Block]:
    for first in range(0, len(block), size):
        yield block.rows(slice(first, first + size))


def until(replay: Replay, end_s: float) -> Block:
    return Block.of(list(takewhile(lambda block: block.start_s[0] < end_s, replay())))


def check(whole: Block) -> None:
    assert (np.diff(whole.start_s) >= 0).all()
    assert (whole.end_s > whole.start_s).all()
    order = np.lexsort((np.arange(len(whole)), whole.device))
    same = np.diff(whole.device[order]) == 0
    assert (whole.start_s[order][1:] >= whole.end_s[order][:-1])[same].all()
    assert (np.diff(whole.number[order]) == 1)[same].all()


@given(listed(), st.floats(0.5, 200.0), st.integers(1, 9))
def test_sessions_of_a_file(block: Block, period_s: float, size: int) -> None:
    replay = Replay(lambda: in_parts(block, size), DEVICES, period_s, begun_before=False)
    kept = int(np.searchsorted(block.start_s, replay.period_s))
    if not kept:
        return
    whole = until(replay, 4 * replay.period_s)
    check(whole)
    assert len(whole) >= 4 * kept
    for repeat in range(1, 4):
        here = slice(repeat * kept, (repeat + 1) * kept)
        np.testing.assert_array_equal(whole.start_s[here] - repeat * replay.period_s, whole.start_s[:kept])
        np.testing.assert_array_equal(whole.end_s[here] - repeat * replay.period_s, whole.end_s[:kept])
        np.testing.assert_array_equal(whole.device[here], whole.device[:kept])


@settings(max_examples=40)  # a day before time 0 is generated each time
@given(lengths, lengths, st.floats(1.0, 8.0), st.floats(3000.0, 150_000.0), st.integers(0, 9))
def test_generated_sessions(session: Constant, gap: Constant, swing: float, period_s: float, seed: int) -> None:
    about = Availability(session, gap, Day(swing, 3600.0))
    replay = Replay(lambda: sessions(about, DEVICES, seed, period_s), DEVICES, period_s, begun_before=True)
    try:
        one, other = (until(replay, 3 * period_s) for _ in range(2))
    except UsageError:  # all are away for so long
        assert not any(len(block) for block in sessions(about, DEVICES, seed, period_s))
        return
    check(one)
    for name in Block.__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
