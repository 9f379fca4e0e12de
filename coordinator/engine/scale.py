"""One constant scale of log-spaced edges, on which times are counted: scores of devices, and times of response.

Edge i is FIRST_EDGE_S x STEP^i, made by one multiplication after the other, so that it is the same float everywhere.
Bin i holds what is greater than edge i - 1 and at most edge i. What is beyond the last edge is in the last bin.
"""

from bisect import bisect_left
from itertools import accumulate, repeat
from operator import mul

FIRST_EDGE_S = 1e-4
STEP = 1.05
BINS = 480  # the last edge is beyond 16 days

EDGES: tuple[float, ...] = tuple(accumulate(repeat(STEP, BINS - 1), mul, initial=FIRST_EDGE_S))


def bin_of(seconds: float) -> int:
    """The bin of a time >= 0."""
    return bisect_left(EDGES, seconds, 0, BINS - 1)
