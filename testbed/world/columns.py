"""What devices report, as columns: a row per device, in chunks; and the CSV files that columns are read from."""

import csv
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.requirements import Capabilities, Comparison
from testbed.world.capabilities import REPORTED, phones
from venn.wire.chance import Reals
from venn.wire.errors import UsageError
from venn.wire.requirements import NAME
from venn.wire.text import printable

CHUNK = 1 << 18  # devices at once
_COMPARE = {
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    "!=": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A label with at most one value per device."""

    code: NDArray[np.int32]  # index into ``values``; -1: the device has no such label
    values: tuple[str, ...]  # each once


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A row per device; all columns are as long."""

    rows: int
    numbers: Mapping[str, Reals] = field(default_factory=dict)  # in base units; NaN: not reported
    labels: Mapping[str, Texts] = field(default_factory=dict)

    def take(self, which: NDArray[np.int64]) -> "Columns":
        numbers = {name: column[which] for name, column in self.numbers.items()}
        labels = {name: Texts(each.code[which], each.values) for name, each in self.labels.items()}
        return Columns(len(which), numbers, labels)

    def answers(self, atom: Comparison) -> NDArray[np.bool_]:
        """Which devices meet a comparison, as ``Comparison.matches`` has it: what is absent meets none."""
        if isinstance(atom.value, str):
            texts = self.labels.get(atom.name)
            if texts is None:
                return np.zeros(self.rows, np.bool_)
            found = texts.values.index(atom.value) if atom.value in texts.values else -2
            alike: NDArray[np.bool_] = texts.code == found
            return (texts.code >= 0) & (alike if atom.operator == "=" else ~alike)
        number = self.numbers.get(atom.name)
        if number is None:
            return np.zeros(self.rows, np.bool_)
        return np.asarray(_COMPARE[atom.operator](number, atom.value)) & ~np.isnan(number)

    def row(self, index: int) -> Capabilities:
        """What one device reports."""
        numbers = {name: float(column[index]) for name, column in self.numbers.items()}
        codes = {name: (int(each.code[index]), each.values) for name, each in self.labels.items()}
        return Capabilities(
            {name: number for name, number in numbers.items() if not math.isnan(number)},
            {name: frozenset([values[code]]) for name, (code, values) in codes.items() if code >= 0},
        )


class Devices(Protocol):
    """A source of devices. A device is its number, from 0."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all capabilities and labels that any of them reports."""
        ...

    def columns(self, first: int, count: int) -> Columns:
        """What devices ``first`` to ``first + count - 1`` report: the same however they are cut into chunks."""
        ...


@dataclass(frozen=True, slots=True)
class GeneratedPhones:
    """Generated phones, as many as one likes."""

    seed: int
    names: tuple[str, ...] = REPORTED

    def columns(self, first: int, count: int) -> Columns:
        return Columns(count, phones(count, self.seed, first).columns())


@dataclass(frozen=True, slots=True, eq=False)
class ListedDevices:
    """The devices of a file, gone through again where more are wanted than it has."""

    listed: Columns  # at least one row
    names: tuple[str, ...] = ()

    def columns(self, first: int, count: int) -> Columns:
        return self.listed.take(np.arange(first, first + count, dtype=np.int64) % self.listed.rows)


def chunks(devices: Devices, count: int) -> Iterator[Columns]:
    """Devices 0 to ``count - 1``, at most CHUNK at once."""
    for first in range(0, count, CHUNK):
        yield devices.columns(first, min(CHUNK, count - first))


LONGEST_TEXT = 128  # bytes of a label's value, as on the wire
MOST_COLUMNS = 256

Cell = float | str | None  # None: the device does not report it


class _Column:
    """Numbers or texts, as its first cell has it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number: bool | None = None  # None: no cell so far
        self._numbers = array("d")
        self._codes = array("i")
        self._texts: dict[str, int] = {}

    def add(self, row: int, cell: Cell) -> None:
        if cell is None:
            return
        if self.number is None:
            self.number = not isinstance(cell, str)
        self._fill(row)
        if isinstance(cell, str) == self.number:
            kinds = ("a text", "numbers") if self.number else ("a number", "texts")
            raise ValueError(f"{self.name} is {printable(repr(cell), 40)}, {kinds[0]}, and above it are {kinds[1]}")
        if isinstance(cell, str):
            if not cell.isprintable():
                raise ValueError(f"{self.name} is {printable(repr(cell), 40)}, with a character that cannot be shown")
            if len(cell.encode()) > LONGEST_TEXT:
                raise ValueError(f"{self.name} has more than {LONGEST_TEXT} bytes")
            self._codes.append(self._texts.setdefault(cell, len(self._texts)))
        elif math.isfinite(cell):
            self._numbers.append(cell)
        else:
            raise ValueError(f"{self.name} is {cell}, which is not a finite number")

    def _fill(self, rows: int) -> None:
        """Rows that do not report it."""
        if self.number:
            self._numbers.extend([math.nan] * (rows - len(self._numbers)))
        else:
            self._codes.extend([-1] * (rows - len(self._codes)))

    def made(self, rows: int) -> Reals | Texts:
        """All of it, ``rows`` long."""
        self._fill(rows)
        if self.number:
            return np.array(self._numbers, np.float64)
        return Texts(np.array(self._codes, np.int32), tuple(self._texts))


class ColumnsBuilder:
    """Takes devices one by one."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self.rows = 0

    def numeric(self, name: str) -> bool | None:
        """Whether a column is known to be numbers, or to be texts."""
        column = self._columns.get(name)
        return None if column is None else column.number

    def add(self, names: Sequence[str], cells: Sequence[Cell]) -> None:
        """The next device. Raises ValueError."""
        for name, cell in zip(names, cells, strict=True):
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = self._new(name)
            column.add(self.rows, cell)
        self.rows += 1

    def _new(self, name: str) -> _Column:
        if not NAME.fullmatch(name):
            raise ValueError(f"{printable(repr(name), 40)} is not the name of a capability")
        if len(self._columns) == MOST_COLUMNS:
            raise ValueError(f"there are more than {MOST_COLUMNS} capabilities")
        return _Column(name)

    def columns(self) -> Columns:
        """All devices so far; a capability that none reports is left out."""
        made = {name: each.made(self.rows) for name, each in self._columns.items() if each.number is not None}
        return Columns(
            self.rows,
            {name: column for name, column in made.items() if not isinstance(column, Texts)},
            {name: column for name, column in made.items() if isinstance(column, Texts)},
        )


FIX = "see docs/population.md for what the file holds"
LATEST_S = 366 * 86_400.0  # of a session; as long as a coordinator counts
Rows = Iterator[tuple[int, list[str]]]  # with their lines, from 1


def bad(where: object, message: str) -> UsageError:
    """A file that cannot be used."""
    return UsageError("POPULATION", message, where=str(where), fix=FIX)


@contextmanager
def opened_csv(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[list[str], Rows]]:
    """The columns' names and the rows, each as long as those; blank lines are left out. Raises UsageError."""
    reader = csv.reader(())
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            if not header:
                raise bad(f"{path}:1", f"is empty; its first line names the columns {', '.join(needed)}")
            for name in needed:
                if name not in header:
                    raise bad(f"{path}:1", f"has no column {name}")
            for name in header:
                if header.count(name) > 1:
                    raise bad(f"{path}:1", f"has the column {printable(name, 40)} twice")

            def rows() -> Rows:
                for row in reader:
                    line = reader.line_num
                    if row:
                        if len(row) != len(header):
                            message = f"has {len(row)} values, and the first line names {len(header)} columns"
                            raise bad(f"{path}:{line}", message)
                        yield line, row

            yield header, rows()
    except OSError as error:
        raise bad(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise bad(path, f"is not UTF-8 text after line {reader.line_num}") from error
    except csv.Error as error:
        raise bad(f"{path}:{reader.line_num}", f"is not CSV: {error}") from error
