"""Distributions of the notation, for whole arrays of draws."""

from typing import assert_never

import numpy as np

from testbed.population.chance import Reals, normal_score
from venn.wire.notation import Constant, Distribution, Empirical, Exponential, LogNormal, Uniform


def at(distribution: Distribution, parts: Reals) -> Reals:
    """The values that so many parts, each in (0, 1), of all values are below: uniform parts give the distribution."""
    match distribution:
        case Constant(value=value):
            return np.full_like(parts, value)
        case Uniform(low=low, high=high):
            return low + (high - low) * parts
        case Exponential(mean=mean):
            return -mean * np.log1p(-parts)
        case LogNormal(median=median, sigma=sigma):
            return median * np.exp(sigma * normal_score(parts))
        case Empirical(values=values):
            return np.sort(np.array(values))[(parts * len(values)).astype(np.intp)]
        case _:
            assert_never(distribution)
