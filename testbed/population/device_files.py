"""Devices from files: what each of them reports.

CSV and Parquet have a column ``device``, their names, and one column per capability: numbers in base units (bytes,
seconds, bit/s) or texts, which become labels. An empty cell is not reported. Pickled dictionaries are those of FedScale
and Venn (``fedscale``), whose devices have no names that other files know.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.population.columns import Columns, ListedDevices
from testbed.population.fedscale import read_capacities
from testbed.population.listed import Cell, ColumnsBuilder
from testbed.population.table_files import bad, opened_csv
from venn.wire.errors import UsageError
from venn.wire.text import printable

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
    """Raises UsageError, with the line."""
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
    """Raises ValueError if there is no name, or a second one like it."""
    if not name:
        raise ValueError("has no device")
    if name in ids:
        raise ValueError(f"device {printable(name, 40)} is there a second time")
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
