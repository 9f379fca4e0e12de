"""From a timeline and devices to actions and absences: who is away, from when to when, and how it goes.

Pure, and the same in every run, on every backend: it depends on (seed, timeline, devices) alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from device_agent.spec import Absence, DeviceSpec
from testbed.world.fleets import check_ins_of
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
    """Whom it is about, whatever part of them."""
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
