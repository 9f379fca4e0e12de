"""Chance without state: a draw is a pure function of the seed, a purpose and ids (SplitMix64, Steele et al. 2014)."""

from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Bits = TypeVar("Bits", int, np.uint64, NDArray[np.uint64])
_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class Purpose(IntEnum):
    MATCH = 1  # ids: session seq, match attempt
    TIER = 2  # ids: request id
    NOISE = 3  # ids: lease seq
    COME_BACK = 4  # ids: session seq
    ORDER = 5  # ids: request id
    LINK = 6  # ids: lease seq, part of its way, number of a draw
    JOB_ORDER = 7  # ids: ``number_of`` the job id


def draw(seed: int, purpose: Purpose, *ids: int) -> int:
    """Draw 64 uniform bits."""
    state = begun(seed, purpose)
    for value in ids:
        state = mix(state ^ (value & _MASK))
    return state


def index(bits: int, n: int) -> int:
    """Make a uniform index in [0, n) of 64 bits; n < 2**32."""
    return ((bits >> 32) * n) >> 32


def fraction(bits: int) -> float:
    """Make a number that is uniform in [0, 1), with 53 bits."""
    return (bits >> 11) * 2.0**-53


@lru_cache(maxsize=65536)
def number_of(name: str) -> int:
    """Hash a name to 64 bits, to be one of the ids of a draw: FNV-1a of its UTF-8 bytes (Fowler, Noll, Vo)."""
    bits = 0xCBF29CE484222325
    for byte in name.encode():
        bits = ((bits ^ byte) * 0x100000001B3) & _MASK
    return bits


@lru_cache(maxsize=64)
def begun(seed: int, purpose: Purpose) -> int:
    """A draw, before its ids: with one id it is ``mix(begun(seed, purpose) ^ id)``."""
    return mix(mix(seed & _MASK) ^ purpose)


def mix(value: Bits) -> Bits:
    """One step of SplitMix64: a bijection of 64-bit numbers, of Python or of arrays. The simulator compiles it."""
    z: Any = (value + _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)  # type: ignore[no-any-return]  # alike for all of these types
