"""Draws for whole arrays, and distributions of the notation over them.

A draw is the same function of a seed, a purpose and ids as in ``coordinator.engine.chance``. So what a device is, and
when it is there, depends on its number and on nothing that was drawn before it.
"""

from enum import IntEnum
from typing import TypeVar, assert_never

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from coordinator.engine.chance import mix
from venn.wire.notation import Constant, Distribution, Empirical, Exponential, LogNormal, Uniform

_GAMMA, _FIRST, _SECOND = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

Reals = NDArray[np.float64]
Ids = NDArray[np.int64]
Bits = TypeVar("Bits", np.uint64, NDArray[np.uint64])


class Purpose(IntEnum):
    """Beside those of the engine, which are small."""

    CAPABILITY = 101  # ids: device, place of the capability
    PHASE = 102  # ids: device
    SESSION = 103  # ids: device, number of its session
    GAP = 104  # ids: device, number of the session before it
    CRASH = 105  # ids: device, number of its session
    JOB_SIZE = 121  # ids: number of the job
    JOB_REQUIREMENT = 122  # ids: number of the job
    JOB_GAP = 123  # ids: number of the job after it


def draws(seed: int, purpose: int, *ids: Ids) -> NDArray[np.uint64]:
    """64 uniform bits for each row of ``ids``, of which there is at least one column."""
    state = np.full(np.broadcast_shapes(*(each.shape for each in ids)), mix(seed & (2**64 - 1)) ^ purpose, np.uint64)
    for each in ids:
        state = mix_wrapping(state) ^ each.astype(np.uint64)
    return mix_wrapping(state)


def uniform(seed: int, purpose: int, *ids: Ids) -> Reals:
    """Uniform in (0, 1), both ends left out."""
    return ((draws(seed, purpose, *ids) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normal_score(parts: npt.ArrayLike) -> Reals:
    """The standard normal values that so many parts, each in (0, 1), of all are below. SciPy is loaded for it."""
    from scipy.special import ndtri  # type: ignore[import-untyped]  # it ships no types

    return np.asarray(ndtri(parts))


def normal(seed: int, purpose: int, *ids: Ids) -> Reals:
    """Standard normal."""
    return normal_score(uniform(seed, purpose, *ids))


def mix_wrapping(value: Bits) -> Bits:
    """One step of SplitMix64, as ``coordinator.engine.chance.mix``, on NumPy's numbers, which wrap around.

    It also serves one number in compiled code; the engine's own is on Python's integers, which do not wrap.
    """
    z = value + _GAMMA
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


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
