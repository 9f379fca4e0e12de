"""The timeline of a scenario on its devices: what is done to whom, and who is away, from when to when.

It is the same in every run, on every backend: it depends on (seed, timeline, devices) alone. The devices of fleets have
their absences in their descriptions; out of the sessions of a population they are taken block by block.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from coordinator.engine.requirements import Comparison
from device_agent.sessions import Absences
from device_agent.spec import Absence, AbsenceKind, DeviceSpec
from testbed.world.arrays import CheckIns
from testbed.world.columns import chunks
from testbed.world.fleets import check_ins_of
from testbed.world.population import Population
from testbed.world.states import Roster, States
from testbed.world.timeline import Action, Entry, Pool, Selection, Verb, generator, hits, selections
from venn.wire.errors import UsageError
from venn.wire.requirements import PROGRAMS, Rate, Selector, Whom

MOST_ACTIONS = 2_000_000  # some 500 bytes each while they are worked out


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a timeline comes to."""

    actions: tuple[Action, ...] = ()  # by (time, entry, order of the devices)
    absences: Mapping[int, Sequence[Absence]] = field(default_factory=dict)  # by device; of those that have some


def expand_timeline(entries: Sequence[Entry], roster: Roster, *, seed: int, scale: float) -> Expansion:
    """The actions and absences that the entries come to; ``scale``, the time scale, multiplies every time of them.

    Raises UsageError if it is too large.
    """
    wanted: list[Selection] = []
    actions = list(on_programs(entries, scale=scale))
    left = MOST_ACTIONS
    for number, entry in enumerate(entries):
        of = selected(entry)
        if of.whom not in PROGRAMS:
            found = _at_most(left, entry, number, roster.pool(of), seed, scale)
            left -= sum(each.count for each in found)
            wanted += found
    wanted.sort(key=lambda each: (each.at_s, each.entry))
    states = States(roster, wanted, seed)
    _stay_away_first(states, entries, wanted, seed)
    for each in wanted:
        actions += states.grant(each)
    return Expansion(tuple(sorted(actions, key=lambda one: (one.at_s, one.entry))), states.absences())


def on_programs(entries: Sequence[Entry], *, scale: float) -> Iterator[Action]:
    """What is done to programs, in the order of the entries; they do not depend on the devices."""
    for number, entry in enumerate(entries):
        of = selected(entry)
        if of.whom in PROGRAMS:
            at = entry.from_s * scale
            until = None if entry.for_s is None else at + entry.for_s * scale
            yield Action(at, entry.verb, str(of), number, until)


def selected(entry: Entry) -> Selector:
    """The devices that an entry is about, whatever part of them."""
    return entry.of.of if isinstance(entry.of, Rate) else entry.of


def _at_most(most: int, entry: Entry, number: int, pool: Pool, seed: int, scale: float) -> list[Selection]:
    """The selections of an entry. Raises UsageError for more than ``most`` actions."""
    found: list[Selection] = []
    if hits(entry, len(pool)) <= most:
        for each in selections(entry, number, pool, seed=seed, scale=scale):
            most -= each.count
            found.append(each)
            if most < 0:
                break
        else:
            return found
    message = f"the timeline comes to more than {MOST_ACTIONS:,} actions"
    raise UsageError("CHURN", message, where=f"churn.{number}", fix="select fewer devices, or a shorter time")


def _stay_away_first(states: States, entries: Sequence[Entry], wanted: Sequence[Selection], seed: int) -> None:
    """A device that joins before anything of the timeline has sent its like away is not there until then."""
    for number, entry in enumerate(entries):
        if entry.verb is not Verb.JOIN:
            continue
        joins = [each for each in wanted if each.entry == number]
        if not any(each.count for each in joins) or _sent_away(joins[0], wanted):
            continue
        order = generator(seed, number, "first").permutation(joins[0].of).tolist()
        fresh = [device for device in order if states.away(device, 0.0) is None]
        for device in fresh[: sum(each.count for each in joins)]:
            states.stay_away(device)


def _sent_away(join: Selection, wanted: Sequence[Selection]) -> bool:
    """Whether anybody that it may bring back may have left before."""
    some = np.zeros(int(np.max(join.of)) + 1, np.bool_)
    some[join.of] = True
    looked: Pool | int = -1
    for each in wanted:
        if each.at_s >= join.at_s:
            return False
        if each.verb is Verb.LEAVE and each.of is not looked:
            looked = each.of
            pool = np.atleast_1d(looked)
            if some[pool[pool < len(some)]].any():
                return True
    return False


