"""Columns made row by row, for files whose columns are not known to be numbers or texts until one is seen."""

import math
from array import array
from collections.abc import Sequence

import numpy as np

from testbed.population.chance import Reals
from testbed.population.columns import Columns, Texts
from venn.wire.notation.requirements import NAME
from venn.wire.text import printable

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
            if len(cell.encode()) > LONGEST_TEXT:
                raise ValueError(f"{self.name} has more than {LONGEST_TEXT} bytes")
            self._codes.append(self._texts.setdefault(cell, len(self._texts)))
        elif math.isfinite(cell):
            self._numbers.append(cell)
        else:
            raise ValueError(f"{self.name} is {cell}, and no finite number")

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
