"""The timeline on the devices of fleets: who is away, from when to when.

Who is away, from when to when, while wishes are granted in order of time.

Devices that are known one by one: those of fleets.

From a timeline and the devices to atomic actions in order of time. Pure: the same in every run, on every backend.

What is done depends on (seed, timeline, devices) alone. No device is acted on while the timeline has it away, but to
bring it back; and only a device that is in a session of its own crashes or is suspended.

The timeline of a scenario on the devices of its fleets.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, assert_never

import numpy as np

from device_agent.availability import Absence, AbsenceKind, Interval, always, generated, traced, without
from testbed.world.devices import DeviceSpec
from testbed.world.timeline import Action, Entry, Pool, Verb, Wish, generator, hits, wishes
from venn.wire.errors import UsageError
from venn.wire.notation import PROGRAMS, Constant, Rate, Selector, Whom, parse_distribution

RESTART_S = 2.0  # a device that is always there is back so long after a crash

OVER = {  # what ends which absences
    Verb.JOIN: (AbsenceKind.LEAVE, AbsenceKind.CRASH),
    Verb.RECONNECT: (AbsenceKind.DISCONNECT, AbsenceKind.PARTITION),
}
WHILE_THERE = (Verb.CRASH, Verb.SUSPEND)  # only devices that are in a session of their own


class World(ABC):
    """Devices by number. Nobody is acted on while the timeline has it away, but to bring it back."""

    def __init__(self) -> None:
        self._gone: dict[int, list[Absence]] = {}
        self._limited: dict[int, float] = {}  # until when the timeline has changed its link

    @abstractmethod
    def name(self, device: int) -> str:
        """What actions call it."""

    @abstractmethod
    def choose(self, wish: Wish, turn: int) -> Sequence[int]:
        """Of its devices those that it is granted on: at random, those in a session of their own first.

        ``turn`` counts the wishes.
        """

    @abstractmethod
    def session_end(self, device: int, at: float) -> float | None:
        """When the session of its own ends that it is in; None: it is in none."""

    def absences(self) -> Mapping[int, Sequence[Absence]]:
        """Of each device that has some, in order of time."""
        return self._gone

    def stay_away(self, device: int) -> None:
        """It is not there from the start, until it joins."""
        self._gone[device] = [Absence(0.0, math.inf, AbsenceKind.LEAVE)]

    def grant(self, wish: Wish, turn: int) -> Iterator[Action]:
        """In the order of the devices."""
        for device in sorted(self.choose(wish, turn)):
            yield self.act(wish, device)

    def can(self, wish: Wish, device: int) -> bool:
        """Whether it can be granted on this device."""
        away = self.away(device, wish.at_s)
        if wish.verb in OVER:
            return away is not None and away.how in OVER[wish.verb] and away.from_s < wish.at_s
        if away is not None or (wish.verb is Verb.LIMIT and wish.at_s < self._limited.get(device, 0.0)):
            return False
        return wish.verb not in WHILE_THERE or self.session_end(device, wish.at_s) is not None

    def act(self, wish: Wish, device: int) -> Action:
        """Do it."""
        gone, name = self._gone.setdefault(device, []), self.name(device)
        if wish.verb in OVER:
            gone[-1] = Absence(gone[-1].from_s, wish.at_s, gone[-1].how)
            return Action(wish.at_s, wish.verb, name, wish.entry)
        until = wish.at_s + wish.for_s if wish.for_s is not None else self._unsaid(wish, device)
        if wish.verb is Verb.LIMIT:
            self._limited[device] = until
        else:
            gone.append(Absence(wish.at_s, until, AbsenceKind(wish.verb.value)))
        ends = until if math.isfinite(until) else None
        return Action(wish.at_s, wish.verb, name, wish.entry, ends, wish.change)

    def away(self, device: int, at: float) -> Absence | None:
        """Where the timeline has it; None: it is where it would be by itself."""
        gone = self._gone.get(device)
        return gone[-1] if gone and at < gone[-1].until_s else None

    def _unsaid(self, wish: Wish, device: int) -> float:
        """Until when, if nothing says so: a device that crashed comes back with its next session."""
        ends = self.session_end(device, wish.at_s) if wish.verb is Verb.CRASH else None
        if ends is None:
            return math.inf
        return ends if math.isfinite(ends) else wish.at_s + RESTART_S


@dataclass(frozen=True, slots=True)
class Member:
    """A device that can be selected."""

    device: str
    fleet: str
    labels: Mapping[str, tuple[str, ...]]
    sessions: Iterator[Interval]  # its own, in order; read as far as the timeline goes


class Members:
    """What ``expand_timeline`` takes, of members numbered in their order."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    def pool(self, selector: Selector) -> Pool:
        """Those that a selector means, before it takes a part of them."""
        return np.array([number for number, one in enumerate(self._members) if _meant(selector, one)], np.int64)

    def world(self, wanted: Sequence[Wish], seed: int) -> World:
        """Nothing has been done so far."""
        return _MembersWorld(self._members, seed)


