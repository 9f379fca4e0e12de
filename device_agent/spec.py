"""Descriptions of devices, from flags or a line of population.jsonl; and when a device is there. Pure.

A device is there in numbered intervals, from distributions or a trace, without what a timeline takes. Generated
intervals are a function of (seed, device) alone, so that every policy meets the same devices at the same times. Seconds
count from the run's epoch.
"""

import csv
import hashlib
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum, StrEnum
from itertools import count, islice
from operator import le
from pathlib import Path
from typing import Any

import numpy as np

from device_agent.sessions import Absences, Availability, Sessions
from venn.v1.common_pb2 import Capabilities
from venn.wire.chance import Ids, Purpose, uniform
from venn.wire.errors import UsageError
from venn.wire.jsontext import made, parse_json, read_as
from venn.wire.notation import Constant, Distribution, parse_distribution
from venn.wire.text import printable

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_LABEL_VALUES = 64
MOST_LABEL_BYTES = 128  # of a name or a value
_AT_ONCE = 32  # sessions of a device that are drawn together
_TICKS_PER_S = 2**20  # generated times are cut to these, so that no processor's last digit makes a difference

Spans = Mapping[str, Sequence[tuple[float, float]]]  # device -> its (start, end), seconds, in order


class Ending(Enum):
    """The way in which a device goes when its interval is over."""

    GOODBYE = "goodbye"
    CRASH = "crash"  # its process dies, and forgets all
    CUT = "cut"  # its connections break, and it works on
    SILENT = "silent"  # nothing comes from it or reaches it, its connections stay open, and it works on


@dataclass(frozen=True, slots=True)
class Interval:
    """A time in which the device is there: from ``start_s`` until ``end_s``."""

    number: int  # from 1
    start_s: float
    end_s: float  # inf: for ever
    ends: Ending = Ending.GOODBYE


class AbsenceKind(StrEnum):
    """The way in which a timeline takes a device away."""

    LEAVE = "leave"  # with a goodbye
    CRASH = "crash"  # its process dies
    DISCONNECT = "disconnect"  # its connections break, and it works on
    SUSPEND = "suspend"  # its process is stopped, its connections stay open
    PARTITION = "partition"  # nothing that it says arrives, nor what is said to it; its connections stay open


_ENDING = {
    AbsenceKind.LEAVE: Ending.GOODBYE,
    AbsenceKind.CRASH: Ending.CRASH,
    AbsenceKind.DISCONNECT: Ending.CUT,
    AbsenceKind.SUSPEND: Ending.SILENT,
    AbsenceKind.PARTITION: Ending.SILENT,
}


@dataclass(frozen=True, slots=True)
class Absence:
    """A time that a timeline takes from a device: it is not there from ``from_s`` until before ``until_s``."""

    from_s: float  # >= 0
    until_s: float  # > from_s; inf: for good
    how: AbsenceKind

    def to_json(self) -> list[float | str | None]:
        return [self.from_s, self.until_s if math.isfinite(self.until_s) else None, self.how.value]

    @classmethod
    def from_json(cls, value: object) -> "Absence":
        """Read what ``to_json`` made. Raises ValueError for anything else."""
        start, end, how = read_as(tuple[float, float | None, str], value)
        until = math.inf if end is None else end
        if not 0 <= start < until:
            raise ValueError(f"it begins at {start} s and ends at {until} s")
        return cls(start, until, AbsenceKind(how))


def always() -> Iterator[Interval]:
    """One interval without an end."""
    yield Interval(1, 0.0, math.inf)


def generated(seed: int, device: str, session: Distribution, gap: Distribution, crash: float) -> Iterator[Interval]:
    """Sessions and gaps in turn, without an end, in their steady state at 0: the first may have begun before.

    ``crash`` is the probability that a session ends without a goodbye.
    """
    own, place = _number(device), np.zeros(1, np.int64)
    drawn = Sessions(Availability(session, gap), own, seed)
    number = 0
    while True:
        block = drawn.next(place, _AT_ONCE)
        times = (np.floor(each * _TICKS_PER_S) / _TICKS_PER_S for each in (block.start_s, block.end_s))
        crashes = uniform(seed, Purpose.CRASH, own, block.number) < crash
        for start, end, crashed in zip(*(each.tolist() for each in (*times, crashes)), strict=True):
            if end > 0:
                number += 1
                yield Interval(number, max(0.0, start), end, Ending.CRASH if crashed else Ending.GOODBYE)


