"""Bounds as settings, and their counts."""

import logging
from dataclasses import dataclass

import pytest

from testbed.testing.clock import FakeClock
from venn.wire.bounds import MOST_LINES, Refusals, bound, connections_within, host_of, set_bounds, table
from venn.wire.errors import UsageError


@dataclass(frozen=True, slots=True)
class Bounds:
    calls: int = bound(32, "count", "calls", "refused")
    size: int = bound(64 * 1024, "bytes", "a request", "refused")
    wait: float = bound(10.0, "seconds", "a wait", "ended")
    beats: float = bound(500.0, "per second", "heartbeats", "slower")
    flood: int = bound(4096, "bytes per second", "what is recorded", "cut off")


def test_bounds_are_set_in_their_units() -> None:
    given = ["calls=8", "size=2 MiB", "wait=500ms", "beats=0.5", "flood=1KiB"]
    assert set_bounds(Bounds(), given) == Bounds(8, 2 * 2**20, 0.5, 0.5, 1024)
    assert set_bounds(Bounds(), ["flood=8KiB/s"]).flood == 8192
    assert set_bounds(Bounds(), None) == Bounds()


@pytest.mark.parametrize("given", ["calls", "call=8", "calls=", "calls=many", "calls=0", "wait=-1s", "size=3 apples"])
def test_a_bound_that_makes_no_sense_is_refused(given: str) -> None:
    with pytest.raises(UsageError):
        set_bounds(Bounds(), [given])


def test_a_mistyped_bound_is_told_with_the_near_one() -> None:
    with pytest.raises(UsageError, match="did you mean calls"):
        set_bounds(Bounds(), ["cals=8"])


def test_the_table_shows_defaults_in_their_units() -> None:
    assert [row.split(" | ")[1] for row in table(Bounds)[2:]] == ["32", "64 KiB", "10s", "500/s", "4 KiB/s"]


def test_some_files_are_left_for_other_uses() -> None:
    assert [connections_within(files) for files in (10, 256, 1024, 65_536)] == [1, 192, 922, 58_983]


def test_the_host_of_a_peer() -> None:
    assert host_of("ipv4:127.0.0.1:4711") == "127.0.0.1"
    assert host_of("ipv6:%5B::1%5D:4711") == "[::1]"
    assert host_of("unix:") == "unix:"


def test_every_refusal_is_counted_and_one_line_is_logged_for_an_identity_and_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time = FakeClock()
    refusals = Refusals(time)
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            refusals.met("calls", "one", "too many calls")
        refusals.met("calls", "two", "too many calls")
        refusals.met("size", "one", "too large")
        assert (refusals.times, len(caplog.records)) == ({"calls": 1001, "size": 1}, 3)
        time.now = 61.0
        refusals.met("calls", "one", "too many calls")
        assert len(caplog.records) == 4
        for number in range(1000):
            refusals.met("calls", f"stranger-{number}", "too many calls")
        assert len(caplog.records) == 3 + MOST_LINES
