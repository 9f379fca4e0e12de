"""The sessions of a large population, in order of time, block by block; those of a period can be repeated for ever.

Memory grows with the number of devices and of the rows of a block, and not with the time that is covered.

Sessions of a period are kept at 24 bytes each (7 million sessions: 168 MB), so that a long run neither generates nor
reads them again. In the n-th repeat (n = 0, 1, ...) every time is n periods later, and a device's intervals are
numbered on. Times are cut to the multiples of TICK_S, in which sums and differences are exact up to 272 years: repeats
are equal to the last bit, and sessions of a device never overlap by a rounding error.

What is under way at the end of the period goes on into the next one, until the device's first session of that begins.
So sessions that had begun before time 0 stand at its beginning once, and not in every repeat; only a device that has no
other session is there again from the beginning.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from device_agent.sessions import DAY_S, Availability, Block, Day, Sessions
from venn.wire.chance import Ids, Reals
from venn.wire.errors import UsageError
from venn.wire.notation import Exponential, LogNormal

MOST_ROWS = 1_000_000  # of a block
ROWS = 1 << 17  # of a block on average


# As many devices as make 7 million sessions in 5 days, as the paper's trace has. Their lengths are ours: phones charge
# for a quarter of an hour at the median, and mostly at night.
PHONES_AVAILABILITY = Availability(
    LogNormal(900.0, 1.0, "duration"), Exponential(7200.0, "duration"), Day(3.0, 2 * 3600.0)
)
PHONE_SESSIONS_PER_S = 7e6 / (5 * DAY_S)


def sessions(availability: Availability, devices: int, seed: int, until_s: float) -> Iterator[Block]:
    """All sessions that begin before ``until_s``, or without an end, and end after 0, at most MOST_ROWS to a block.

    One that had begun before 0 begins at 0. Blocks follow each other in time.
    """
    state = Sessions(availability, np.arange(devices, dtype=np.int64), seed)
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
    """Sessions repeated for ever, in order of start; those that begin before ``period_s`` are kept as first read."""

    def __init__(
        self, sessions: Callable[[], Iterable[Block]], devices: int, period_s: float, *, begun_before: bool
    ) -> None:
        """Prepare the repetition. ``begun_before``: sessions that start at 0 had begun before."""
        self._sessions = sessions
        self._devices = devices
        self.period_s = max(float(ticks(np.array(period_s))), TICK_S)
        self._begun_before = begun_before
        self._parts: list[_Part] | None = None  # once they were all read
        self._each = np.zeros(0, np.int32)  # sessions of a device in a repeat

    def __call__(self) -> Iterator[Block]:
        """All sessions from the start, the same each time, for ever. Raises UsageError if none begins in the period."""
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
