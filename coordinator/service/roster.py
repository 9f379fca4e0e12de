"""An index of all known devices by name, for pages and for guesses at a mistyped name."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import islice

from coordinator.engine import effects
from coordinator.engine.ids import DeviceId
from coordinator.engine.state import Device
from coordinator.service.host import Host

MOST_NEW = 1_000  # devices that are not merged in yet


class Roster:
    """The sorted names of all known devices. Newcomers are merged in when somebody asks, at the latest when they are
    many.

    A page or a guess looks at no more names than it shows. What the engine forgot
    is skipped.
    """

    def __init__(self, host: Host, known: Mapping[DeviceId, Device]) -> None:
        self._known = known  # by the engine
        self._names: list[DeviceId] = []  # sorted
        self._new: set[DeviceId] = set()
        host.listen(effects.OpenSession, self._opened)

    def after(self, name: str, most: int) -> list[DeviceId]:
        """The next devices by name, at most ``most``."""
        names = self._merged()
        return list(islice(self._from(bisect_right(names, name)), most))

    def near(self, name: str, most: int) -> list[DeviceId]:
        """The devices next to where the name would stand, at most ``most`` on each side: they begin as it does, if any
        do.
        """
        names = self._merged()
        return list(islice(self._from(max(0, bisect_left(names, name) - most)), 2 * most))

    def _from(self, place: int) -> Iterator[DeviceId]:
        names = self._names
        return (names[index] for index in range(place, len(names)) if names[index] in self._known)

    def _opened(self, now: float, effect: effects.OpenSession) -> None:
        place = bisect_left(self._names, effect.device)
        if place == len(self._names) or self._names[place] != effect.device:
            self._new.add(effect.device)
            if len(self._new) >= MOST_NEW:
                self._merged()

    def _merged(self) -> list[DeviceId]:
        if self._new:
            self._names.extend(self._new)
            self._new.clear()
            if len(self._names) > 2 * len(self._known):
                self._names = list(self._known)
            self._names.sort()  # a sorted run and a short one: little more than a merge
        return self._names
