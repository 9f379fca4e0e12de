"""How much an identity may say, at once and in the long run."""

import pytest

from coordinator.service import allowances
from coordinator.service.allowances import Allowance, Allowances
from testbed.testing.clock import FakeClock


def test_so_much_is_allowed_at_once_and_then_at_the_rate() -> None:
    time = FakeClock()
    own = Allowance(10, 2.0, time)
    assert [own.take(4) for _ in range(3)] == [True, True, False]
    assert own.wait_s(4) == 1.0
    time.now = 1.0
    assert own.take(4)
    assert not own.take(1)
    time.now = 1000.0
    assert [own.take(1) for _ in range(11)] == [True] * 10 + [False]


def test_what_is_not_allowed_is_not_used() -> None:
    own = Allowance(10, 1.0, FakeClock())
    assert not own.take(11)
    assert own.take(10)


def test_more_may_be_allowed_but_never_more_than_at_once() -> None:
    own = Allowance(10, 1.0, FakeClock())
    own.add(100)
    assert own.take(10)
    assert not own.take(1)
    own.add(3)
    assert own.take(3)


def test_each_identity_has_its_own_and_keeps_it() -> None:
    time = FakeClock()
    all_of_them = Allowances(10, 1.0, time)
    assert all_of_them.of("one").take(10)
    assert not all_of_them.of("one").take(1)
    assert all_of_them.of("two").take(10)


def test_only_so_many_identities_are_remembered_those_that_spoke_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowances, "MOST_REMEMBERED", 2)
    all_of_them = Allowances(10, 1.0, FakeClock())
    for who in ("one", "two", "one", "three"):
        all_of_them.of(who).take(5)
    assert not all_of_them.of("one").take(1)
    assert all_of_them.of("two").take(10)
