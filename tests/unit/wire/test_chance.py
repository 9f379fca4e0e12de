"""Draws for arrays are those of the engine, one by one."""

import numpy as np

from coordinator.engine.chance import Purpose as EnginePurpose
from coordinator.engine.chance import draw
from venn.wire.chance import Purpose, draws, normal, uniform

DEVICE = np.array([0, 1, 7, 2**40, -1], dtype=np.int64)
NUMBER = np.array([1, 1, 3, 9, 2**62], dtype=np.int64)


def test_an_array_of_draws_is_what_the_engine_would_draw() -> None:
    for seed in (0, 7, -1, 2**64 - 1):
        purpose = EnginePurpose.MATCH
        expected = [draw(seed, purpose, int(one), int(other)) for one, other in zip(DEVICE, NUMBER, strict=True)]
        assert draws(seed, purpose, DEVICE, NUMBER).tolist() == expected


def test_no_purpose_is_one_of_the_engine() -> None:
    assert not {int(purpose) for purpose in Purpose} & {int(purpose) for purpose in EnginePurpose}


def test_uniform_and_normal_are_what_they_are_called() -> None:
    ids = np.arange(100_000)
    parts = uniform(1, Purpose.PHASE, ids)
    assert 0 < parts.min() < 1e-4
    assert 1 - 1e-4 < parts.max() < 1
    assert abs(parts.mean() - 0.5) < 0.005
    scores = normal(1, Purpose.PHASE, ids)
    assert abs(scores.mean()) < 0.02
    assert abs(scores.std() - 1) < 0.02
