"""What entries wish for, before it is known which devices are there: how many, of whom, when. Seeded, and pure.

Seconds are those of the run, with the time scale in them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from testbed.churn.link_change import LinkChange
from testbed.churn.timeline import Entry, Verb
from venn.wire.notation import Rate

Pool = NDArray[np.int64]  # numbers of devices, ascending

HITS = (Verb.CRASH, Verb.SUSPEND, Verb.DISCONNECT)  # of a storm, in equal parts


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """``verb`` for ``count`` of a pool at ``at_s``, or for one device that is known already."""

    at_s: float
    entry: int
    verb: Verb  # none of GENERATORS
    of: Pool | int
    count: int  # 1 for the one device
    for_s: float | None = None
    change: LinkChange | None = None


def generator(seed: int, entry: int, purpose: str) -> np.random.Generator:
    digest = sha256(f"{seed}/churn/{entry}/{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def hits(entry: Entry, devices: int) -> int:
    """How many of so many devices an entry is about, or how often a storm hits one of them."""
    if not isinstance(entry.of, Rate):
        return entry.of.size(devices)
    assert entry.to_s is not None
    # A minute of the scenario is scaled as its times are: a scaled run hits as many devices.
    minutes = Fraction(repr(entry.to_s - entry.from_s)) / 60
    return int(entry.of.per_minute * minutes * devices + Fraction(1, 2))


def wishes(entry: Entry, number: int, pool: Pool, *, seed: int, scale: float) -> Iterator[Wish]:
    """Of one entry, whose selector means the devices ``pool``; ``scale`` is the time scale."""
    start, lasting = entry.from_s * scale, None if entry.for_s is None else entry.for_s * scale
    count = hits(entry, len(pool))
    if entry.to_s is None:
        yield Wish(start, number, entry.verb, pool, count, lasting, entry.change)
        return
    end = entry.to_s * scale
    match entry.verb:
        case Verb.CHURN:
            verbs = generator(seed, number, "how").permutation(np.arange(count) % len(HITS)).tolist()
            times = _spread(generator(seed, number, "when"), count, start, end)
            for at, verb in zip(times, verbs, strict=True):
                yield Wish(at, number, HITS[verb], pool, 1, lasting)
        case Verb.FLAP | Verb.ON_OFF | Verb.DIURNAL:
            assert lasting is not None
            for device in sorted(generator(seed, number, "whom").permutation(pool)[:count].tolist()):
                rng = generator(seed, number, str(device))
                going = Verb.DISCONNECT if entry.verb is Verb.FLAP else Verb.LEAVE
                for since, until in _SPANS[entry.verb](rng, start, end, lasting):
                    yield Wish(since, number, going, device, 1, until - since)
        case _:  # what is done once to each of them
            for at in _spread(generator(seed, number, "when"), count, start, end):
                yield Wish(at, number, entry.verb, pool, 1, lasting, entry.change)


def _spread(rng: np.random.Generator, count: int, start: float, end: float) -> list[float]:
    """So many times, one at random in each of as many equal parts."""
    return [start + (end - start) * (index + float(rng.random())) / count for index in range(count)]


def _flapping(rng: np.random.Generator, start: float, end: float, lasting: float) -> Iterator[tuple[float, float]]:
    """Away for ``lasting``, there for as long, and so on, from a time at random in the first turn."""
    since = start + float(rng.random()) * lasting
    while since + lasting <= end:
        yield since, since + lasting
        since += 2 * lasting


def _on_off(rng: np.random.Generator, start: float, end: float, lasting: float) -> Iterator[tuple[float, float]]:
    """There and away in turn, each exponential with the mean ``lasting``."""
    since = start + float(rng.exponential(lasting))
    while since < end:
        until = min(end, since + max(float(rng.exponential(lasting)), lasting / 100))
        yield since, until
        since = until + max(float(rng.exponential(lasting)), lasting / 100)


def _by_day(rng: np.random.Generator, start: float, end: float, day: float) -> Iterator[tuple[float, float]]:
    """A night in each day: it falls in the day's second quarter and ends in its fourth."""
    for number in range(math.ceil((end - start) / day)):
        dusk, dawn = (start + (number + quarter + float(rng.random()) / 4) * day for quarter in (0.25, 0.75))
        if dusk < end:
            yield dusk, min(dawn, end)


_SPANS = {Verb.FLAP: _flapping, Verb.ON_OFF: _on_off, Verb.DIURNAL: _by_day}
