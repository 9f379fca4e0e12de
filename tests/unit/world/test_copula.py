"""Marginals by percentiles, and correlations of what comes out."""

import numpy as np
import pytest
from scipy.special import ndtri

from testbed.world.capabilities import PERCENTILES, Marginal, score_correlations

SCORE = Marginal("score", "", (1, 2, 3, 5, 8, 13, 21, 34, 55))
SIZE = Marginal("size", "GB", (1, 1, 2, 4, 4, 8, 8, 16, 16), steps=(1, 2, 4, 8, 16))


def test_a_marginal_goes_through_its_percentiles() -> None:
    scores = ndtri(PERCENTILES)
    assert SCORE.at(scores) == pytest.approx(SCORE.asked)
    assert SIZE.at(scores).tolist() == list(SIZE.asked)


def test_between_percentiles_it_rises_and_beyond_the_last_thousandth_it_stays() -> None:
    values = SCORE.at(np.linspace(-3, 3, 1000))
    assert (np.diff(values) > 0).all()
    assert SCORE.at(np.array([-3.5, 3.5])).tolist() == SCORE.at(np.array([-9.0, 9.0])).tolist()
    assert 0 < SCORE.at(np.array([-9.0]))[0] < 1


def test_an_anchor_holds_besides_the_percentiles() -> None:
    anchored = Marginal("score", "", SCORE.asked, anchors=((0.6, 8.5),))
    assert anchored.at(ndtri([0.6]))[0] == pytest.approx(8.5)
    assert anchored.at(ndtri(PERCENTILES)) == pytest.approx(SCORE.asked)


def test_a_value_goes_to_the_step_that_is_nearest_by_ratio() -> None:
    plain = Marginal("size", "GB", SIZE.asked)
    scores = np.linspace(-3, 3, 1000)
    steps = np.array(SIZE.steps)
    nearest = steps[np.abs(np.log(plain.at(scores))[:, None] - np.log(steps)).argmin(axis=1)]
    assert SIZE.at(scores).tolist() == nearest.tolist()


@pytest.mark.parametrize("asked", [0.8, 0.0, -0.6])
def test_values_correlate_as_asked(asked: float) -> None:
    scores = score_correlations((SCORE, SIZE), {("score", "size"): asked})
    assert abs(scores[0, 1]) >= abs(asked)  # steps blur a correlation
    rows = np.random.default_rng(1).standard_normal((200_000, 2)) @ np.linalg.cholesky(scores).T
    found = np.corrcoef(np.log(SCORE.at(rows[:, 0])), np.log(SIZE.at(rows[:, 1])))[0, 1]
    assert found == pytest.approx(asked, abs=0.01)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"score and size cannot correlate by 0\.999"):
        score_correlations((SCORE, SIZE), {("score", "size"): 0.999})
    third = Marginal("third", "", SCORE.asked)
    contradiction = {("score", "size"): 0.9, ("size", "third"): 0.9, ("score", "third"): -0.9}
    with pytest.raises(ValueError, match="contradict"):
        score_correlations((SCORE, SIZE, third), contradiction)
