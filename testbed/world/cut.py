"""The timeline of a scenario on a population: absences, cut out of the sessions of its devices block by block."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.requirements import Comparison
from device_agent.sessions import LEAST_SESSION_S
from device_agent.spec import Absence, AbsenceKind
from testbed.world.absences import expand_timeline, selected
from testbed.world.arrays import CheckIns, Ids, Reals
from testbed.world.columns import chunks
from testbed.world.matching import Population
from testbed.world.states import Roster
from testbed.world.timeline import Action, Entry, Pool, hits
from venn.wire.errors import UsageError
from venn.wire.requirements import PROGRAMS, Selector, Whom

ROWS = 1 << 18  # of a block, at most


def without(
    trace: Callable[[], Iterator[CheckIns]], absences: Mapping[int, Sequence[Absence]], devices: int
) -> Callable[[], Iterator[CheckIns]]:
    """The trace of ``devices`` but for the absences, by the rule of ``device_agent.spec``.

    Only the numbers of intervals are others: what is left of interval n is numbered from n times the same factor on.
    """
    if not absences:
        return trace
    gone = _Gone.of(absences, devices)

    def blocks() -> Iterator[CheckIns]:
        held: CheckIns | None = None  # what begins later than the last block did
        for block in map(gone.numbered, trace()):
            pieces = gone.cut(block)
            if held is not None or pieces is not block:
                last = block.start_s[-1] if len(block) else -np.inf
                later, pieces = _split(_in_order([pieces] if held is None else [held, pieces]), last)
                held = later if len(later) else None
            yield from _blocks(pieces)
        if held is not None:
            yield from _blocks(held)

    return blocks


@dataclass(frozen=True, slots=True, eq=False)
class _Gone:
    """A row per absence, by (device, time)."""

    first: Ids  # of each device its first row; one more at the end
    from_s: Reals
    until_s: Reals
    crash: NDArray[np.bool_]  # no goodbye
    factor: int  # more than the pieces that any interval is cut into

    @classmethod
    def of(cls, absences: Mapping[int, Sequence[Absence]], devices: int) -> "_Gone":
        each = np.zeros(devices + 1, np.int64)
        for device, gone in absences.items():
            each[device + 1] = len(gone)
        rows = [one for device in sorted(absences) for one in absences[device]]
        return cls(
            first=np.cumsum(each),
            from_s=np.array([one.from_s for one in rows], np.float64),
            until_s=np.array([one.until_s for one in rows], np.float64),
            crash=np.array([one.how is not AbsenceKind.LEAVE for one in rows], np.bool_),
            factor=int(each.max()) + 1,
        )

    def numbered(self, block: CheckIns) -> CheckIns:
        """With room for pieces between the numbers of intervals."""
        return replace(block, interval=block.interval * self.factor)

    def cut(self, block: CheckIns) -> CheckIns:
        """Its pieces, by row; those of a row in order. The block itself if nothing is cut."""
        if len(block) == 0 or block.start_s[0] >= self.until_s.max():
            return block
        first, end = self.first[block.device], self.first[block.device + 1]
        low = _search(self.until_s, first, end, block.start_s, beyond=True)  # the first that is not over before it
        high = _search(self.from_s, first, end, block.end_s, beyond=False)  # the first that begins after it
        cuts = high - low
        if not cuts.any():
            return block
        row = np.repeat(np.arange(len(block)), cuts + 1)
        piece = np.arange(len(row)) - np.repeat(np.cumsum(cuts + 1) - (cuts + 1), cuts + 1)
        after, before = low[row] + piece - 1, np.minimum(low[row] + piece, len(self.from_s) - 1)
        whole, begins, ends = cuts[row] == 0, piece == 0, piece == cuts[row]
        start = np.where(begins, block.start_s[row], self.until_s[after])
        stop = np.where(ends, block.end_s[row], self.from_s[before])
        crash = np.where(ends, block.crash[row], self.crash[before])
        kept = np.flatnonzero(whole | (stop - start >= LEAST_SESSION_S))
        return replace(
            _take(block, row[kept]),
            start_s=start[kept],
            end_s=stop[kept],
            interval=(block.interval[row] + piece)[kept],
            crash=crash[kept],
        )


def _search(values: Reals, low: Ids, high: Ids, wanted: Reals, *, beyond: bool) -> Ids:
    """For each row the first place in [low, high) with a value >= what is wanted, or > it if ``beyond``; or high."""
    while True:
        unsettled = low < high
        if not unsettled.any():
            return low
        middle = (low + high) // 2
        value = values[np.minimum(middle, len(values) - 1)]
        found = unsettled & ((value > wanted) if beyond else (value >= wanted))
        low, high = np.where(unsettled & ~found, middle + 1, low), np.where(found, middle, high)


def _take(block: CheckIns, rows: slice | Ids) -> CheckIns:
    return CheckIns(*(getattr(block, name)[rows] for name in CheckIns.__slots__))


def _in_order(parts: Sequence[CheckIns]) -> CheckIns:
    whole = CheckIns(*(np.concatenate([getattr(part, name) for part in parts]) for name in CheckIns.__slots__))
    return _take(whole, np.argsort(whole.start_s, kind="stable"))


def _split(block: CheckIns, at_s: float) -> tuple[CheckIns, CheckIns]:
    """What begins later, and what does not."""
    place = int(np.searchsorted(block.start_s, at_s, side="right"))
    return _take(block, slice(place, None)), _take(block, slice(place))


def _blocks(block: CheckIns) -> Iterator[CheckIns]:
    for first in range(0, len(block), ROWS):
        yield block if len(block) <= ROWS else _take(block, slice(first, first + ROWS))


def on_population(entries: Sequence[Entry], made: Population, *, seed: int) -> tuple[Population, tuple[Action, ...]]:
    """The population as the timeline leaves it, and what is done to it.

    Raises UsageError: a selector that means nobody, a label that no device has, a timeline that is too large.
    """

    def meant(selector: Selector) -> Pool:
        if selector.whom is not Whom.LABEL:
            return np.arange(made.devices, dtype=np.int64)
        has_it, first = [np.empty(0, np.int64)], 0
        for columns in chunks(made.reports, made.devices) if selector.name in made.reports.names else ():
            answers = columns.answers(Comparison(selector.name, "=", selector.value))
            has_it.append(first + np.flatnonzero(answers))
            first += columns.rows
        return np.concatenate(has_it)

    roster = Roster(made.devices, made.trace, meant)
    for number, entry in enumerate(entries):
        if selected(entry).whom not in PROGRAMS:
            _check(entry, number, len(roster.pool(selected(entry))))
    expansion = expand_timeline(entries, roster, seed=seed, scale=1.0)
    return replace(made, trace=without(made.trace, expansion.absences, made.devices)), expansion.actions


def _check(entry: Entry, number: int, devices: int) -> None:
    where, of = f"churn.{number}", entry.of
    if devices == 0:
        raise UsageError(
            "CHURN",
            f"no device has {selected(entry)}",
            where=where,
            fix="`venn population describe` shows their labels",
        )
    if isinstance(of, Selector) and of.count is not None and of.count > devices:
        message = f"'{of}' asks for more than there are: {devices}"
        raise UsageError("CHURN", message, where=where, fix=f"write at most {devices}")
    if hits(entry, devices) == 0:
        raise UsageError("CHURN", f"'{of}' selects none of {devices} devices", where=where, fix="select more")