def _meant(selector: Selector, member: Member) -> bool:
    match selector.whom:
        case Whom.ALL:
            return True
        case Whom.FLEET:
            return member.fleet == selector.name
        case Whom.LABEL:
            return selector.value in member.labels.get(selector.name, ())
        case Whom.COORDINATOR | Whom.BROKER | Whom.DRIVER:
            return False
        case _:
            assert_never(selector.whom)


class _MembersWorld(World):
    """Looks at one device after the other, in a new order for each wish."""

    def __init__(self, members: Sequence[Member], seed: int) -> None:
        super().__init__()
        self._members = members
        self._seed = seed
        self._read: list[list[Interval]] = [[] for _ in members]  # of each device's own sessions, so far

    def name(self, device: int) -> str:
        return self._members[device].device

    def choose(self, wish: Wish, turn: int) -> Sequence[int]:
        if isinstance(wish.of, int):
            return [wish.of] if self.can(wish, wish.of) else []
        chosen: list[int] = []
        spare: list[int] = []
        for device in generator(self._seed, wish.entry, f"turn {turn}").permutation(wish.of).tolist():
            if len(chosen) == wish.count:
                break
            if self.can(wish, device):
                (spare if self.session_end(device, wish.at_s) is None else chosen).append(device)
        return [*chosen, *spare[: wish.count - len(chosen)]]

    def session_end(self, device: int, at: float) -> float | None:
        read = self._read[device]
        while not read or read[-1].start_s <= at:
            following = next(self._members[device].sessions, None)
            if following is None:
                break
            read.append(following)
        index = bisect_right(read, at, key=lambda each: each.start_s) - 1
        return read[index].end_s if index >= 0 and at < read[index].end_s else None


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


def own_intervals(device: DeviceSpec) -> Iterator[Interval]:
    """When it would be there by itself, as its agent has it."""
    if device.trace is not None:
        return traced(device.seed, device.device, {device.device: device.trace}, device.crash)
    if device.session is None:
        return always()
    gap = Constant(0.0, "duration") if device.gap is None else parse_distribution(device.gap)
    return generated(device.seed, device.device, parse_distribution(device.session), gap, device.crash)


def intervals(device: DeviceSpec) -> Iterator[Interval]:
    """When it is there, as its agent has it."""
    own = own_intervals(device)
    return without(own, device.absences) if device.absences else own


def expanded(entries: Sequence[Entry], devices: Iterable[DeviceSpec], *, seed: int, scale: float) -> Expansion:
    """The timeline on these devices; ``scale`` is the scenario's time scale."""
    members = [Member(one.device, one.fleet, one.labels, own_intervals(one)) for one in devices]
    return expand_timeline(entries, Members(members), seed=seed, scale=scale)


def churned(devices: Sequence[DeviceSpec], expansion: Expansion) -> list[DeviceSpec]:
    """The devices that were expanded, in their order, each with its absences."""
    return [
        replace(device, absences=tuple(expansion.absences.get(number, ()))) for number, device in enumerate(devices)
    ]
