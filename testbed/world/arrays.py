"""Sessions as arrays, for millions of them: a *row* is one session of one device.

Times are seconds of engine time. Rows come in blocks in order of time, at most MOST_ROWS to a block, so that memory
does not grow with the trace. A block may have no rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Ids = NDArray[np.int64]
Kinds = NDArray[np.int32]
Rows = slice | Ids | NDArray[np.bool_]
MOST_ROWS = 1_000_000  # of a block


class Matching(StrEnum):
    """When a device may be given a task."""

    WHILE_PRESENT = "while present"  # it waits while its session lasts
    AT_CHECK_IN = "at check-in"  # then or not at all: one task, and a device that is not leased at once leaves


@dataclass(frozen=True, slots=True, eq=False)
class CheckIns:
    """Sessions in order of (start, row); every column has a value per row. The sessions of a device do not overlap."""

    start_s: Reals
    end_s: Reals  # > start
    device: Ids  # its number, >= 0
    interval: Ids  # number of its availability interval, ascending per device
    kind: Kinds  # index into ``Simulation.kinds``
    slow: Reals  # seconds that a task with compute 1 s takes: 1 / speed, > 0; also what tiers are cut by
    byte_s: Reals  # seconds per byte of a task's transfers; 0: none, or the device has one of ``Simulation.links``
    crash: NDArray[np.bool_]  # whether the session ends without a goodbye

    def __len__(self) -> int:
        return len(self.start_s)

    def take(self, rows: Rows) -> "CheckIns":
        """These rows: a slice, their indices, or a flag for each."""
        return CheckIns(*(getattr(self, name)[rows] for name in CheckIns.__slots__))

    @classmethod
    def joined(cls, blocks: Sequence["CheckIns"]) -> "CheckIns":
        """The rows of all blocks, one block after the other."""
        none = cls(*(np.empty(0, kind) for kind in ("f8", "f8", "i8", "i8", "i4", "f8", "f8", "?")))
        return cls(*(np.concatenate([getattr(one, name) for one in (none, *blocks)]) for name in cls.__slots__))
