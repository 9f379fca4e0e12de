"""What the time of a task is multiplied by: one table of floats, so that all paths multiply the very same."""

import math
from statistics import NormalDist

import numpy as np

from coordinator.engine.chance import Purpose, draw, index
from testbed.population.arrays import Reals

QUANTILES = 4096  # of the log-normal distribution, at the middles of equal shares


def noise_table(sigma: float) -> Reals:
    """Log-normal factors with median 1 and log-sigma ``sigma`` >= 0, ascending, of shape (QUANTILES,)."""
    normal = NormalDist()
    return np.array([math.exp(sigma * normal.inv_cdf((i + 0.5) / QUANTILES)) for i in range(QUANTILES)])


def noise_index(seed: int, lease: int) -> int:
    """Which of the table's factors is a lease's."""
    return index(draw(seed, Purpose.NOISE, lease), QUANTILES)
