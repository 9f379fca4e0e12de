"""What a timeline has done to each device so far, and which devices it can act on next.

Looking at every device for each selection would take days for a million devices. So devices are kept in classes by what
can be done to them, and change their class as their sessions and absences begin and end.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from device_agent.spec import Absence, AbsenceKind
from testbed.world.arrays import CheckIns
from testbed.world.timeline import Action, Pool, Selection, Verb, generator
from venn.wire.errors import UsageError
from venn.wire.notation import format_duration
from venn.wire.requirements import Selector

RESTART_S = 2.0  # a device that is always there is back so long after a crash

OVER = {  # what ends which absences
    Verb.JOIN: (AbsenceKind.LEAVE, AbsenceKind.CRASH),
    Verb.RECONNECT: (AbsenceKind.DISCONNECT, AbsenceKind.PARTITION),
}
WHILE_THERE = (Verb.CRASH, Verb.SUSPEND)  # only devices that are in a session of their own

# What can be done to a device, as the number of a class; with _THERE added for one that is in a session of its own.
_FREE = 0  # anything: it is where it would be by itself
_BACK = {verb: 2 * number for number, verb in enumerate(OVER, start=1)}  # it can be brought back by this verb
_GONE = {how: _BACK[verb] for verb, ended in OVER.items() for how in ended}
_NOTHING = 2 * (len(OVER) + 1)  # it is suspended, or has gone at this very moment
_THERE = 1
_CLASSES = _NOTHING + 2

_DRAWS = 1024  # at once


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """The devices that a timeline acts on, by number from 0."""

    devices: int  # how many there are
    trace: Callable[[], Iterator[CheckIns]]  # the sessions that they would have by themselves, from the start
    meant: Callable[[Selector], Pool]  # those that a selector means, before it takes a part of them
    names: Sequence[str] = ()  # by number; empty: their numbers
    _pools: dict[tuple[str, str, str], Pool] = field(default_factory=dict)

    def name(self, device: int) -> str:
        """What actions call it."""
        return self.names[device] if self.names else str(device)

    def pool(self, selector: Selector) -> Pool:
        """The devices that a selector means, before it takes a part: one object for all that mean the same."""
        key = selector.whom, selector.name, selector.value
        if key not in self._pools:
            self._pools[key] = self.meant(selector)
        return self._pools[key]


class States:
    """The absences of each device, while selections are granted in order of time.

    No device is acted on while the timeline keeps it away, except to bring it back.
    """

    def __init__(self, roster: Roster, selections: Sequence[Selection], seed: int) -> None:
        """Begin with nothing done. The roster's trace is read from the first selection of a pool to the last."""
        self._roster, self._seed = roster, seed
        self._open = [each for each in selections if not isinstance(each.of, int)]
        self._absences: dict[int, list[Absence]] = {}
        self._yet_to_join: set[int] = set()  # away from the start
        self._limited: dict[int, float] = {}  # until when the timeline has changed a device's link
        self._classes: dict[int, Classes] = {}  # by the identity of a pool
        self._presence: Presence | None = None  # from the first open selection on
        self._chances: dict[int, Iterator[float]] = {}  # of each entry
        self._back: list[tuple[float, int]] = []  # a heap: when absences end; some have ended before
        self._going: list[int] = []  # whose absences have begun at this very moment
        self._now = 0.0

    def absences(self) -> Mapping[int, Sequence[Absence]]:
        """Absences of each device that has some, in order of time."""
        return self._absences

    def away(self, device: int, at: float) -> Absence | None:
        """The absence that it is in; None: it is where it would be by itself."""
        absences = self._absences.get(device)
        return absences[-1] if absences and at < absences[-1].until_s else None

    def stay_away(self, device: int) -> None:
        """Keep a device away from the start, until it joins."""
        self._yet_to_join.add(device)
        self._absences[device] = [Absence(0.0, math.inf, AbsenceKind.LEAVE)]

    def grant(self, selection: Selection) -> Iterator[Action]:
        """Act on the devices that are chosen, in their order."""
        for device in sorted(self.choose(selection)):
            yield self._act(selection, device)

    def choose(self, selection: Selection) -> Sequence[int]:
        """The devices that it is granted on: at random, those in a session of their own first."""
        now = selection.at_s
        if isinstance(selection.of, int):
            self._advance(now)
            return [] if self.away(selection.of, now) else [selection.of]
        if self._presence is None:
            self._begin(now)
        self._advance(now)
        classes, chances = self._classes[id(selection.of)], self._chances[selection.entry]
        kind = _BACK.get(selection.verb, _FREE)
        chosen: list[int] = []
        passed_over: list[int] = []
        for number in (kind + _THERE,) if selection.verb in WHILE_THERE else (kind + _THERE, kind):
            while len(chosen) < selection.count and classes.size(number):
                device = classes.draw(number, next(chances))
                limited = selection.verb is Verb.LIMIT and now < self._limited.get(device, 0.0)
                (passed_over if limited else chosen).append(device)
                self._put(device, _NOTHING)  # nobody is drawn twice
        for device in passed_over:
            self._sort(device)
        return chosen

    def _act(self, selection: Selection, device: int) -> Action:
        now, name = selection.at_s, self._roster.name(device)
        if selection.verb in OVER:
            absences = self._absences[device]
            self._yet_to_join.discard(device)
            if absences[-1].from_s < now:
                absences[-1] = Absence(absences[-1].from_s, now, absences[-1].how)
            else:  # it joins at the start: it is never away
                del self._absences[device]
            self._sort(device)
            return Action(now, selection.verb, name, selection.entry)
        until = now + selection.for_s if selection.for_s is not None else self._unsaid(selection.verb, device)
        if selection.verb is Verb.LIMIT:
            self._limited[device] = until
            self._sort(device)
        else:
            self._absences.setdefault(device, []).append(Absence(now, until, AbsenceKind(selection.verb.value)))
            self._go(device)
        ends = until if math.isfinite(until) else None
        return Action(now, selection.verb, name, selection.entry, ends, selection.change)

    def _unsaid(self, verb: Verb, device: int) -> float:
        """The end of an absence where nothing says it: a device that crashed comes back with its next session."""
        ends = None if verb is not Verb.CRASH or self._presence is None else self._presence.ends(device)
        if ends is None:
            return math.inf
        return ends if math.isfinite(ends) else self._now + RESTART_S

    def _begin(self, now: float) -> None:
        """Begin to follow who is there, for the first open selection."""
        pools = {id(each.of): np.asarray(each.of) for each in self._open}
        of = np.zeros(self._roster.devices, np.bool_)
        for pool in pools.values():
            of[pool] = True
        self._presence = Presence(self._roster.trace, of, now, self._open[-1].at_s)
        there = np.where(self._presence.there(), _FREE + _THERE, _FREE).astype(np.uint8)
        for key, pool in pools.items():
            number = np.full(self._roster.devices, _CLASSES, np.uint8)
            number[pool] = there[pool]
            self._classes[key] = Classes(number, _CLASSES)
        for entry in {each.entry for each in self._open}:
            self._chances[entry] = _chances(generator(self._seed, entry, "turns"))
        self._now = now
        for device in self._absences:
            self._go(device)  # perhaps at this very moment
            self._sort(device)

    def _go(self, device: int) -> None:
        """Let a device's absence begin; nothing can be done to it at the same moment."""
        if self._presence is not None:
            self._put(device, _NOTHING)
            self._going.append(device)
            until = self._absences[device][-1].until_s
            if self._now < until < math.inf:
                heappush(self._back, (until, device))

    def _advance(self, to_s: float) -> None:
        """Let sessions and absences begin and end until then."""
        if self._presence is None or to_s == self._now:
            return
        self._now = to_s
        while self._going:
            self._sort(self._going.pop())
        while self._back and self._back[0][0] <= to_s:
            self._sort(heappop(self._back)[1])
        for device in self._presence.advance(to_s):
            self._sort(device)

    def _sort(self, device: int) -> None:
        """Put it into the class that it belongs in now."""
        away = self.away(device, self._now)
        if away is None:
            self._put(device, _FREE)
        else:
            can_return = away.from_s < self._now or device in self._yet_to_join
            self._put(device, _GONE.get(away.how, _NOTHING) if can_return else _NOTHING)

    def _put(self, device: int, kind: int) -> None:
        assert self._presence is not None
        number = kind if self._presence.ends(device) is None else kind + _THERE
        for classes in self._classes.values():
            classes.put(device, number)


