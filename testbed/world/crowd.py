"""The timeline on a population of millions of devices, known by their sessions alone.

A timeline on devices by the million, who are known by their sessions alone.

Looking at one device after the other for each wish, as ``members`` does, would take days. So devices lie in bags by
what can be done to them, and go from one bag into another as their sessions and absences begin and end.

Devices in bags: any of a bag is drawn, and any is put from one bag into another, in no time.

Which of very many devices are in a session of their own, moment by moment, within a span of time.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from testbed.world.absences import OVER, WHILE_THERE, World
from testbed.world.arrays import CheckIns
from testbed.world.timeline import Action, Wish, generator
from venn.wire.errors import UsageError
from venn.wire.notation import format_duration

# What can be done to a device, as the number of a bag; with _THERE added for one that is in a session of its own.
_FREE = 0  # anything: it is where it would be by itself
_BACK = {verb: 2 * number for number, verb in enumerate(OVER, start=1)}  # it can be brought back by this verb
_GONE = {how: _BACK[verb] for verb, ended in OVER.items() for how in ended}
_NOTHING = 2 * (len(OVER) + 1)  # it is suspended, or has gone at this very moment
_THERE = 1
_BAGS = _NOTHING + 2

_DRAWS = 1024  # at once


class CrowdWorld(World):
    """Devices go by their numbers."""

    def __init__(
        self, devices: int, trace: Callable[[], Iterator[CheckIns]], wanted: Sequence[Wish], seed: int
    ) -> None:
        """``trace`` is read from the first wish to the last one that is for any of a pool."""
        super().__init__()
        self._devices, self._trace, self._seed = devices, trace, seed
        self._open = [wish for wish in wanted if not isinstance(wish.of, int)]
        self._bags: dict[int, Bags] = {}  # by the identity of a pool
        self._presence: Presence | None = None  # from the first open wish on
        self._chances: dict[int, Iterator[float]] = {}  # of each entry
        self._back: list[tuple[float, int]] = []  # a heap: when absences end; some have ended before
        self._going: list[int] = []  # whose absences have begun at this very moment
        self._now = 0.0

    def name(self, device: int) -> str:
        return str(device)

    def session_end(self, device: int, at: float) -> float | None:
        """``at``: of the wish that is being granted, which is an open one."""
        assert self._presence is not None
        return self._presence.ends(device)

    def choose(self, wish: Wish, turn: int) -> Sequence[int]:
        if isinstance(wish.of, int):
            self._advance(wish.at_s)
            return [wish.of] if self.can(wish, wish.of) else []
        if self._presence is None:
            self._begin(wish.at_s)
        self._advance(wish.at_s)
        bags, chances = self._bags[id(wish.of)], self._chances[wish.entry]
        kind = _BACK.get(wish.verb, _FREE)
        chosen: list[int] = []
        for bag in (kind + _THERE,) if wish.verb in WHILE_THERE else (kind + _THERE, kind):
            while len(chosen) < wish.count and bags.size(bag):
                device = bags.draw(bag, next(chances))
                chosen.append(device)
                self._put(device, _NOTHING)  # nobody is drawn twice
        return chosen

    def act(self, wish: Wish, device: int) -> Action:
        action = super().act(wish, device)
        if wish.verb in OVER:
            self._sort(device)
        elif self._presence is not None:
            self._put(device, _NOTHING)
            self._going.append(device)
            self._await(device)
        return action

    def _begin(self, now: float) -> None:
        """The first open wish is to be granted."""
        pools = {id(wish.of): np.asarray(wish.of) for wish in self._open}
        of = np.zeros(self._devices, np.bool_)
        for pool in pools.values():
            of[pool] = True
        self._presence = Presence(self._trace, of, now, self._open[-1].at_s)
        there = np.where(self._presence.there(), _FREE + _THERE, _FREE).astype(np.uint8)
        for key, pool in pools.items():
            bag = np.full(self._devices, _BAGS, np.uint8)
            bag[pool] = there[pool]
            self._bags[key] = Bags(bag, _BAGS)
        for entry in {wish.entry for wish in self._open}:
            self._chances[entry] = _chances(generator(self._seed, entry, "turns"))
        self._now = now
        for device in self._gone:
            self._sort(device)
            self._going.append(device)  # perhaps at this very moment
            self._await(device)

    def _await(self, device: int) -> None:
        """The end of its absence, if it has one."""
        until = self._gone[device][-1].until_s
        if self._now < until < math.inf:
            heappush(self._back, (until, device))

    def _advance(self, to_s: float) -> None:
        """Whatever has become of devices until then."""
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
        """Into the bag that it belongs in now."""
        if self._presence is not None:
            away = self.away(device, self._now)
            if away is None:
                self._put(device, _FREE)
            else:
                self._put(device, _GONE.get(away.how, _NOTHING) if away.from_s < self._now else _NOTHING)

    def _put(self, device: int, kind: int) -> None:
        assert self._presence is not None
        bag = kind if self._presence.ends(device) is None else kind + _THERE
        for bags in self._bags.values():
            bags.put(device, bag)


def _chances(rng: np.random.Generator) -> Iterator[float]:
    """Uniform in [0, 1), for ever."""
    while True:
        yield from array("d", rng.random(_DRAWS).tobytes())


class Bags:
    """Of devices by number. Each is in one bag, or in none for ever."""

    def __init__(self, bag: NDArray[np.uint8], bags: int) -> None:
        """``bag``: of each device, below ``bags``; or ``bags``, if it is in none."""
        self._none = bags
        self._bag = array("B", bag.tobytes())
        place = np.zeros(len(bag), np.int32)
        self._devices: list[array[int]] = []
        for number in range(bags):
            inside = np.flatnonzero(bag == number).astype(np.int32)
            place[inside] = np.arange(len(inside), dtype=np.int32)
            self._devices.append(array("i", inside.tobytes()))
        self._place = array("i", place.tobytes())  # of each device in its bag

    def size(self, bag: int) -> int:
        """How many are in it."""
        return len(self._devices[bag])

    def draw(self, bag: int, chance: float) -> int:
        """One of them, which stays there; ``chance``: uniform in [0, 1)."""
        devices = self._devices[bag]
        return devices[int(chance * len(devices))]

    def put(self, device: int, bag: int) -> None:
        """Into another bag, or into the one where it is."""
        before = self._bag[device]
        if before in (bag, self._none):
            return
        left, place = self._devices[before], self._place[device]
        last = left.pop()
        if last != device:
            left[place] = last
            self._place[last] = place
        self._bag[device] = bag
        self._place[device] = len(self._devices[bag])
        self._devices[bag].append(device)


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
