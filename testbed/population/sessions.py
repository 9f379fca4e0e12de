"""When the devices of a large population are there: all their sessions, in order of time, block by block.

A device is there for a session, away for a gap, and so on; gaps pass faster by day or by night (``Day``). Its n-th
session is a function of (seed, device, n) alone. Memory grows with the number of devices and of the rows of a block,
and not with the time that is covered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from testbed.population.chance import Ids, Purpose, Reals, uniform
from testbed.population.day import DAY_S, Day
from testbed.population.lengths import at
from venn.wire.notation import Distribution, Exponential, LogNormal

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
PHONES = Availability(LogNormal(900.0, 1.0, "duration"), Exponential(7200.0, "duration"), Day(3.0, 2 * 3600.0))
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