def traced(seed: int, device: str, spans: Spans, crash: float) -> Iterator[Interval]:
    """The intervals of this device in a trace. Raises UsageError NOT_IN_TRACE."""
    if device not in spans:
        raise UsageError(
            "NOT_IN_TRACE", "the trace has no such device", where=device, fix="give it a row, or --name another"
        )
    numbers = np.arange(1, len(spans[device]) + 1)
    crashes = uniform(seed, Purpose.CRASH, _number(device), numbers) < crash
    for number, crashed, (start, end) in zip(numbers.tolist(), crashes.tolist(), spans[device], strict=True):
        yield Interval(number, start, end, Ending.CRASH if crashed else Ending.GOODBYE)


def upcoming(intervals: Iterable[Interval], now_s: float, first: int = 1) -> Iterator[Interval]:
    """The intervals that are not over at ``now_s``, numbered from ``first`` on."""
    return (interval for interval in intervals if interval.end_s > now_s and interval.number >= first)


def read_trace(path: Path) -> Spans:
    """Read a CSV file with the columns device, start_s, end_s. Raises UsageError TRACE, naming the line."""
    spans: dict[str, list[tuple[float, float]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            missing = [name for name in ("device", "start_s", "end_s") if name not in (rows.fieldnames or ())]
            if missing:
                raise _bad_trace(f"{path}:1", f"the columns {', '.join(missing)} are missing")
            for row in rows:
                _add_row(spans, row, f"{path}:{rows.line_num}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise _bad_trace(str(path), f"cannot be read: {why}") from error
    return spans


def _add_row(spans: dict[str, list[tuple[float, float]]], row: Mapping[str, str | None], where: str) -> None:
    try:
        start, end = float(row["start_s"] or ""), float(row["end_s"] or "")
    except ValueError:
        raise _bad_trace(where, "start_s and end_s must be seconds") from None
    if not (math.isfinite(start) and start < end):
        raise _bad_trace(where, f"a session from {start:g} s to {end:g} s has no length")
    mine = spans.setdefault(row["device"] or "", [])
    if mine and start < mine[-1][1]:
        raise _bad_trace(where, f"begins at {start:g} s, before the session above it ends at {mine[-1][1]:g} s")
    mine.append((start, end))


def _bad_trace(where: str, message: str) -> UsageError:
    return UsageError("TRACE", message, where=where, fix="write rows like flagship-07,0.0,41.5 in order of time")


def _number(device: str) -> Ids:
    """The number that names a device of this name in all draws."""
    return np.frombuffer(hashlib.sha256(device.encode()).digest()[:8], "<i8")


def without(intervals: Iterable[Interval], absences: Sequence[Absence]) -> Iterator[Interval]:
    """The intervals but for the absences, numbered anew from 1.

    One that an absence cuts ends as the absence says; what is left of it afterwards is an interval of its own.
    ``absences`` come in order of time and do not overlap.
    """
    rows, number = iter(intervals), count(1)
    gone = Absences(np.array([len(absences)]), ((one.from_s, one.until_s) for one in absences))
    while some := list(islice(rows, _AT_ONCE)):
        if absences and absences[-1].until_s == math.inf and some[0].start_s >= absences[-1].from_s:
            return
        start, end = np.array([(each.start_s, each.end_s) for each in some]).T
        pieces = gone.cut(np.zeros(len(some), np.int64), start, end)
        if pieces is None:
            yield from (replace(each, number=next(number)) for each in some)
            continue
        columns = (pieces.row, pieces.start_s, pieces.end_s, pieces.absence)
        for row, since, until, by in zip(*(each.tolist() for each in columns), strict=True):
            yield Interval(next(number), since, until, some[row].ends if by < 0 else _ENDING[absences[by].how])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """The description of one device. Its sessions are a pure function of its seed and its name, live and simulated.

    Numbers are in base units (a score, bytes). All times have the time scale of their run in them.
    """

    device: str
    fleet: str = ""  # of a scenario
    seed: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)  # those that it reports: cpu, memory, os and others
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    data: Mapping[str, Path] = field(default_factory=dict)  # its own share of each data set, by name
    session: str | None = None  # a distribution of durations in the notation; None: always there
    gap: str | None = None  # the same; None: no gap
    trace: tuple[tuple[float, float], ...] | None = None  # its sessions; None: as the two say
    crash: float = 0.0  # probability that a session ends without a goodbye
    tasks_per_session: int = 0  # 0: no limit
    tasks_per_day: int = 0  # 0: no limit
    process: str | None = None  # that hosts it: its own name if it has one to itself; None: the one that fleets share
    absences: tuple[Absence, ...] = ()  # by a run's timeline; in order of time, without overlap

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.device):
            raise UsageError(
                "NAME",
                "is not a device name",
                where=repr(printable(self.device, 80)),
                fix="use 1 to 64 letters, digits, '.', '_' and '-'",
            )
        if not 0 <= self.crash <= 1:
            raise UsageError("CRASH", f"crash {self.crash:g} is not between 0 and 1", where=self.device, fix="e.g. 30%")
        if self.gap is not None and self.session is None:
            raise UsageError("GAP", "a gap needs sessions", where=self.device, fix="give --session exp(8s) too")
        for distribution in (self.session, self.gap):
            if distribution is not None:
                parse_distribution(distribution)
        for tasks in (self.tasks_per_session, self.tasks_per_day):
            if not 0 <= tasks < 2**32:
                raise UsageError("TASKS", f"may work on {tasks} tasks", where=self.device, fix="write 1; 0 is no limit")
        for name, number in self.numbers.items():
            if not math.isfinite(number):
                message = f"{printable(name, 80)} is {number}, which is not a finite number"
                raise UsageError("NUMBER", message, where=self.device, fix="write e.g. 2.5")
        self._check_times()
        for name, values in self.labels.items():
            if len(values) > MOST_LABEL_VALUES:
                fix = f"at most {MOST_LABEL_VALUES} values"
                raise UsageError("LABEL", f"the label {name} has {len(values)} values", where=self.device, fix=fix)
        for word in (*self.numbers, *(word for name, values in self.labels.items() for word in (name, *values))):
            if not word.isprintable() or not 0 < len(word.encode()) <= MOST_LABEL_BYTES:
                message = f"{printable(word, 80)!r} is neither the name nor the value of a label"
                fix = f"use 1 to {MOST_LABEL_BYTES} bytes of characters that can be shown"
                raise UsageError("LABEL", message, where=self.device, fix=fix)

    def _check_times(self) -> None:
        """Check that sessions and absences come one after the other. Raises UsageError."""
        absences = [(absence.from_s, absence.until_s) for absence in self.absences]
        for what, spans, last in (("sessions", self.trace or (), sys.float_info.max), ("absences", absences, math.inf)):
            times = [time for span in spans for time in span]
            in_order = all(start < end for start, end in spans) and all(map(le, times, times[1:]))
            if not in_order or not all(-math.inf < time <= last for time in times):
                fix = "write them one after the other"
                raise UsageError("TIMES", f"its {what} are not in order of time", where=self.device, fix=fix)

    @property
    def alone(self) -> bool:
        """Whether it has a process to itself."""
        return self.process == self.device

    def intervals(self, trace: Spans | None = None) -> Iterator[Interval]:
        """The intervals in which the device is there. Raises UsageError."""
        own = self._own_intervals(trace)
        return without(own, self.absences) if self.absences else own

    def _own_intervals(self, trace: Spans | None) -> Iterator[Interval]:
        if trace is not None:
            return traced(self.seed, self.device, trace, self.crash)
        if self.trace is not None:
            return traced(self.seed, self.device, {self.device: self.trace}, self.crash)
        if self.session is None:
            return always()
        gap = Constant(0.0, "duration") if self.gap is None else parse_distribution(self.gap)
        return generated(self.seed, self.device, parse_distribution(self.session), gap, self.crash)

    def capabilities(self) -> Capabilities:
        message = Capabilities(numbers=self.numbers)
        for name, values in self.labels.items():
            message.labels[name].values.extend(values)
        return message

    def to_json(self) -> dict[str, Any]:
        """A line of population.jsonl."""
        value = {each.name: getattr(self, each.name) for each in fields(self)}
        data = {name: str(path) for name, path in self.data.items()}
        return {**value, "data": data, "absences": [absence.to_json() for absence in self.absences]}

    @classmethod
    def from_json(cls, value: object) -> "DeviceSpec":
        """Read a device. Raises UsageError, ValueError for anything else."""
        return made(cls, value, whole=True)


def read_population(path: Path, only: str | None = None) -> list[DeviceSpec]:
    """Read the devices of a population.jsonl; ``only`` the one of that name. Raises UsageError, naming the line."""
    devices = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    devices.append(_from_line(line, f"{path}:{number}"))
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError("POPULATION", message, where=str(path), fix="name a population.jsonl") from error
    if only is None:
        return devices
    found = [device for device in devices if device.device == only]
    if not found:
        raise UsageError(
            "POPULATION", f"has no device {printable(only, 64)}", where=str(path), fix="name one of its devices"
        )
    return found


def _from_line(line: str, where: str) -> DeviceSpec:
    try:
        return DeviceSpec.from_json(parse_json(line))
    except ValueError as error:
        message = f"is not a device: {printable(str(error), 80)}"
        raise UsageError("POPULATION", message, where=where, fix="use the file as `venn run` wrote it") from error
    except UsageError as error:
        error.where = f"{where}: {error.where}"
        raise
