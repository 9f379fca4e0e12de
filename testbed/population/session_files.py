"""Sessions from files: when devices are there.

CSV with the columns ``device,start_s,end_s``, in order of start, is read in parts each time it is wanted, so that
memory grows with the number of devices and not with that of sessions. A pickled trace of FedScale (``fedscale``) can be
read whole only; its sessions are kept in 20 bytes each.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from testbed.population.chance import Ids, Reals
from testbed.population.fedscale import Behaviour, read_behaviour
from testbed.population.replay import TICK_S, numbered, ticks
from testbed.population.sessions import Block
from testbed.population.table_files import LATEST_S, Rows, bad, opened_csv
from venn.wire.text import did_you_mean, printable

COLUMNS = ("device", "start_s", "end_s")
PART = 1 << 16  # lines at once


@dataclass(frozen=True, slots=True, eq=False)
class SessionFile:
    """What a file holds of sessions."""

    blocks: Callable[[], Iterator[Block]]  # in order of start, the same each time
    devices: int
    rows: int
    ids: Mapping[str, int]  # by the device's name its number
    empty: int = 0  # sessions without any length, which are left out


def read_sessions(path: Path, ids: Mapping[str, int] | None) -> SessionFile:
    """All of it is read once and checked. ``ids`` are the numbers of devices by name; None: in the order of the file.

    Raises UsageError, with the line.
    """
    if path.suffix == ".csv":
        reader = _CsvSessions(path, ids)
        rows = sum(len(block) for block in reader.blocks())
        if not rows:
            raise bad(path, "has no session")
        return SessionFile(reader.blocks, reader.devices, rows, reader.ids)
    trace = read_behaviour(path)
    if ids is None:
        return as_file(trace)
    for name in trace.ids:
        if name not in ids:
            raise _unknown(path, name, ids)
    number = np.array([ids[name] for name in trace.ids], np.int64)

    def named() -> Iterator[Block]:
        for block in trace.blocks():
            yield Block(block.start_s, block.end_s, number[block.device], block.number)

    return SessionFile(named, len(ids), len(trace.start_s), ids, trace.empty)


def as_file(trace: Behaviour) -> SessionFile:
    """The clients are numbered as they stand."""
    return SessionFile(trace.blocks, trace.devices, len(trace.start_s), trace.ids, trace.empty)


def _unknown(where: object, name: str, ids: Mapping[str, int]) -> Exception:
    hint = did_you_mean(name, list(ids)[:1000])
    return bad(where, f"device {printable(name, 40)} is not among the devices{'; ' if hint else ''}{hint}")


class _CsvSessions:
    """The file, and the numbers of its devices once it was read."""

    def __init__(self, path: Path, ids: Mapping[str, int] | None) -> None:
        self._path = path
        self._fixed = ids is not None
        self.ids: dict[str, int] = dict(ids or {})

    @property
    def devices(self) -> int:
        return len(self.ids)

    def blocks(self) -> Iterator[Block]:
        """A block per PART of lines. Raises UsageError, with the line."""
        ends = np.full(max(self.devices, 1024), -np.inf)  # of each device's last session
        seen = np.zeros(len(ends), np.int64)
        last = 0.0
        with opened_csv(self._path, COLUMNS) as (header, rows):
            places = tuple(header.index(name) for name in COLUMNS)
            while len(part := self._part(islice(rows, PART), places)):
                if self.devices > len(ends):
                    ends = np.concatenate([ends, np.full(self.devices, -np.inf)])
                    seen = np.concatenate([seen, np.zeros(self.devices, np.int64)])
                self._check(part, last)
                self._check_overlaps(part, ends)
                last = float(part.start_s[-1])
                yield Block(ticks(part.start_s), ticks(part.end_s), part.device, numbered(part.device, seen))

    def _part(self, rows: Rows, places: tuple[int, ...]) -> "_Part":
        # One list per column: a list per row would keep the garbage collector busy for longer than the reading takes.
        lines: list[int] = []
        device: list[int] = []
        starts: list[str] = []
        ends: list[str] = []
        named, from_s, to_s = places
        ids = self.ids
        for line, row in rows:
            number = ids.get(row[named])
            device.append(self._new(row[named], line) if number is None else number)
            lines.append(line)
            starts.append(row[from_s])
            ends.append(row[to_s])
        start_s, end_s = (self._seconds(lines, texts) for texts in (starts, ends))
        return _Part(lines, np.array(device, np.int64), start_s, end_s)

    def _new(self, name: str, line: int) -> int:
        """The number of a device that has none so far."""
        if not name:
            raise bad(f"{self._path}:{line}", "names no device")
        if self._fixed:
            raise _unknown(f"{self._path}:{line}", name, self.ids)
        return self.ids.setdefault(name, len(self.ids))

    def _seconds(self, lines: list[int], texts: list[str]) -> Reals:
        try:
            return np.array(texts, np.float64)
        except ValueError:
            for line, text in zip(lines, texts, strict=True):
                try:
                    float(text)
                except ValueError:
                    message = f"{printable(repr(text), 40)} is not a number of seconds"
                    raise bad(f"{self._path}:{line}", message) from None
            raise

    def _check(self, part: "_Part", last: float) -> None:
        start, end = part.start_s, part.end_s
        before = np.concatenate([[last], start[:-1]])
        with np.errstate(invalid="ignore"):  # of times that are not finite, which are refused first
            lasting = end - start
        for wrong, told in (
            (~(np.isfinite(start) & np.isfinite(end)), "holds a time that is not finite"),
            (start < 0, "begins before 0"),
            (np.maximum(start, end) > LATEST_S, "lies after 366 days: count seconds from the beginning of the trace"),
            (start < before, "begins before the session above it: sort the file by start_s"),
            (~(lasting >= TICK_S), "has no length: end_s is not after start_s"),
        ):
            found = np.flatnonzero(wrong)
            if len(found):
                raise bad(f"{self._path}:{part.lines[int(found[0])]}", told)

    def _check_overlaps(self, part: "_Part", ends: Reals) -> None:
        """``ends`` is brought up to date."""
        order = np.argsort(part.device, kind="stable")
        mine, begun, left = part.device[order], part.start_s[order], part.end_s[order]
        again = np.concatenate([[False], mine[1:] == mine[:-1]])
        before = np.where(again, np.concatenate([[0.0], left[:-1]]), ends[mine])
        found = order[begun < before]
        if len(found):
            line = part.lines[int(found.min())]
            raise bad(f"{self._path}:{line}", "begins before the last session of its device has ended")
        ends[part.device] = part.end_s  # of several the last one stays


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A row per line."""

    lines: list[int]
    device: Ids
    start_s: Reals
    end_s: Reals

    def __len__(self) -> int:
        return len(self.lines)