def on_fleets(entries: Sequence[Entry], devices: Sequence[DeviceSpec], *, seed: int, scale: float) -> Expansion:
    """The timeline on the devices of fleets; ``scale`` is the scenario's time scale."""

    def meant(selector: Selector) -> Pool:
        label, value = ("fleet", selector.name) if selector.whom is Whom.FLEET else (selector.name, selector.value)
        everyone = selector.whom is Whom.ALL
        found = (number for number, each in enumerate(devices) if everyone or value in each.labels.get(label, ()))
        return np.fromiter(found, np.int64)

    undisturbed = [replace(each, absences=()) for each in devices]
    roster = Roster(len(devices), partial(check_ins_of, undisturbed), meant, [each.device for each in devices])
    return expand_timeline(entries, roster, seed=seed, scale=scale)


def with_absences(devices: Sequence[DeviceSpec], expansion: Expansion) -> list[DeviceSpec]:
    """The devices that were expanded, in their order, each with its absences."""
    return [
        replace(device, absences=tuple(expansion.absences.get(number, ()))) for number, device in enumerate(devices)
    ]


ROWS = 1 << 18  # of a block, at most


def without(
    trace: Callable[[], Iterator[CheckIns]],
    absences: Mapping[int, Sequence[Absence]],
    devices: int,
    until_s: float = math.inf,
) -> Callable[[], Iterator[CheckIns]]:
    """The trace of ``devices`` but for the absences, by the rule of ``device_agent.sessions``.

    Only the numbers of intervals are others: what is left of interval n is numbered from n times the same factor on.
    It ends when all devices are away for good, or, after ``until_s``, with the first block of which nothing is left.
    Before that, such a block is there without rows, so that whoever reads can stop in between.
    """
    if not absences:
        return trace
    each = np.zeros(devices, np.int64)
    for device, one in absences.items():
        each[device] = len(one)
    rows = [one for device in sorted(absences) for one in absences[device]]
    gone = Absences(each, ((one.from_s, one.until_s) for one in rows))
    crash = np.array([one.how is not AbsenceKind.LEAVE for one in rows], np.bool_)
    last = [one[-1] for one in absences.values()]
    everybody = len(last) == devices and all(one.until_s == math.inf for one in last)
    nobody_from_s = max(one.from_s for one in last) if everybody else math.inf
    over_s = max(until_s, *(one.until_s for one in last if one.until_s < math.inf), 0.0)  # nobody returns later

    def left_of(block: CheckIns) -> CheckIns:
        """The pieces of a block, by row; those of a row in order. There is room for them between intervals' numbers."""
        block = replace(block, interval=block.interval * gone.most)
        pieces = gone.cut(block.device, block.start_s, block.end_s)
        if pieces is None:
            return block
        left = block.take(pieces.row)
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
            if len(block) and block.start_s[0] >= nobody_from_s:
                break
            left = left_of(block)
            if held is not None or left.start_s is not block.start_s:
                last = block.start_s[-1] if len(block) else -np.inf
                later, left = _split(_in_order([left] if held is None else [held, left]), last)
                held = later if len(later) else None
            if len(block) and block.start_s[0] > over_s and held is None and not len(left):
                break
            yield from _blocks(left)
        if held is not None:
            yield from _blocks(held)

    return blocks


def _in_order(parts: Sequence[CheckIns]) -> CheckIns:
    whole = CheckIns.joined(parts)
    return whole.take(np.argsort(whole.start_s, kind="stable"))


def _split(block: CheckIns, at_s: float) -> tuple[CheckIns, CheckIns]:
    """What begins later, and what does not."""
    place = int(np.searchsorted(block.start_s, at_s, side="right"))
    return block.take(slice(place, None)), block.take(slice(place))


def _blocks(block: CheckIns) -> Iterator[CheckIns]:
    for first in range(0, max(len(block), 1), ROWS):
        yield block if len(block) <= ROWS else block.take(slice(first, first + ROWS))


def on_population(
    entries: Sequence[Entry], made: Population, *, seed: int, until_s: float
) -> tuple[Population, tuple[Action, ...]]:
    """The population as the timeline leaves it, and what is done to it; ``until_s``: when the simulation ends.

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
    left = without(made.trace, expansion.absences, made.devices, until_s)
    return replace(made, trace=left), expansion.actions


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
