"""When garbage is collected."""

import gc
import weakref

import pytest

from venn.wire import process
from venn.wire.process import collecting_seldom


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_what_engines_leave_behind_goes_before_another_one_runs_once_it_is_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process._LeftBehind, "objects", 0)
    thresholds = gc.get_threshold()
    with collecting_seldom(1000):
        first = weakref.ref(Cycle())
        for _ in range(600):
            Cycle()
    with collecting_seldom(1000):
        assert first() is not None
        for _ in range(600):
            Cycle()
    assert first() is not None
    with collecting_seldom(1000):
        assert first() is None
    assert gc.get_threshold() == thresholds