def _chances(rng: np.random.Generator) -> Iterator[float]:
    """Uniform in [0, 1), for ever."""
    while True:
        yield from array("d", rng.random(_DRAWS).tobytes())


class Classes:
    """A partition of devices into classes. Drawing a device of a class and moving one take constant time."""

    def __init__(self, number: NDArray[np.uint8], classes: int) -> None:
        """``number``: the class of each device, below ``classes``; or ``classes``: it is in none for ever."""
        self._none = classes
        self._class = array("B", number.tobytes())
        place = np.zeros(len(number), np.int32)
        self._devices: list[array[int]] = []
        for each in range(classes):
            inside = np.flatnonzero(number == each).astype(np.int32)
            place[inside] = np.arange(len(inside), dtype=np.int32)
            self._devices.append(array("i", inside.tobytes()))
        self._place = array("i", place.tobytes())  # of each device in its class

    def size(self, number: int) -> int:
        """How many are in it."""
        return len(self._devices[number])

    def draw(self, number: int, chance: float) -> int:
        """One of them, which stays there; ``chance``: uniform in [0, 1)."""
        devices = self._devices[number]
        return devices[int(chance * len(devices))]

    def put(self, device: int, number: int) -> None:
        """Move it into another class, or leave it in the one where it is."""
        before = self._class[device]
        if before in (number, self._none):
            return
        left, place = self._devices[before], self._place[device]
        last = left.pop()
        if last != device:
            left[place] = last
            self._place[last] = place
        self._class[device] = number
        self._place[device] = len(self._devices[number])
        self._devices[number].append(device)


MOST_SESSIONS = 20_000_000  # within the span; some 50 bytes each

_NONE = -1  # no row: in no session


class Presence:
    """Which devices are in a session of their own, as it is at ``from_s``, and then as it changes up to ``to_s``."""

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
        """Whether each device is there, by device."""
        return np.asarray(np.frombuffer(self._session, np.int32) != _NONE)

    def ends(self, device: int) -> float | None:
        """When the session ends that it is in; None: it is in none."""
        row = self._session[device]
        return None if row == _NONE else self._ends[row]

    def advance(self, to_s: float) -> Iterator[int]:
        """Yield whoever comes or goes until then, ``to_s`` included; one by one, each as it does."""
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
