"""When devices are there: sessions and gaps in turn, drawn for any number of devices at once, but for their absences.

The n-th session of a device is a function of (seed, device, n) alone, so that every policy meets the same devices at
the same times, live and simulated, one device or a million. Gaps pass faster by day or by night (``Day``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from venn.wire.chance import Ids, Purpose, Reals, at, uniform
from venn.wire.notation import Distribution

Number = TypeVar("Number", bound=np.generic)

DAY_S = 86_400.0
LEAST_SESSION_S = 0.001
_GRID = 4096  # parts of a day to begin the search in: within 10 ms
_STEPS = 2


@dataclass(frozen=True, slots=True)
class Day:
    """A sine over the day, 1 on average: gaps pass faster where it is high. Time 0 is midnight."""

    swing: float = 1.0  # the most over the least, >= 1; 1: no day and night
    peak_s: float = 0.0  # when it is highest, seconds after midnight

    def __post_init__(self) -> None:
        if not (1 <= self.swing < np.inf):
            raise ValueError(f"a swing of {self.swing} is not 1 or more")

    @property
    def _amplitude(self) -> float:
        return (self.swing - 1) / (self.swing + 1)

    def pace(self, time_s: Reals) -> Reals:
        """Seconds of gap that pass in a second, at these times."""
        return 1 + self._amplitude * np.cos(2 * np.pi * (time_s - self.peak_s) / DAY_S)

    def passed(self, time_s: Reals) -> Reals:
        """Seconds of gap that pass until these times, from some moment on that is always the same."""
        return time_s + self._amplitude * DAY_S / (2 * np.pi) * np.sin(2 * np.pi * (time_s - self.peak_s) / DAY_S)

    def after(self, time_s: Reals, gap_s: Reals) -> Reals:
        """When a gap that began then is over."""
        if self.swing == 1:
            return time_s + gap_s
        wanted = self.passed(time_s) + gap_s
        first, times = _inverse(self)
        midnight = np.floor((wanted - first) / DAY_S) * DAY_S
        place = (wanted - midnight - first) * (_GRID / DAY_S)
        below = np.minimum(place.astype(np.intp), _GRID - 1)
        found = midnight + times[below] + (place - below) * (times[below + 1] - times[below])
        for _ in range(_STEPS):  # of Newton's: always as many, so that no device's time depends on who is asked with it
            found = found - (self.passed(found) - wanted) / self.pace(found)
        return np.asarray(np.maximum(found, time_s))


@cache
def _inverse(day: Day) -> tuple[float, Reals]:
    """The gap that has passed at midnight, and the times at which each _GRID-th part of a day more has passed."""
    times = np.linspace(0.0, DAY_S, 4 * _GRID + 1)
    passed = day.passed(times)
    return float(passed[0]), np.interp(passed[0] + np.linspace(0.0, DAY_S, _GRID + 1), passed, times)


@dataclass(frozen=True, slots=True)
class Availability:
    """The lengths of stays and absences of devices. Durations are in seconds."""

    session: Distribution
    gap: Distribution
    day: Day = field(default_factory=Day)

    @property
    def cycle_s(self) -> float:
        """Seconds from one session's start to the next one's, on average."""
        return self.session.mean + self.gap.mean

    @property
    def settling_s(self) -> float:
        """A time of sessions and gaps after which it is forgotten how they began: a day, but 4 to 16 cycles."""
        return min(max(DAY_S, 4 * self.cycle_s), 16 * self.cycle_s)

    def devices_for(self, sessions_per_s: float) -> int:
        """The number of devices that check in so often."""
        return max(1, round(sessions_per_s * self.cycle_s))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Sessions, a row each."""

    start_s: Reals
    end_s: Reals  # > start
    device: Ids  # its place among those that are drawn together, from 0
    number: Ids  # of the session among all of its device, ascending; some came before time 0

    def __len__(self) -> int:
        return len(self.device)

    def rows(self, which: slice | Ids) -> "Block":
        return Block(self.start_s[which], self.end_s[which], self.device[which], self.number[which])

    @classmethod
    def of(cls, parts: Sequence["Block"]) -> "Block":
        """All of them, one after the other."""
        empty = Block(np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
        columns = ([getattr(part, name) for part in (empty, *parts)] for name in cls.__slots__)
        return cls(*(np.concatenate(each) for each in columns))

    def there_at_0(self) -> "Block":
        """The sessions that have not ended by then, as if they began then."""
        there = np.flatnonzero(self.end_s > 0)
        left = self.rows(there[np.argsort(self.device[there])])
        return Block(np.zeros(len(left)), left.end_s, left.device, left.number)


class Sessions:
    """The next session of each device: where it begins, and its number. Starts long before time 0."""

    def __init__(self, availability: Availability, devices: Ids, seed: int) -> None:
        """``devices``: the numbers that name them in all draws."""
        self._availability, self._devices, self._seed = availability, devices, seed
        phase = uniform(seed, Purpose.PHASE, devices)
        self._start = -availability.settling_s - availability.cycle_s * phase
        self._number = np.ones(len(devices), dtype=np.int64)

    def begin_before(self, limit_s: float) -> Block:
        """All next sessions that begin before the limit, by (start, device)."""
        found = []
        place = np.flatnonzero(self._start < limit_s)
        while len(place):
            found.append(self.next(place))
            place = place[self._start[place] < limit_s]
        whole = Block.of(found)
        order = np.argsort(whole.start_s)
        start = whole.start_s[order]
        if (start[1:] == start[:-1]).any():  # two at once are rare, and sorting by two columns takes four times as long
            order = np.lexsort((whole.device, whole.start_s))
        return whole.rows(order)

    def next(self, place: Ids, count: int = 1) -> Block:
        """The next ``count`` sessions of each of the devices at these places, device by device."""
        about, device = self._availability, self._devices[place][:, None]
        number = self._number[place][:, None] + np.arange(count)
        length = np.maximum(at(about.session, uniform(self._seed, Purpose.SESSION, device, number)), LEAST_SESSION_S)
        gap = np.maximum(at(about.gap, uniform(self._seed, Purpose.GAP, device, number)), 0.0)
        starts, ends, now = [], [], self._start[place]
        for turn in range(count):
            starts.append(now)
            ends.append(now + length[:, turn])
            now = about.day.after(ends[-1], gap[:, turn])
        self._start[place] = now
        self._number[place] += count
        return Block(_by_device(starts), _by_device(ends), _by_device([place] * count), number.ravel())


def _by_device(columns: Sequence[NDArray[Number]]) -> NDArray[Number]:
    """The values of each device, one after the other; ``columns`` have one of each."""
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1).ravel()


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The parts of sessions that absences leave: a row per piece, in the order of the sessions and of time."""

    row: Ids  # of its session
    number: Ids  # among the pieces of its session, from 0; pieces that are too short are left out
    start_s: Reals
    end_s: Reals
    absence: Ids  # which ends it, by its place among all; -1: it ends as its session does


class Absences:
    """The times in which devices are not there, whatever their sessions say."""

    def __init__(self, devices: Ids, spans: Iterable[tuple[float, float]]) -> None:
        """``spans`` by (device, time), from when until when; ``devices``: how many each device has."""
        self._first = np.concatenate([[0], np.cumsum(devices)])  # of each device its first one; one more at the end
        self._from_s, self._until_s = np.array(list(spans), np.float64).reshape(-1, 2).T
        self._last_s = float(self._until_s.max(initial=-np.inf))
        self.most = int(devices.max(initial=0)) + 1  # pieces of a session

    def cut(self, device: Ids, start_s: Reals, end_s: Reals) -> Pieces | None:
        """The sessions that are left; None: all of them. They come by device number from 0, in any order."""
        if len(device) == 0 or start_s.min() >= self._last_s:
            return None
        first, end = self._first[device], self._first[device + 1]
        low = _search(self._until_s, first, end, start_s, beyond=True)  # the first that is not over before it
        high = _search(self._from_s, first, end, end_s, beyond=False)  # the first that begins after it
        cuts = high - low
        if not cuts.any():
            return None
        row = np.repeat(np.arange(len(device)), cuts + 1)
        number = np.arange(len(row)) - np.repeat(np.cumsum(cuts + 1) - (cuts + 1), cuts + 1)
        after, before = low[row] + number - 1, np.minimum(low[row] + number, len(self._from_s) - 1)
        ends = number == cuts[row]
        start = np.where(number == 0, start_s[row], self._until_s[after])
        stop = np.where(ends, end_s[row], self._from_s[before])
        with np.errstate(invalid="ignore"):  # nothing is left of a session without an end after an absence without one
            kept = np.flatnonzero((cuts[row] == 0) | (stop - start >= LEAST_SESSION_S))
        return Pieces(row[kept], number[kept], start[kept], stop[kept], np.where(ends, -1, before)[kept])


def _search(values: Reals, low: Ids, high: Ids, wanted: Reals, *, beyond: bool) -> Ids:
    """The first place, for each row, in [low, high) with a value >= what is wanted, or > it if ``beyond``; or high."""
    while True:
        unsettled = low < high
        if not unsettled.any():
            return low
        middle = (low + high) // 2
        value = values[np.minimum(middle, len(values) - 1)]
        found = unsettled & ((value > wanted) if beyond else (value >= wanted))
        low, high = np.where(unsettled & ~found, middle + 1, low), np.where(found, middle, high)
