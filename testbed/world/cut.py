"""The timeline of a scenario on a population: absences, cut out of the sessions of its devices block by block."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from coordinator.engine.requirements import Comparison
from device_agent.sessions import Absences
from device_agent.spec import Absence, AbsenceKind
from testbed.world.absences import expand_timeline, selected
from testbed.world.arrays import CheckIns, Ids
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
    """The trace of ``devices`` but for the absences, by the rule of ``device_agent.sessions``.

    Only the numbers of intervals are others: what is left of interval n is numbered from n times the same factor on.
    """
    if not absences:
        return trace
    each = np.zeros(devices, np.int64)
    for device, one in absences.items():
        each[device] = len(one)
    rows = [one for device in sorted(absences) for one in absences[device]]
    gone = Absences(each, ((one.from_s, one.until_s) for one in rows))
    crash = np.array([one.how is not AbsenceKind.LEAVE for one in rows], np.bool_)

    def left_of(block: CheckIns) -> CheckIns:
        """With room for pieces between the numbers of intervals. Its pieces, by row; those of a row in order."""
        block = replace(block, interval=block.interval * gone.most)
        pieces = gone.cut(block.device, block.start_s, block.end_s)
        if pieces is None:
            return block
        left = _take(block, pieces.row)
        return replace(
            left,
            start_s=pieces.start_s,
            end_s=pieces.end_s,
            interval=left.interval + pieces.number,
            crash=np.where(pieces.absence < 0, left.crash, crash[pieces.absence]),
        )

    def blocks() -> Iterator[CheckIns]:
        held: CheckIns | None = None  # what begins later than the last block did
        for block in trace():
            left = left_of(block)
            if held is not None or left.start_s is not block.start_s:
                last = block.start_s[-1] if len(block) else -np.inf
                later, left = _split(_in_order([left] if held is None else [held, left]), last)
                held = later if len(later) else None
            yield from _blocks(left)
        if held is not None:
            yield from _blocks(held)

    return blocks


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
