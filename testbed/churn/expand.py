"""From a timeline and the devices to atomic actions in order of time. Pure: the same in every run, on every backend.

What is done depends on (seed, timeline, devices) alone. No device is acted on while the timeline has it away, but to
bring it back; and only a device that is in a session of its own crashes or is suspended.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from device_agent.absences import Absence, Going
from device_agent.availability import Interval
from testbed.churn.timeline import Action, Entry, Verb
from testbed.churn.wishes import Wish, generator, wishes
from venn.wire.notation import PROGRAMS, Rate, Selector, Whom

RESTART_S = 2.0  # a device that is always there is back so long after a crash

_OVER = {  # what ends which absences
    Verb.JOIN: (Going.LEAVE, Going.CRASH),
    Verb.RECONNECT: (Going.DISCONNECT, Going.PARTITION),
}


@dataclass(frozen=True, slots=True)
class Member:
    """A device that can be selected."""

    device: str
    fleet: str
    labels: Mapping[str, tuple[str, ...]]
    sessions: Iterator[Interval]  # its own, in order; read as far as the timeline goes


@dataclass(frozen=True, slots=True)
class Expansion:
    actions: tuple[Action, ...] = ()  # by (time, entry, order of the devices)
    absences: Mapping[str, tuple[Absence, ...]] = field(default_factory=dict)  # by device; those that have some


def expand_timeline(entries: Sequence[Entry], members: Sequence[Member], *, seed: int, scale: float) -> Expansion:
    """``scale`` is the time scale: it multiplies every time of the timeline."""
    world = _World(members)
    wanted: list[Wish] = []
    actions = list(on_programs(entries, scale=scale))
    for number, entry in enumerate(entries):
        of = entry.of.of if isinstance(entry.of, Rate) else entry.of
        if of.whom not in PROGRAMS:
            wanted += wishes(entry, number, pool(of, members), seed=seed, scale=scale)
    wanted.sort(key=lambda wish: (wish.at_s, wish.entry))
    _stay_away_first(world, entries, wanted, seed)
    for turn, wish in enumerate(wanted):
        rng = generator(seed, wish.entry, f"turn {turn}")
        actions += world.grant(wish, rng.permutation(len(wish.pool)).tolist())
    return Expansion(tuple(sorted(actions, key=lambda one: (one.at_s, one.entry))), world.absences())


def on_programs(entries: Sequence[Entry], *, scale: float) -> Iterator[Action]:
    """What is done to programs, in the order of the entries; they do not depend on the devices."""
    for number, entry in enumerate(entries):
        if isinstance(entry.of, Selector) and entry.of.whom in PROGRAMS:
            at = entry.from_s * scale
            until = None if entry.for_s is None else at + entry.for_s * scale
            yield Action(at, entry.verb, str(entry.of), number, until)


def pool(selector: Selector, members: Sequence[Member]) -> tuple[int, ...]:
    """The numbers of the devices that a selector means, before it takes a part of them."""
    return tuple(number for number, member in enumerate(members) if _meant(selector, member))


def _meant(selector: Selector, member: Member) -> bool:
    match selector.whom:
        case Whom.ALL:
            return True
        case Whom.FLEET:
            return member.fleet == selector.name
        case Whom.LABEL:
            return selector.value in member.labels.get(selector.name, ())
    return False


def _stay_away_first(world: "_World", entries: Sequence[Entry], wanted: Sequence[Wish], seed: int) -> None:
    """A device that joins before anything of the timeline has sent its like away is not there until then."""
    for number, entry in enumerate(entries):
        joins = [wish for wish in wanted if wish.entry == number]
        if entry.verb is not Verb.JOIN or not joins:
            continue
        some = set(joins[0].pool)
        if any(wish.verb is Verb.LEAVE and wish.at_s < joins[0].at_s and some & set(wish.pool) for wish in wanted):
            continue
        order = generator(seed, number, "first").permutation(joins[0].pool).tolist()
        fresh = [device for device in order if not world.gone[device]]
        for device in fresh[: sum(wish.count for wish in joins)]:
            world.gone[device].append(Absence(0.0, math.inf, Going.LEAVE))


class _World:
    """Who is away, from when to when, while wishes are granted in order of time."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self.gone: list[list[Absence]] = [[] for _ in members]
        self._limited = [0.0] * len(members)  # until when the timeline has changed its link
        self._read: list[list[Interval]] = [[] for _ in members]  # of each device's own sessions, so far

    def absences(self) -> dict[str, tuple[Absence, ...]]:
        pairs = zip(self._members, self.gone, strict=True)
        return {member.device: tuple(gone) for member, gone in pairs if gone}

    def grant(self, wish: Wish, order: Sequence[int]) -> Iterator[Action]:
        """Those of its pool that it can be granted on: first, in ``order``, those in a session of their own."""
        chosen: list[int] = []
        spare: list[int] = []
        for device in (wish.pool[index] for index in order):
            if len(chosen) == wish.count:
                break
            if self._can(wish, device):
                (spare if self._own(device, wish.at_s) is None else chosen).append(device)
        for device in sorted([*chosen, *spare[: wish.count - len(chosen)]]):
            yield self._act(wish, device)

    def _can(self, wish: Wish, device: int) -> bool:
        away = self._away(device, wish.at_s)
        if wish.verb in _OVER:
            return away is not None and away.how in _OVER[wish.verb] and away.from_s < wish.at_s
        if away is not None or (wish.verb is Verb.LIMIT and wish.at_s < self._limited[device]):
            return False
        return wish.verb not in (Verb.CRASH, Verb.SUSPEND) or self._own(device, wish.at_s) is not None

    def _act(self, wish: Wish, device: int) -> Action:
        gone, name = self.gone[device], self._members[device].device
        if wish.verb in _OVER:
            gone[-1] = Absence(gone[-1].from_s, wish.at_s, gone[-1].how)
            return Action(wish.at_s, wish.verb, name, wish.entry)
        until = wish.at_s + wish.for_s if wish.for_s is not None else self._unsaid(wish, device)
        if wish.verb is Verb.LIMIT:
            self._limited[device] = until
        else:
            gone.append(Absence(wish.at_s, until, Going(wish.verb.value)))
        ends = until if math.isfinite(until) else None
        return Action(wish.at_s, wish.verb, name, wish.entry, ends, wish.change)

    def _unsaid(self, wish: Wish, device: int) -> float:
        """Until when, if nothing says so: a device that crashed comes back with its next session."""
        own = self._own(device, wish.at_s)
        if wish.verb is not Verb.CRASH or own is None:
            return math.inf
        return own.end_s if math.isfinite(own.end_s) else wish.at_s + RESTART_S

    def _away(self, device: int, at: float) -> Absence | None:
        gone = self.gone[device]
        return gone[-1] if gone and at < gone[-1].until_s else None

    def _own(self, device: int, at: float) -> Interval | None:
        """The session of its own that it is in."""
        read = self._read[device]
        while not read or read[-1].start_s <= at:
            following = next(self._members[device].sessions, None)
            if following is None:
                break
            read.append(following)
        index = bisect_right(read, at, key=lambda each: each.start_s) - 1
        return read[index] if index >= 0 and at < read[index].end_s else None
