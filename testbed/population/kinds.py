"""Kinds of devices: those that answer every job's requirement alike, found for whole columns at once."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Capabilities, Comparison, Requirement, comparisons
from testbed.population.columns import Columns

Kinds = NDArray[np.int32]

_AT_ONCE = 40  # answers that a code has room for, beside the rank of those before


def atoms(requirements: Iterable[Requirement]) -> tuple[Comparison, ...]:
    """Every comparison in them once, in the order of the first time."""
    return tuple(dict.fromkeys(atom for requirement in requirements for atom in comparisons(requirement)))


class KindTable:
    """The kinds seen so far, numbered in the order of their first device, which stands for all of its kind."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._atoms = atoms(requirements)
        self._found: dict[bytes, int] = {}  # answers to the atoms -> kind
        self._capabilities: list[Capabilities] = []

    @property
    def capabilities(self) -> tuple[Capabilities, ...]:
        """By kind."""
        return tuple(self._capabilities)

    def kinds(self, columns: Columns) -> Kinds:
        """Of each of these devices."""
        answers = np.empty((len(self._atoms), columns.rows), np.bool_)
        for index, atom in enumerate(self._atoms):
            answers[index] = columns.answers(atom)
        first, place = _distinct(answers)
        # New kinds are numbered by their first device, whatever the order of the codes.
        order = np.argsort(first)
        number = np.empty(len(first), np.int32)
        for rank in order.tolist():
            row = int(first[rank])
            key = answers[:, row].tobytes()
            if key not in self._found:
                self._found[key] = len(self._capabilities)
                self._capabilities.append(columns.row(row))
            number[rank] = self._found[key]
        return number[place]

    def met_by_some(self, requirement: Requirement) -> bool:
        """Whether any device seen so far is eligible. A requirement that names devices is not asked for here."""
        return any(requirement.matches(DeviceId(""), each) for each in self._capabilities)


def _distinct(answers: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first column of each distinct kind of column, and for every column the place of its kind among them."""
    place = np.zeros(answers.shape[1], np.int64)
    first = np.zeros(min(1, answers.shape[1]), np.int64)
    for start in range(0, len(answers), _AT_ONCE):
        code = place
        for answer in answers[start : start + _AT_ONCE]:
            code = code * 2 + answer
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return first.astype(np.int64), place.astype(np.int64)
