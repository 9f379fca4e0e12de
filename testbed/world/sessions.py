"""Sessions of a large population: generated, or a period that is repeated.

Day and night: how likely a device that is away comes back, over the hours.

When the devices of a large population are there: all their sessions, in order of time, block by block.

A device is there for a session, away for a gap, and so on; gaps pass faster by day or by night (``Day``). Its n-th
session is a function of (seed, device, n) alone. Memory grows with the number of devices and of the rows of a block,
and not with the time that is covered.

The sessions of a period, kept and repeated for ever.

They are kept at 24 bytes each (7 million sessions: 168 MB), so that a long run neither generates nor reads them again.
In the n-th repeat (n = 0, 1, ...) every time is n periods later, and a device's intervals are numbered on. Times are
cut to the multiples of TICK_S, in which sums and differences are exact up to 272 years: repeats are equal to the last
bit, and sessions of a device never overlap by a rounding error.

What is under way at the end of the period goes on into the next one, until the device's first session of that begins.
So sessions that had begun before time 0 stand at its beginning once, and not in every repeat; only a device that has no
other session is there again from the beginning.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from testbed.world.chance import Ids, Purpose, Reals, at, uniform
from venn.wire.errors import UsageError
from venn.wire.notation import Distribution, Exponential, LogNormal

DAY_S = 86_400.0
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
    """What has passed at midnight, and the times at which each _GRID-th part of a day more has passed."""
    times = np.linspace(0.0, DAY_S, 4 * _GRID + 1)
    passed = day.passed(times)
    return float(passed[0]), np.interp(passed[0] + np.linspace(0.0, DAY_S, _GRID + 1), passed, times)


LEAST_SESSION_S = 0.001
MOST_ROWS = 1_000_000  # of a block
ROWS = 1 << 17  # of a block on average
SETTLING_S = DAY_S  # of sessions and gaps before time 0: by then how they began is forgotten


@dataclass(frozen=True, slots=True)
class Availability:
    """Of each device. Durations are in seconds."""

    session: Distribution
    gap: Distribution
    day: Day = field(default_factory=Day)

    @property
    def cycle_s(self) -> float:
        """From one session's start to the next one's, on average."""
        return self.session.mean + self.gap.mean

    def devices_for(self, sessions_per_s: float) -> int:
        """How many devices check in so often."""
        return max(1, round(sessions_per_s * self.cycle_s))


# As many devices as make 7 million sessions in 5 days, as the paper's trace has. Their lengths are ours: phones charge
# for a quarter of an hour at the median, and mostly at night.
PHONES_AVAILABILITY = Availability(
    LogNormal(900.0, 1.0, "duration"), Exponential(7200.0, "duration"), Day(3.0, 2 * 3600.0)
)
PHONE_SESSIONS_PER_S = 7e6 / (5 * DAY_S)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A row per session, by (start, device)."""

    start_s: Reals
    end_s: Reals  # > start
    device: Ids  # its number, from 0
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


def sessions(availability: Availability, devices: int, seed: int, until_s: float) -> Iterator[Block]:
    """All sessions that begin before ``until_s``, or without an end, and end after 0, at most MOST_ROWS to a block.

    One that had begun before 0 begins at 0. Blocks follow each other in time.
    """
    state = _State(availability, devices, seed)
    block = state.begin_before(0.0).there_at_0()
    # Small blocks are sorted faster; a day at most, so that a small population does not wait for a year of sessions.
    width_s = max(min(ROWS * availability.cycle_s / devices, DAY_S), 1.0)
    for number in count(1):
        block = Block.of([block, state.begin_before(min(number * width_s, until_s))])
        for first in range(0, len(block), MOST_ROWS):
            yield block.rows(slice(first, first + MOST_ROWS))
        if number * width_s >= until_s:
            return
        block = block.rows(slice(0))


class _State:
    """Of each device the start and the number of its next session."""

    def __init__(self, availability: Availability, devices: int, seed: int) -> None:
        self._availability, self._seed = availability, seed
        phase = uniform(seed, Purpose.PHASE, np.arange(devices, dtype=np.int64))
        self._start = -SETTLING_S - availability.cycle_s * phase
        self._number = np.ones(devices, dtype=np.int64)

    def begin_before(self, limit_s: float) -> Block:
        """The next sessions of all devices, as long as they begin before the limit."""
        found = []
        device = np.flatnonzero(self._start < limit_s)
        while len(device):
            found.append(self._next_of(device))
            device = device[self._start[device] < limit_s]
        whole = Block.of(found)
        order = np.argsort(whole.start_s)
        start = whole.start_s[order]
        if (start[1:] == start[:-1]).any():  # two at once are rare, and sorting by two columns takes four times as long
            order = np.lexsort((whole.device, whole.start_s))
        return whole.rows(order)

    def _next_of(self, device: Ids) -> Block:
        """One session of each of these devices."""
        about, number = self._availability, self._number[device]
        start = self._start[device]
        length = at(about.session, uniform(self._seed, Purpose.SESSION, device, number))
        end = start + np.maximum(length, LEAST_SESSION_S)
        gap = np.maximum(at(about.gap, uniform(self._seed, Purpose.GAP, device, number)), 0.0)
        self._start[device] = about.day.after(end, gap)
        self._number[device] += 1
        return Block(start, end, device, number)


