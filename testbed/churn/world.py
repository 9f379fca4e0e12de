"""Who is away, from when to when, while wishes are granted in order of time."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from device_agent.absences import Absence, Going
from testbed.churn.timeline import Action, Verb
from testbed.churn.wishes import Wish

RESTART_S = 2.0  # a device that is always there is back so long after a crash

OVER = {  # what ends which absences
    Verb.JOIN: (Going.LEAVE, Going.CRASH),
    Verb.RECONNECT: (Going.DISCONNECT, Going.PARTITION),
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
        self._gone[device] = [Absence(0.0, math.inf, Going.LEAVE)]

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
            gone.append(Absence(wish.at_s, until, Going(wish.verb.value)))
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
