"""The timeline of a scenario: its entries, the selections that they come to, and the actions on devices and programs.

An *entry* is what a scenario says. It comes to *selections*: how many of which devices, when. Which devices these are
is found in order of time (``states``), and what is done to each is an *action*. All of it is seeded and pure. Seconds
are those of the run, with the time scale in them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from venn.wire.notation import format_duration, format_fraction, format_rate
from venn.wire.requirements import Rate, Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """The limits of a link from now on, by the keys of a fleet; None: as the device has it."""

    up: float | None = None  # bits per second
    down: float | None = None
    delay: float | None = None  # seconds, of a round trip
    jitter: float | None = None
    loss: Fraction | None = None

    def to_json(self) -> dict[str, str]:
        """The change in the notation of a scenario; without what stays."""
        told = {}
        for key, rate in (("up", self.up), ("down", self.down)):
            if rate is not None:
                told[key] = format_rate(rate)
        for key, seconds in (("delay", self.delay), ("jitter", self.jitter)):
            if seconds is not None:
                told[key] = format_duration(seconds)
        return told if self.loss is None else {**told, "loss": format_fraction(self.loss)}


class Verb(StrEnum):
    """What an entry does to what it selects."""

    JOIN = "join"
    LEAVE = "leave"
    CRASH = "crash"
    DISCONNECT = "disconnect"
    RECONNECT = "reconnect"
    SUSPEND = "suspend"
    PARTITION = "partition"
    LIMIT = "limit"
    FLAP = "flap"
    ON_OFF = "on-off"
    DIURNAL = "diurnal"
    CHURN = "churn"


GENERATORS = (Verb.FLAP, Verb.ON_OFF, Verb.DIURNAL, Verb.CHURN)  # each comes to many actions, over a time
ENDLESS = (Verb.LEAVE, Verb.CRASH, Verb.DISCONNECT, Verb.PARTITION, Verb.LIMIT)  # states that need no ``for``
MOMENTS = (Verb.JOIN, Verb.RECONNECT)  # no states: they end one


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. ``to_s`` is None: at ``from_s``; else spread from ``from_s`` to ``to_s``. Seconds before the scale."""

    verb: Verb
    of: Selector | Rate  # a rate with Verb.CHURN, and with no other
    from_s: float
    to_s: float | None = None
    for_s: float | None = None  # how long what it does lasts
    change: LinkChange | None = None  # exactly with Verb.LIMIT

    @property
    def end_s(self) -> float:
        """When the last of it is over, as far as it says so."""
        last = self.from_s if self.to_s is None else self.to_s
        inside = self.verb in GENERATORS and self.verb is not Verb.CHURN
        return last if inside else last + (self.for_s or 0.0)

    def to_json(self) -> dict[str, str]:
        """The entry as it stands in a scenario."""
        if self.to_s is None:
            when = {"at": format_duration(self.from_s)}
        else:
            when = {"from": format_duration(self.from_s), "to": format_duration(self.to_s)}
        lasting = {} if self.for_s is None else {"for": format_duration(self.for_s)}
        changed = {} if self.change is None else self.change.to_json()
        return {**when, self.verb.value: str(self.of), **changed, **lasting}

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}: {value}" for key, value in self.to_json().items()) + "}"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that is done to one device or program; seconds of the run, with the time scale in them."""

    at_s: float
    verb: Verb  # none of GENERATORS
    target: str  # a device; or "coordinator", "driver JOB"
    entry: int  # the number of the entry it comes from, from 0
    until_s: float | None = None  # when it is over by itself; None: it is a moment, or nothing ends it
    change: LinkChange | None = None  # exactly with Verb.LIMIT

    def to_json(self) -> dict[str, object]:
        changed = {} if self.change is None else {"link": self.change.to_json()}
        return {
            "at_s": round(self.at_s, 6),
            "verb": self.verb.value,
            "target": self.target,
            "until_s": None if self.until_s is None else round(self.until_s, 6),
            "entry": self.entry,
            **changed,
        }


Pool = NDArray[np.int64]  # numbers of devices, ascending

HITS = (Verb.CRASH, Verb.SUSPEND, Verb.DISCONNECT)  # of a storm, in equal parts


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A choice of ``count`` devices of a pool for ``verb`` at ``at_s``, or one device that is known already."""

    at_s: float
    entry: int
    verb: Verb  # none of GENERATORS
    of: Pool | int
    count: int  # 1 for the one device
    for_s: float | None = None
    change: LinkChange | None = None


def generator(seed: int, entry: int, purpose: str) -> np.random.Generator:
    """Chance for one purpose of one entry."""
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


def selections(entry: Entry, number: int, pool: Pool, *, seed: int, scale: float) -> Iterator[Selection]:
    """What entry ``number`` comes to, in order of time where it spreads devices over a time.

    ``pool``: the devices that its selector means; ``scale``: the time scale, which multiplies every time.
    """
    start, lasting = entry.from_s * scale, None if entry.for_s is None else entry.for_s * scale
    count = hits(entry, len(pool))
    if entry.to_s is None:
        yield Selection(start, number, entry.verb, pool, count, lasting, entry.change)
        return
    end = entry.to_s * scale
    match entry.verb:
        case Verb.CHURN:
            verbs = generator(seed, number, "how").permutation(np.arange(count) % len(HITS)).tolist()
            times = _spread(generator(seed, number, "when"), count, start, end)
            for at, verb in zip(times, verbs, strict=True):
                yield Selection(at, number, HITS[verb], pool, 1, lasting)
        case Verb.FLAP | Verb.ON_OFF | Verb.DIURNAL:
            assert lasting is not None
            for device in sorted(generator(seed, number, "whom").permutation(pool)[:count].tolist()):
                rng = generator(seed, number, str(device))
                going = Verb.DISCONNECT if entry.verb is Verb.FLAP else Verb.LEAVE
                for since, until in _SPANS[entry.verb](rng, start, end, lasting):
                    yield Selection(since, number, going, device, 1, until - since)
        case (
            Verb.JOIN
            | Verb.LEAVE
            | Verb.CRASH
            | Verb.DISCONNECT
            | Verb.RECONNECT
            | Verb.SUSPEND
            | Verb.PARTITION
            | Verb.LIMIT
        ):  # done once to each of them
            for at in _spread(generator(seed, number, "when"), count, start, end):
                yield Selection(at, number, entry.verb, pool, 1, lasting, entry.change)
        case _:
            assert_never(entry.verb)


def _spread(rng: np.random.Generator, count: int, start: float, end: float) -> list[float]:
    """Draw so many times, one at random in each of as many equal parts."""
    return [start + (end - start) * (index + float(rng.random())) / count for index in range(count)]


def _flapping(rng: np.random.Generator, start: float, end: float, lasting: float) -> Iterator[tuple[float, float]]:
    """Absences of ``lasting``, with as long between them, from a time at random in the first turn."""
    since = start + float(rng.random()) * lasting
    while since + lasting <= end:
        yield since, since + lasting
        since += 2 * lasting


def _on_off(rng: np.random.Generator, start: float, end: float, lasting: float) -> Iterator[tuple[float, float]]:
    """Absences with presences between them, each exponential with the mean ``lasting``."""
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
