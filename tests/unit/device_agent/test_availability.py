"""Intervals: reproducible, stationary, numbered; traces that are refused say where."""

import itertools
import math
from pathlib import Path

import pytest

from device_agent.spec import Ending, Interval, always, generated, read_trace, traced, upcoming
from venn.wire.errors import UsageError
from venn.wire.notation import Distribution, parse_distribution


def play(device: str, session: str, gap: str, count: int, *, seed: int = 7, crash: float = 0.3) -> list[Interval]:
    intervals = generated(seed, device, parse_distribution(session), parse_distribution(gap), crash)
    return list(itertools.islice(intervals, count))


def test_the_same_seed_and_device_give_the_same_intervals() -> None:
    assert play("a", "exp(8s)", "exp(4s)", 50) == play("a", "exp(8s)", "exp(4s)", 50)
    assert play("a", "exp(8s)", "exp(4s)", 50) != play("b", "exp(8s)", "exp(4s)", 50)
    assert play("a", "exp(8s)", "exp(4s)", 50) != play("a", "exp(8s)", "exp(4s)", 50, seed=8)


def test_intervals_are_numbered_apart_and_ahead_of_zero() -> None:
    intervals = play("a", "lognormal(8s; 1.0)", "1s..4s", 100)
    assert [interval.number for interval in intervals] == list(range(1, 101))
    assert all(interval.start_s >= 0 and interval.end_s > interval.start_s for interval in intervals)
    assert all(1 <= b.start_s - a.end_s <= 4 + 1e-9 for a, b in itertools.pairwise(intervals))


@pytest.mark.parametrize(("session", "gap"), [("exp(8s)", "exp(4s)"), ("8s", "4s"), ("lognormal(8s; 0.5)", "4s")])
def test_the_start_is_stationary(session: str, gap: str) -> None:
    """At time 0 as many devices are there as at any other time."""
    mean = parse_distribution(session).mean
    share = mean / (mean + parse_distribution(gap).mean)
    devices = [play(f"d{number}", session, gap, 1)[0] for number in range(600)]
    there = sum(interval.start_s == 0 for interval in devices) / len(devices)
    assert there == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / len(devices)))


def test_crashes_have_their_probability() -> None:
    crashes = [interval.ends is Ending.CRASH for interval in play("a", "exp(8s)", "exp(4s)", 1000)]
    assert sum(crashes) / 1000 == pytest.approx(0.3, abs=0.06)


def test_without_sessions_a_device_is_always_there() -> None:
    assert list(always()) == [Interval(1, 0.0, math.inf)]


def test_upcoming_leaves_out_what_is_over_and_what_comes_before_the_first() -> None:
    intervals = [Interval(1, 0, 5), Interval(2, 8, 9), Interval(3, 10, 12)]
    assert [interval.number for interval in upcoming(intervals, 6.0)] == [2, 3]
    assert [interval.number for interval in upcoming(intervals, 6.0, first=3)] == [3]


def test_a_trace_is_played_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("device,start_s,end_s\na,0,5\nb,1,2\na,7.5,9\n")
    spans = read_trace(path)
    assert list(traced(7, "a", spans, 0.0)) == [Interval(1, 0, 5), Interval(2, 7.5, 9)]
    with pytest.raises(UsageError, match="no such device"):
        traced(7, "c", spans, 0.0).__next__()


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("name,start\n", ":1", "columns device, start_s, end_s are missing"),
        ("device,start_s,end_s\na,5,5\n", ":2", "has no length"),
        ("device,start_s,end_s\na,x,5\n", ":2", "must be seconds"),
        ("device,start_s,end_s\na,0,5\na,4,6\n", ":3", "before the session above it ends"),
    ],
)
def test_a_bad_trace_is_refused_by_line(tmp_path: Path, text: str, where: str, message: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        read_trace(path)
    assert error.value.where.endswith(where)


def test_an_absent_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_distributions_are_those_of_the_notation() -> None:
    session: Distribution = parse_distribution("8s")
    [first, second] = itertools.islice(generated(1, "a", session, session, 0.0), 2)
    assert second.end_s - second.start_s == pytest.approx(8)
    assert second.start_s - first.end_s == pytest.approx(8)
