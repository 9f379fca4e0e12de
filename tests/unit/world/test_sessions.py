"""Sessions of many devices: in order, never two of one device at a time, by day and by night."""

import numpy as np
import pytest

from device_agent.sessions import DAY_S, Availability, Block, Day
from testbed.world import sessions as module
from testbed.world.sessions import PHONE_SESSIONS_PER_S, PHONES_AVAILABILITY, sessions
from venn.wire.chance import Purpose, at, uniform
from venn.wire.notation import parse_distribution

HOUR = 3600.0
QUICK = Availability(parse_distribution("exp(10m)"), parse_distribution("exp(20m)"), Day(3.0, 2 * HOUR))


def all_of(availability: Availability, devices: int, until_s: float, seed: int = 1) -> Block:
    return Block.of(list(sessions(availability, devices, seed, until_s)))


@pytest.mark.parametrize("text", ["8s", "1s..4s", "exp(8s)", "lognormal(8s; 0.5)"])
def test_lengths_follow_the_notation(text: str) -> None:
    distribution = parse_distribution(text)
    parts = uniform(1, Purpose.PHASE, np.arange(100_000))
    values = at(distribution, parts)
    assert values.mean() == pytest.approx(distribution.mean, rel=0.01)
    assert (np.diff(at(distribution, np.array([0.1, 0.5, 0.9]))) >= 0).all()


def test_lengths_of_a_column(tmp_path: pytest.TempPathFactory) -> None:
    (tmp_path / "times.csv").write_text("s\n3\n1\n2\n")  # type: ignore[operator]
    column = parse_distribution(f"{tmp_path}/times.csv:s")
    assert at(column, np.array([0.01, 0.34, 0.67, 0.99])).tolist() == [1, 2, 3, 3]


@pytest.mark.parametrize("swing", [1.0, 1.5, 3.0, 20.0])
def test_a_gap_is_over_when_it_has_passed(swing: float) -> None:
    day = Day(swing, 2 * HOUR)
    rng = np.random.default_rng(1)
    began, gap = rng.uniform(-DAY_S, 3 * DAY_S, 10_000), rng.exponential(2 * HOUR, 10_000)
    over = day.after(began, gap)
    assert (over >= began).all()
    assert day.passed(over) - day.passed(began) == pytest.approx(gap, abs=1e-6)


def test_a_day_has_its_swing_and_its_peak_and_is_one_on_average() -> None:
    day, times = Day(3.0, 2 * HOUR), np.arange(0, DAY_S, 60.0)
    pace = day.pace(times)
    assert pace.max() / pace.min() == pytest.approx(3.0)
    assert times[pace.argmax()] == 2 * HOUR
    assert pace.mean() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="a swing of"):
        Day(0.5)


def test_sessions_come_in_order_and_never_overlap() -> None:
    found = all_of(QUICK, 50, 3 * DAY_S)
    assert (np.diff(found.start_s) >= 0).all()
    assert (found.end_s > found.start_s).all()
    assert 0 == found.start_s[0] <= found.start_s[-1] < 3 * DAY_S
    for device in range(50):
        mine = found.rows(np.flatnonzero(found.device == device))
        assert (mine.start_s[1:] >= mine.end_s[:-1]).all()
        assert (np.diff(mine.number) == 1).all()


def test_blocks_are_small_and_together_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = all_of(QUICK, 50, DAY_S)
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    blocks = list(sessions(QUICK, 50, 1, DAY_S))
    assert len(blocks) > 10
    assert max(map(len, blocks)) <= 100
    together = Block.of(blocks)
    for column in Block.__slots__:
        assert getattr(together, column).tolist() == getattr(whole, column).tolist()


def test_a_device_comes_whenever_it_comes_whoever_else_there_is() -> None:
    few, many = all_of(QUICK, 5, DAY_S), all_of(QUICK, 50, DAY_S)
    mine = many.rows(np.flatnonzero(many.device < 5))
    assert few.start_s.tolist() == mine.start_s.tolist()
    assert few.end_s.tolist() == mine.end_s.tolist()
    assert all_of(QUICK, 5, DAY_S, seed=2).start_s.tolist() != few.start_s.tolist()


def test_the_population_is_in_its_steady_state_at_0() -> None:
    """A third of the cycle is session: without day and night, so many are there, at 0 as later."""
    level = Availability(QUICK.session, QUICK.gap)
    found = all_of(level, 20_000, 2 * HOUR)
    there = [((found.start_s <= time) & (found.end_s > time)).sum() / 20_000 for time in np.arange(0, 2 * HOUR, 600.0)]
    assert there[0] == pytest.approx(1 / 3, abs=0.015)
    assert np.mean(there) == pytest.approx(1 / 3, abs=0.01)


def test_the_phones_check_in_as_often_as_those_of_the_trace() -> None:
    """About 7 million sessions in 5 days, here for a hundredth of the phones; day and night cost 1 or 2 %."""
    devices = PHONES_AVAILABILITY.devices_for(PHONE_SESSIONS_PER_S) // 100
    found = all_of(PHONES_AVAILABILITY, devices, 5 * DAY_S)
    assert len(found) * 100 == pytest.approx(7e6, rel=0.03)
    hours = np.bincount((found.start_s[found.start_s > 0] % DAY_S // HOUR).astype(int))
    assert 2.2 < hours[:5].mean() / hours[12:17].mean() < 3.0