TICK_S = 2.0**-20  # about a microsecond


@dataclass(slots=True, eq=False)
class _Part:
    """A row per session, as in ``Block``, in 24 bytes."""

    start_s: Reals
    end_s: Reals
    device: NDArray[np.int32]
    number: NDArray[np.int32]
    again: slice | NDArray[np.int64]  # the rows that are repeated


class Replay:
    """``sessions`` come in order of start; those that begin before ``period_s`` are kept as they are first read."""

    def __init__(
        self, sessions: Callable[[], Iterable[Block]], devices: int, period_s: float, *, begun_before: bool
    ) -> None:
        """``begun_before``: sessions that start at 0 had begun before."""
        self._sessions = sessions
        self._devices = devices
        self.period_s = max(float(ticks(np.array(period_s))), TICK_S)
        self._begun_before = begun_before
        self._parts: list[_Part] | None = None  # once they were all read
        self._each = np.zeros(0, np.int32)  # sessions of a device in a repeat

    def __call__(self) -> Iterator[Block]:
        """From the start, the same each time, for ever. Raises UsageError if there is no session in the period."""
        yield from self._first_time() if self._parts is None else map(_block, self._parts)
        if not self._parts:
            raise UsageError("REPLAY", "no session begins in the period that is repeated", fix="lengthen replay")
        for repeat in count(1):
            for part in self._parts:
                yield self._later(part, repeat)

    def _first_time(self) -> Iterator[Block]:
        """The period as it is read. It is kept once it was read to its end."""
        first = np.full(self._devices, np.inf)  # of each device's sessions, that begin in the period
        parts: list[_Part] = []
        for part in self._read():
            begins = part.start_s > 0 if self._begun_before else slice(None)
            np.minimum.at(first, part.device[begins], part.start_s[begins])
            # Whatever is under way at the end has begun above, unless it is there from the beginning to the end.
            late = np.flatnonzero(part.end_s > self.period_s)
            again = first[part.device[late]]
            limit = self.period_s + np.where(np.isinf(again), 0.0, again)
            part.end_s[late] = np.minimum(part.end_s[late], limit)
            parts.append(part)
            yield _block(part)
        self._settle(parts, np.isinf(first))

    def _later(self, part: _Part, repeat: int) -> Block:
        device = part.device[part.again].astype(np.int64)
        shift = repeat * self.period_s
        number = part.number[part.again] + repeat * self._each[device].astype(np.int64)
        return Block(part.start_s[part.again] + shift, part.end_s[part.again] + shift, device, number)

    def _read(self) -> Iterator[_Part]:
        for block in self._sessions():
            rows = int(np.searchsorted(block.start_s, self.period_s))
            start = ticks(block.start_s[:rows])
            end = np.maximum(ticks(block.end_s[:rows]), start + TICK_S)
            device, number = (column[:rows].astype(np.int32) for column in (block.device, block.number))
            if rows:
                yield _Part(start, end, device, number, slice(None))
            if rows < len(block):
                return

    def _settle(self, parts: list[_Part], alone: NDArray[np.bool_]) -> None:
        """Which sessions are repeated; ``alone``: devices that have none but one that had begun before."""
        each = np.zeros(self._devices, np.int32)
        for part in parts:
            if self._begun_before and part.start_s[0] == 0:
                part.again = np.flatnonzero((part.start_s > 0) | alone[part.device])
            each += np.bincount(part.device[part.again], minlength=self._devices).astype(np.int32)
        self._parts, self._each = parts, each


def _block(part: _Part) -> Block:
    return Block(part.start_s, part.end_s, part.device.astype(np.int64), part.number.astype(np.int64))


def ticks(time_s: Reals) -> Reals:
    """Cut to a multiple of TICK_S."""
    return np.floor(time_s / TICK_S) * TICK_S


def numbered(device: Ids, seen: NDArray[np.int64]) -> Ids:
    """The number, from 1, of each row among the rows of its device; ``seen`` counts those before, and is brought up."""
    order = np.argsort(device, kind="stable")
    sorted_device = device[order]
    begins = np.flatnonzero(np.diff(sorted_device, prepend=-1))
    sizes = np.diff(begins, append=len(device))
    rank = np.arange(len(device)) - np.repeat(begins, sizes)
    number = np.empty(len(device), np.int64)
    number[order] = rank + 1 + seen[sorted_device]
    seen[sorted_device[begins]] += sizes
    return number
