"""Which of very many devices are in a session of their own, moment by moment, within a span of time."""

from array import array
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from testbed.population.arrays import CheckIns
from venn.wire.errors import UsageError
from venn.wire.notation import format_duration

MOST_SESSIONS = 20_000_000  # within the span; some 50 bytes each

_NONE = -1  # no row: in no session


class Presence:
    """As it is at ``from_s``, and then as it changes up to ``to_s``."""

    def __init__(
        self, trace: Callable[[], Iterator[CheckIns]], of: NDArray[np.bool_], from_s: float, to_s: float
    ) -> None:
        """``of``: by device, whether it matters. Raises UsageError for more than MOST_SESSIONS."""
        device, start, end = _read(trace, of, from_s, to_s)
        row = np.arange(len(device), dtype=np.int32)
        there = np.flatnonzero(start <= from_s)
        sessions = np.full(len(of), _NONE, np.int32)
        sessions[device[there]] = row[there]
        self._session = array("i", sessions.tobytes())  # of each device the row that it is in
        self._ends = array("d", end.tobytes())
        self._device = array("i", device.tobytes())
        ending, beginning = np.flatnonzero(end <= to_s), np.flatnonzero(start > from_s)
        times = np.concatenate([end[ending], start[beginning]])
        order = np.argsort(times, kind="stable")  # who ends and begins at once is there
        self._times = array("d", times[order].tobytes())
        self._what = array("i", np.concatenate([~row[ending], row[beginning]])[order].tobytes())
        self._next = 0

    def there(self) -> NDArray[np.bool_]:
        """By device."""
        return np.asarray(np.frombuffer(self._session, np.int32) != _NONE)

    def ends(self, device: int) -> float | None:
        """When the session ends that it is in; None: it is in none."""
        row = self._session[device]
        return None if row == _NONE else self._ends[row]

    def advance(self, to_s: float) -> Iterator[int]:
        """Whoever comes or goes until then, ``to_s`` included; one by one, each as it does."""
        times, session = self._times, self._session
        while self._next < len(times) and times[self._next] <= to_s:
            what = self._what[self._next]
            self._next += 1
            device = self._device[what if what >= 0 else ~what]
            session[device] = what if what >= 0 else _NONE
            yield device


def _read(
    trace: Callable[[], Iterator[CheckIns]], of: NDArray[np.bool_], from_s: float, to_s: float
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Device, start and end of the sessions within the span, in order of start."""
    found: list[tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]] = []
    left = MOST_SESSIONS
    for block in trace():
        rows = np.flatnonzero((block.end_s > from_s) & (block.start_s <= to_s) & of[block.device])
        left -= len(rows)
        if left < 0:
            span = f"{format_duration(round(from_s, 1))} and {format_duration(round(to_s, 1))}"
            message = f"more than {MOST_SESSIONS:,} sessions lie between its first and last action, {span}"
            raise UsageError("CHURN", message, where="churn", fix="select fewer devices, or a shorter time")
        found.append((block.device[rows].astype(np.int32), block.start_s[rows], block.end_s[rows]))
        if len(block) and block.start_s[-1] > to_s:
            break
    if not found:
        return np.empty(0, np.int32), np.empty(0), np.empty(0)
    device, start, end = (np.concatenate(column) for column in zip(*found, strict=True))
    return device, start, end
