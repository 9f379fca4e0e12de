"""What a timeline adds to a device's availability: times at which it is not there, and how it goes. Pure.

Seconds count from the run's epoch, as those of intervals do.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from device_agent.availability import LEAST_SESSION_S, Ending, Interval


class Going(StrEnum):
    """How a device goes."""

    LEAVE = "leave"  # with a goodbye
    CRASH = "crash"  # its process dies
    DISCONNECT = "disconnect"  # its connections break, and it works on
    SUSPEND = "suspend"  # it stands still, its connections open
    PARTITION = "partition"  # nothing that it says arrives, nor what is said to it; its connections stay open


_ENDING = {
    Going.LEAVE: Ending.GOODBYE,
    Going.CRASH: Ending.CRASH,
    Going.DISCONNECT: Ending.CUT,
    Going.SUSPEND: Ending.SILENT,
    Going.PARTITION: Ending.SILENT,
}


@dataclass(frozen=True, slots=True)
class Absence:
    """The device is not there from ``from_s`` until before ``until_s``."""

    from_s: float  # >= 0
    until_s: float  # > from_s; inf: for good
    how: Going

    def to_json(self) -> list[float | str | None]:
        return [self.from_s, self.until_s if math.isfinite(self.until_s) else None, self.how.value]

    @classmethod
    def from_json(cls, value: Sequence[float | str | None]) -> "Absence":
        """Raises ValueError or TypeError for anything else."""
        start, end, how = value
        return cls(float(start or 0.0), math.inf if end is None else float(end), Going(str(how)))


def without(intervals: Iterable[Interval], absences: Sequence[Absence]) -> Iterator[Interval]:
    """The intervals but for the absences, numbered anew from 1.

    One that an absence cuts ends as the absence says; what is left of it afterwards is an interval of its own.
    ``absences`` come in order of time and do not overlap.
    """
    number = 0
    for interval in intervals:
        if absences and absences[-1].until_s == math.inf and interval.start_s >= absences[-1].from_s:
            return
        for piece in _pieces(interval, absences):
            number += 1
            yield Interval(number, *piece)


def _pieces(interval: Interval, absences: Sequence[Absence]) -> Iterator[tuple[float, float, Ending]]:
    start = interval.start_s
    for absence in absences:
        if absence.until_s <= start:
            continue
        if absence.from_s >= interval.end_s:
            break
        if absence.from_s - start >= LEAST_SESSION_S:
            yield start, absence.from_s, _ENDING[absence.how]
        start = absence.until_s
    if interval.end_s - start >= LEAST_SESSION_S:
        yield start, interval.end_s, interval.ends
