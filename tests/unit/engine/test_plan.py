"""Plans: what of a policy's answer cannot be followed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coordinator.engine.ids import RegionId, RequestId
from coordinator.engine.plan import Mode, Plan, flaw
from testbed.testing.engine import ScriptedEngine
from tests.unit.engine.tiny import Recorder

ONE, TWO, HERE = RequestId(1), RequestId(2), RegionId(0)
GOOD = Plan(queues=((ONE,), (TWO,)), owner={HERE: 1})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"queues": [(ONE,)]}, "its queues are not a tuple of tuples"),
        ({"queues": ((ONE,), (ONE,))}, "a request is in its queues twice"),
        ({"queues": ((ONE,), ([TWO],))}, "its queues hold something that is no request id"),
        ({"owner": [0]}, "owner is of type list, not a mapping"),
        ({"owner": {HERE: 0.0}}, "owner names a queue that is not a whole number from 0 to 1"),
        ({"owner": {HERE: 2}}, "owner names a queue that is not a whole number from 0 to 1"),
        ({"mode": "ordered"}, "its mode is 'ordered'; it is Mode.ORDERED or Mode.UNIFORM"),
        ({"targets": {ONE: None}}, "targets has a value that is not a whole number"),
        ({"targets": {ONE: 2.5}}, "targets has a value that is not a whole number"),
        ({"tiers": {ONE: 0.5}}, "tiers has a value that is not a whole number"),
        ({"tiers": [0]}, "tiers is of type list, not a mapping"),
        ({"why": None}, "why is of type NoneType, not a function"),
        ({"review_at": "soon"}, "review_at is 'soon'; it is None, or a time after 0.0"),
        ({"review_at": float("nan")}, "review_at is nan; it is None, or a time after 0.0"),
    ],
)
def test_what_cannot_be_followed_is_named(change: dict[str, Any], told: str) -> None:
    play = ScriptedEngine(recorder := Recorder())
    play.request("a", demand=1)
    view = replace(recorder.views[-1], now=0.0)
    assert flaw(replace(GOOD, **change), view, Plan()) == told
    assert flaw(replace(GOOD, **change), view, GOOD) == told


def test_numbers_of_numpy_can_be_followed() -> None:
    play = ScriptedEngine(recorder := Recorder())
    play.request("a", demand=1)
    plan = replace(GOOD, owner={np.int64(0): np.int64(1)}, targets={ONE: np.int64(1)}, mode=Mode.UNIFORM)
    assert flaw(plan, recorder.views[-1], Plan()) == ""


def test_the_supply_of_a_view_is_read_only() -> None:
    play = ScriptedEngine(recorder := Recorder())
    play.request("a", demand=1)
    supply: Any = recorder.views[-1].supply
    with pytest.raises(TypeError):
        supply[HERE] = 1
