"""From a timeline and the devices to atomic actions in order of time. Pure: the same in every run, on every backend.

What is done depends on (seed, timeline, devices) alone. No device is acted on while the timeline has it away, but to
bring it back; and only a device that is in a session of its own crashes or is suspended.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from device_agent.absences import Absence
from testbed.churn.timeline import Action, Entry, Verb
from testbed.churn.wishes import Pool, Wish, generator, hits, wishes
from testbed.churn.world import World
from venn.wire.errors import UsageError
from venn.wire.notation import PROGRAMS, Rate, Selector

MOST_ACTIONS = 2_000_000  # some 500 bytes each while they are worked out


class Devices(Protocol):
    """Those that can be selected, by number from 0."""

    def pool(self, selector: Selector) -> Pool:
        """Those that a selector means, before it takes a part of them."""
        ...

    def world(self, wanted: Sequence[Wish], seed: int) -> World:
        """In which nothing has been done so far; ``wanted``, in order of time, is what may be."""
        ...


@dataclass(frozen=True, slots=True)
class Expansion:
    actions: tuple[Action, ...] = ()  # by (time, entry, order of the devices)
    absences: Mapping[int, Sequence[Absence]] = field(default_factory=dict)  # by device; of those that have some


def expand_timeline(entries: Sequence[Entry], devices: Devices, *, seed: int, scale: float) -> Expansion:
    """``scale`` is the time scale: it multiplies every time of the timeline. Raises UsageError if it is too large."""
    wanted: list[Wish] = []
    actions = list(on_programs(entries, scale=scale))
    left = MOST_ACTIONS
    for number, entry in enumerate(entries):
        of = selected(entry)
        if of.whom not in PROGRAMS:
            found = _at_most(left, entry, number, devices.pool(of), seed, scale)
            left -= sum(wish.count for wish in found)
            wanted += found
    wanted.sort(key=lambda wish: (wish.at_s, wish.entry))
    world = devices.world(wanted, seed)
    _stay_away_first(world, entries, wanted, seed)
    for turn, wish in enumerate(wanted):
        actions += world.grant(wish, turn)
    return Expansion(tuple(sorted(actions, key=lambda one: (one.at_s, one.entry))), world.absences())


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


def _at_most(most: int, entry: Entry, number: int, pool: Pool, seed: int, scale: float) -> list[Wish]:
    """The wishes of an entry. Raises UsageError for more than ``most`` actions."""
    found: list[Wish] = []
    if hits(entry, len(pool)) <= most:
        for wish in wishes(entry, number, pool, seed=seed, scale=scale):
            most -= wish.count
            found.append(wish)
            if most < 0:
                break
        else:
            return found
    message = f"the timeline comes to more than {MOST_ACTIONS:,} actions"
    raise UsageError("CHURN", message, where=f"churn.{number}", fix="select fewer devices, or a shorter time")


def _stay_away_first(world: World, entries: Sequence[Entry], wanted: Sequence[Wish], seed: int) -> None:
    """A device that joins before anything of the timeline has sent its like away is not there until then."""
    for number, entry in enumerate(entries):
        if entry.verb is not Verb.JOIN:
            continue
        joins = [wish for wish in wanted if wish.entry == number]
        if not any(wish.count for wish in joins) or _sent_away(joins[0], wanted):
            continue
        order = generator(seed, number, "first").permutation(joins[0].of).tolist()
        fresh = [device for device in order if world.away(device, 0.0) is None]
        for device in fresh[: sum(wish.count for wish in joins)]:
            world.stay_away(device)


def _sent_away(join: Wish, wanted: Sequence[Wish]) -> bool:
    """Whether anybody that it may bring back may have left before."""
    some = np.zeros(int(np.max(join.of)) + 1, np.bool_)
    some[join.of] = True
    looked: Pool | int = -1
    for wish in wanted:
        if wish.at_s >= join.at_s:
            return False
        if wish.verb is Verb.LEAVE and wish.of is not looked:
            looked = wish.of
            pool = np.atleast_1d(looked)
            if some[pool[pool < len(some)]].any():
                return True
    return False
