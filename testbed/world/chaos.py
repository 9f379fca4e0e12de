"""Chaos as a timeline: entries that kill, stop and cut off programs and devices at random, from a seed.

What comes out are entries like those of a scenario's ``churn``. So chaos is checked, carried out, written down, shown
and repeated as any timeline is.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.world.timeline import Entry, Verb, generator
from venn.wire.requirements import Selector, Whom

LOSSES = (Verb.CRASH, Verb.DISCONNECT, Verb.PARTITION, Verb.SUSPEND, Verb.LEAVE)  # of devices, in equal parts
WINDOWS = 10  # in each of which each kind of loss has one entry
STOPS_PER_KILL = 0.2  # of a program
FIRST_S = 3.0  # nothing happens before, at most: the programs are only starting
MOST_AWAY = 0.15  # how long a program is away, as a part of the time from one fault of its kind to the next
LONGEST_AWAY_S = 6.0  # of a program
SHORT_S, LONG_S = (1.0, 5.0), (11.0, 20.0)  # how long a device is away: less and more than a liveness interval (10 s)
LONGEST_OF_WINDOW = 0.5  # how long a device is away, as a part of a window
_HUNDREDTHS = 100  # of a second: no time is written finer


@dataclass(frozen=True, slots=True)
class Chaos:
    """How much of what is to happen in ``duration_s`` seconds from the start."""

    duration_s: float  # > 0
    coordinator_kills: int
    driver_kills: int
    broker_kills: int  # more than 0: the run has a broker
    device_losses: int

    def entries(self, jobs: Sequence[str], devices: int, seed: int) -> tuple[Entry, ...]:
        """The timeline, in order of time. ``jobs``: their drivers are killed in turn, each as often as the others."""
        found = [*_program((Selector(Whom.COORDINATOR),), self.coordinator_kills, self.duration_s, seed)]
        found += _program([Selector(Whom.DRIVER, job) for job in jobs], self.driver_kills, self.duration_s, seed)
        found += _program((Selector(Whom.BROKER),), self.broker_kills, self.duration_s, seed)
        found += _devices(self.device_losses, devices, self.duration_s, seed)
        return tuple(sorted(found, key=lambda entry: entry.from_s))


def _program(targets: Sequence[Selector], kills: int, duration_s: float, seed: int) -> Iterator[Entry]:
    """Kills and stops, each in a part of the time of its own, so that the program is back before the next."""
    if not kills:
        return
    rng = generator(seed, 0, f"chaos of {targets[0].whom}")
    stops = math.ceil(kills * STOPS_PER_KILL)
    verbs = rng.permutation([Verb.CRASH.value] * kills + [Verb.SUSPEND.value] * stops)
    whom = rng.permutation(len(targets))
    number = {Verb.CRASH: 0, Verb.SUSPEND: 0}
    first_s = min(FIRST_S, duration_s / 4)
    part_s = (duration_s - first_s) / len(verbs)
    for place, word in enumerate(verbs.tolist()):
        verb = Verb(word)
        target = targets[whom[number[verb] % len(targets)]]
        number[verb] += 1
        at_s = first_s + (place + 0.5 * float(rng.random())) * part_s
        away_s = min(LONGEST_AWAY_S, MOST_AWAY * part_s) * float(rng.random())
        yield Entry(verb, target, _round(at_s), None, max(_round(away_s), 1 / _HUNDREDTHS))


def _devices(losses: int, devices: int, duration_s: float, seed: int) -> Iterator[Entry]:
    """Losses of each kind, spread over windows of time; half of them last longer than silence is let pass."""
    rng = generator(seed, 0, "chaos of devices")
    first_s = min(FIRST_S, duration_s / 4)
    window_s = (duration_s - first_s) / WINDOWS
    for number, count in enumerate(_parts(losses, WINDOWS * len(LOSSES), rng)):
        window, kind = divmod(number, len(LOSSES))
        span = (SHORT_S, LONG_S)[(window + kind) % 2]
        away_s = min(float(rng.uniform(*span)), LONGEST_OF_WINDOW * window_s)
        since = first_s + window * window_s
        until_s, for_s = _round(since + window_s - away_s), max(_round(away_s), 1 / _HUNDREDTHS)
        for taken in range(0, count, devices):  # an entry takes a device once
            whom = Selector(Whom.ALL, count=min(devices, count - taken))
            yield Entry(LOSSES[kind], whom, _round(since), until_s, for_s)


def _parts(total: int, parts: int, rng: np.random.Generator) -> list[int]:
    """``total`` in parts that differ by 1 at most, the larger ones at random."""
    larger = set(rng.permutation(parts)[: total % parts].tolist())
    return [total // parts + (part in larger) for part in range(parts)]


def _round(seconds: float) -> float:
    """Seconds as they can be written in a scenario, rounded down: what fits into a time still fits."""
    return math.floor(seconds * _HUNDREDTHS) / _HUNDREDTHS
