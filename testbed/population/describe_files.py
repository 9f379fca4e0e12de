"""What a file holds of devices or of sessions, in figures whose size does not grow with it."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.population.chance import Reals
from testbed.population.columns import Columns
from testbed.population.compared import PERCENTILES, Compared, Kind, Row, found
from testbed.population.day import DAY_S
from testbed.population.describe_sessions import BIN_S, over_the_day
from testbed.population.device_files import read_devices
from testbed.population.fedscale import read_dictionary
from testbed.population.session_files import COLUMNS, SessionFile, as_file, read_sessions
from testbed.population.sessions import Block
from testbed.population.table_files import LATEST_S, opened_csv

MOST_VALUES = 12  # of a label that are told apart
_UNITS = {"memory": ("GB", 1e9), "link": ("Mbit/s", 1e6), "inference": ("ms", 1e-3)}


def describe_file(path: Path) -> tuple[Compared, ...]:
    """Raises UsageError."""
    if path.suffix == ".csv":
        with opened_csv(path, (COLUMNS[0],)) as (header, _):
            sessions = set(COLUMNS) <= set(header)
        return describe_session_file(read_sessions(path, None)) if sessions else _of_devices(path)
    if path.suffix == ".parquet":
        return _of_devices(path)
    held = read_dictionary(path)
    return describe_columns(held) if isinstance(held, Columns) else describe_session_file(as_file(held))


def _of_devices(path: Path) -> tuple[Compared, ...]:
    return describe_columns(read_devices(path).columns)


def describe_columns(columns: Columns) -> tuple[Compared, ...]:
    """Percentiles of each number and parts of each label, of those devices that report it."""
    numbers = []
    for name, column in columns.numbers.items():
        unit, scale = _UNITS.get(name, ("", 1.0))
        numbers.append(found(name, unit, column[~np.isnan(column)] / scale))
    reported = {name: float((~np.isnan(column)).mean()) for name, column in columns.numbers.items()}
    reported |= {name: float((each.code >= 0).mean()) for name, each in columns.labels.items()}
    rows = tuple(Row(name, math.nan, 100 * part) for name, part in reported.items())
    return (
        *numbers,
        Compared("devices", "", Kind.PARTS, (Row("all", math.nan, columns.rows),)),
        *([Compared("reported by", "% of devices", Kind.PARTS, rows)] if rows else []),
        *(_values(name, each.code, each.values) for name, each in columns.labels.items()),
    )


def _values(name: str, code: NDArray[np.int32], values: tuple[str, ...]) -> Compared:
    """The most frequent ones, and the rest together."""
    counts = np.bincount(code[code >= 0], minlength=len(values))
    most = np.argsort(-counts, kind="stable")[:MOST_VALUES].tolist()
    rest = int(counts.sum() - counts[most].sum())
    rows = [Row(values[place], math.nan, 100 * int(counts[place]) / len(code)) for place in most]
    rows += [Row("others", math.nan, 100 * rest / len(code))] if rest else []
    return Compared(name, "% of devices", Kind.PARTS, tuple(rows))


def describe_session_file(file: SessionFile) -> tuple[Compared, ...]:
    """Lengths, gaps, how often devices check in and when."""
    lengths, gaps = Spread(), Spread()
    left = np.full(file.devices, np.nan)  # when each device's last session ended
    begun = np.zeros(int(LATEST_S / BIN_S) + 1)
    last_s = 0.0
    for block in file.blocks():
        lengths.add(block.end_s - block.start_s)
        gaps.add(_gaps(block, left))
        begun += np.bincount((block.start_s / BIN_S).astype(np.intp), minlength=len(begun))
        last_s = max(last_s, float(block.end_s.max()))
    days = last_s / DAY_S
    rows = [Row("sessions", math.nan, file.rows), Row("devices", math.nan, file.devices), Row("days", math.nan, days)]
    rows += [Row("left out, without any length", math.nan, file.empty)] if file.empty else []
    often = Row("mean", math.nan, file.rows / file.devices / days)
    return (
        lengths.described("session"),
        *([gaps.described("gap")] if gaps.counts.any() else []),
        Compared("it holds", "", Kind.PARTS, tuple(rows)),
        Compared("check-ins", "per device and day", Kind.PARTS, (often,)),
        over_the_day(begun[: int(last_s / BIN_S) + 1], BIN_S),
    )


def _gaps(block: Block, left: Reals) -> Reals:
    """Before each session but its device's first; ``left`` is brought up to date."""
    order = np.argsort(block.device, kind="stable")
    device, start, end = block.device[order], block.start_s[order], block.end_s[order]
    again = np.concatenate([[False], device[1:] == device[:-1]])
    before = np.where(again, np.concatenate([[np.nan], end[:-1]]), left[device])
    left[device] = end
    gaps = start - before
    return gaps[~np.isnan(gaps)]


class Spread:
    """Percentiles of values that stream by, to within 0.2 %: counts between edges that lie 0.2 % apart."""

    def __init__(self) -> None:
        self._edges = np.geomspace(1e-3, 1e9, 13_801)  # ms to 30 years
        self.counts = np.zeros(len(self._edges) + 1)

    def add(self, values: Reals) -> None:
        self.counts += np.bincount(np.searchsorted(self._edges, values), minlength=len(self.counts))

    def described(self, name: str) -> Compared:
        """In minutes."""
        reached = np.searchsorted(np.cumsum(self.counts), np.array(PERCENTILES) * self.counts.sum())
        values = np.concatenate([[0.0], self._edges])[np.minimum(reached, len(self._edges))]
        minutes = (values / 60).tolist()
        rows = (Row(f"{100 * part:g} %", math.nan, each) for part, each in zip(PERCENTILES, minutes, strict=True))
        return Compared(name, "min", Kind.PERCENTILES, tuple(rows))
