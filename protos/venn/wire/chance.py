"""Draws for whole arrays, and distributions of the notation over them.

A draw is the same function of a seed, a purpose and ids as in ``coordinator.engine.chance``. So what a device is, and
when it is there, depends on its number and on nothing that was drawn before it.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar, assert_never

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from venn.wire.notation import Constant, Distribution, Empirical, Exponential, LogNormal, Uniform

_GAMMA, _FIRST, _SECOND = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

Reals = NDArray[np.float64]
Ids = NDArray[np.int64]
Bits = TypeVar("Bits", np.uint64, NDArray[np.uint64])


class Purpose(IntEnum):
    """Purposes of draws beside those of the engine, which are small."""

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
    state = mix_wrapping(np.array([seed & (2**64 - 1)], np.uint64)) ^ np.uint64(purpose)
    for each in ids:
        state = mix_wrapping(state) ^ each.astype(np.uint64)
    return mix_wrapping(state)


def uniform(seed: int, purpose: int, *ids: Ids) -> Reals:
    """Uniform in (0, 1), both ends left out."""
    return ((draws(seed, purpose, *ids) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


# The rational functions of Wichura's algorithm AS 241 (PPND16, Applied Statistics 37, 1988) for parts in the middle, in
# the tails, and far out in them: factors of the numerator and of the denominator, the highest power first.
_MIDDLE = (
    (2509.0809287301226727, 5226.495278852854561),
    (33430.575583588128105, 28729.085735721942674),
    (67265.770927008700853, 39307.89580009271061),
    (45921.953931549871457, 21213.794301586595867),
    (13731.693765509461125, 5394.1960214247511077),
    (1971.5909503065514427, 687.1870074920579083),
    (133.14166789178437745, 42.313330701600911252),
    (3.387132872796366608, 1.0),
)
_TAIL = (
    (7.7454501427834140764e-4, 1.05075007164441684324e-9),
    (0.0227238449892691845833, 5.475938084995344946e-4),
    (0.24178072517745061177, 0.0151986665636164571966),
    (1.27045825245236838258, 0.14810397642748007459),
    (3.64784832476320460504, 0.68976733498510000455),
    (5.7694972214606914055, 1.6763848301838038494),
    (4.6303378461565452959, 2.05319162663775882187),
    (1.42343711074968357734, 1.0),
)
_FAR = (
    (2.01033439929228813265e-7, 2.04426310338993978564e-15),
    (2.71155556874348757815e-5, 1.4215117583164458887e-7),
    (0.0012426609473880784386, 1.8463183175100546818e-5),
    (0.026532189526576123093, 7.868691311456132591e-4),
    (0.29656057182850489123, 0.0148753612908506148525),
    (1.7848265399172913358, 0.13692988092273580531),
    (5.4637849111641143699, 0.59983220655588793769),
    (6.6579046435011037772, 1.0),
)
_AT_ONCE = 8192  # parts: what is worked out of so many stays in the processor's cache


def normal_score(parts: npt.ArrayLike) -> Reals:
    """The standard normal values that so many parts, each in (0, 1), of all are below: within 1e-15 of their size."""
    array = np.asarray(parts, np.float64)
    flat = array.ravel()
    found = np.empty_like(flat)
    for first in range(0, len(flat), _AT_ONCE):
        found[first : first + _AT_ONCE] = _scores(flat[first : first + _AT_ONCE])
    return found.reshape(array.shape)


def _scores(parts: Reals) -> Reals:
    off = parts - 0.5
    found = off * _ratio(_MIDDLE, 0.180625 - off * off)
    tails = np.flatnonzero(np.abs(off) > 0.425)
    if len(tails):
        root = np.sqrt(-np.log(np.minimum(parts[tails], 1 - parts[tails])))
        score = np.where(root > 5, _ratio(_FAR, root - 5), _ratio(_TAIL, root - 1.6))
        found[tails] = np.copysign(score, off[tails])
    return found


def _ratio(factors: Sequence[tuple[float, float]], of: Reals) -> Reals:
    above, below = (np.full_like(of, each) for each in factors[0])
    for one, other in factors[1:]:
        above *= of
        above += one
        below *= of
        below += other
    above /= below
    return above


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
