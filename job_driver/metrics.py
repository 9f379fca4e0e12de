"""The metrics of responses and of rounds: what may be one, and how those of a round's devices become one.

What devices send is theirs to get wrong: a response with odd metrics is refused, and costs the job nothing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from venn.wire.text import printable

MOST_METRICS = 64  # of a response, and of a round
MOST_NAME = 64  # characters
MOST_NAME_BYTES = 128  # in UTF-8
MOST_VALUE = 1e100  # so that no mean of them overflows

Metrics = Mapping[str, float]


def problem(metrics: Metrics) -> str:
    """Why these are no metrics of a response; "" if they are."""
    if len(metrics) > MOST_METRICS:
        return f"METRICS: there are {len(metrics)}, allowed are {MOST_METRICS}"
    for name, value in metrics.items():
        if not _is_name(name):
            return (
                f"METRICS: {printable(repr(name), 80)} is not a name of 1 to {MOST_NAME} characters that can be shown"
            )
        if not abs(value) <= MOST_VALUE:
            return f"METRICS: {name} is {value}, not a number of at most {MOST_VALUE:g}"
    return ""


def mean(responses: Iterable[tuple[Metrics, float]]) -> dict[str, float]:
    """The mean of each metric over the responses (metrics, weight) that have it, by weight.

    At most ``MOST_METRICS``, those that most responses have: a device with names of its own pushes out nobody else's.
    """
    totals: dict[str, tuple[float, float]] = {}
    counts: Counter[str] = Counter()
    for metrics, weight in responses:
        counts.update(metrics.keys())
        for name, value in metrics.items():
            total, weights = totals.get(name, (0.0, 0.0))
            totals[name] = (total + weight * value, weights + weight)
    names = sorted(counts, key=lambda name: (-counts[name], name))[:MOST_METRICS]
    return {name: totals[name][0] / totals[name][1] for name in sorted(names)}


def tellable(metrics: Metrics) -> dict[str, float]:
    """The metrics that others can be told, at most ``MOST_METRICS``: NaN and infinity are not JSON, nor is every text a
    name.
    """
    told = {name: value for name, value in metrics.items() if math.isfinite(value) and _is_name(name)}
    return dict(list(told.items())[:MOST_METRICS])


def _is_name(name: str) -> bool:
    short = 0 < len(name) <= MOST_NAME and len(name.encode(errors="replace")) <= MOST_NAME_BYTES
    return short and printable(name, MOST_NAME) == name
