"""Files of devices, and of the sessions in which they are there.

Files of devices: CSV and Parquet have a column ``device``, their names, and one column per capability: numbers in base
units (bytes, seconds, bit/s) or texts, which become labels. An empty cell is not reported. Pickled dictionaries are
those of FedScale and Venn (``fedscale``), whose devices have no names that other files know.

Files of sessions: CSV with the columns ``device,start_s,end_s``, in order of start, is read in parts each time it is
wanted, so that memory grows with the number of devices and not with that of sessions. A pickled trace of FedScale can
be read whole only; its sessions are kept in 20 bytes each.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from device_agent.sessions import Block
from testbed.world.columns import LATEST_S, Cell, Columns, ColumnsBuilder, ListedDevices, Rows, bad, opened_csv
from testbed.world.fedscale import Behaviour, read_behaviour, read_capacities
from testbed.world.sessions import TICK_S, numbered, ticks
from venn.wire.chance import Ids, Reals
from venn.wire.errors import UsageError
from venn.wire.text import did_you_mean, printable

DEVICE = "device"


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFile:
    """What a file holds of devices."""

    columns: Columns  # at least one row
    ids: Mapping[str, int] | None  # by name their row; None: they have no names

    @property
    def devices(self) -> ListedDevices:
        return ListedDevices(self.columns, (*self.columns.numbers, *self.columns.labels))


def read_devices(path: Path) -> DeviceFile:
    """Read a file of devices. Raises UsageError, with the line."""
    match path.suffix:
        case ".csv":
            file = _read_csv(path)
        case ".parquet":
            file = _read_parquet(path)
        case _:
            file = DeviceFile(read_capacities(path), None)
    if not file.columns.rows:
        raise bad(path, "has no device")
    return file


def _read_csv(path: Path) -> DeviceFile:
    builder, ids = ColumnsBuilder(), dict[str, int]()
    with opened_csv(path, (DEVICE,)) as (header, rows):
        at = header.index(DEVICE)
        names = [name for name in header if name != DEVICE]
        for line, row in rows:
            try:
                _name(ids, row[at])
                texts = row[:at] + row[at + 1 :]
                builder.add(names, [_cell(builder, name, text) for name, text in zip(names, texts, strict=True)])
            except ValueError as error:
                raise bad(f"{path}:{line}", str(error)) from None
    return DeviceFile(builder.columns(), ids)


def _name(ids: dict[str, int], name: str) -> None:
    """Give a device's name its number. Raises ValueError if there is none, or a second one like it."""
    if not name:
        raise ValueError("has no device")
    if name in ids:
        raise ValueError(f"device {printable(name, 40)} occurs twice")
    ids[name] = len(ids)


def _cell(builder: ColumnsBuilder, name: str, text: str) -> Cell:
    text = text.strip()
    if not text:
        return None
    if builder.numeric(name) is False:
        return text
    try:
        return float(text)
    except ValueError:
        return text


def _read_parquet(path: Path) -> DeviceFile:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        fix = "pip install 'venn-testbed[parquet]', or make it a CSV file"
        raise UsageError("MISSING_EXTRA", "Parquet files need pyarrow", where=str(path), fix=fix) from error
    builder, ids = ColumnsBuilder(), dict[str, int]()
    try:
        with ParquetFile(path) as file:
            if DEVICE not in file.schema_arrow.names:
                raise bad(path, f"has no column {DEVICE}")
            for batch in file.iter_batches(batch_size=65_536):
                _add_batch(path, builder, ids, batch.to_pydict())
    except (OSError, pyarrow.ArrowException) as error:
        raise bad(path, f"cannot be read: {printable(str(error), 120)}") from error
    return DeviceFile(builder.columns(), ids)


def _add_batch(path: Path, builder: ColumnsBuilder, ids: dict[str, int], columns: Mapping[str, list[object]]) -> None:
    devices = columns[DEVICE]
    names = [name for name in columns if name != DEVICE]
    for row in range(len(devices)):
        try:
            _name(ids, "" if devices[row] is None else str(devices[row]))
            builder.add(names, [_value(name, columns[name][row]) for name in names])
        except ValueError as error:
            raise bad(path, f"row {len(ids)}: {error}") from None


def _value(name: str, value: object) -> Cell:
    match value:
        case None:
            return None
        case str():
            return value.strip() or None
        case bool() | int() | float():
            return None if math.isnan(value) else float(value)
        case _:
            raise ValueError(f"{name} holds neither numbers nor texts")


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
        """Check that no session overlaps its device's last, and bring ``ends`` up to date."""
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
