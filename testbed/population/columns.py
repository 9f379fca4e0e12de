"""What devices report, as columns: a row per device, in chunks."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.requirements import Capabilities, Comparison
from testbed.population.chance import Reals
from testbed.population.phones import REPORTED, phones

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
    """Where devices come from. A device is its number, from 0."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all capabilities and labels that any of them reports."""
        ...

    def columns(self, first: int, count: int) -> Columns:
        """Of devices number ``first`` to ``first + count - 1``: the same however they are cut into chunks."""
        ...


@dataclass(frozen=True, slots=True)
class GeneratedPhones:
    """As many as one likes."""

    seed: int
    names: tuple[str, ...] = REPORTED

    def columns(self, first: int, count: int) -> Columns:
        return Columns(count, phones(count, self.seed, first).columns())


@dataclass(frozen=True, slots=True, eq=False)
class ListedDevices:
    """Those of a file, gone through again where more are wanted than it has."""

    listed: Columns  # at least one row
    names: tuple[str, ...] = ()

    def columns(self, first: int, count: int) -> Columns:
        return self.listed.take(np.arange(first, first + count, dtype=np.int64) % self.listed.rows)


def chunks(devices: Devices, count: int) -> Iterator[Columns]:
    """Devices 0 to ``count - 1``, at most CHUNK at once."""
    for first in range(0, count, CHUNK):
        yield devices.columns(first, min(CHUNK, count - first))
