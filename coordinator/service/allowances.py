"""Allowances: how much an identity may say, at once and in the long run. Who says more is refused, or cut off."""

import time
from collections import OrderedDict
from collections.abc import Callable

RECORD_BYTES = 150  # of the journal, for a message beyond its own bytes
MOST_REMEMBERED = 100_000  # identities; beyond it the one that spoke longest ago begins anew

Clock = Callable[[], float]


class Allowance:
    """An amount that may be used at once, and comes back at a rate."""

    __slots__ = ("_at", "_clock", "_left", "_most", "_per_s")

    def __init__(self, most: float, per_s: float, clock: Clock = time.monotonic) -> None:
        self._most, self._per_s, self._clock = most, per_s, clock
        self._left, self._at = most, clock()

    def take(self, amount: float) -> bool:
        """Use some; returns whether that was allowed. What is not allowed is not used."""
        if self._left < amount:
            now = self._clock()
            self._left = min(self._most, self._left + (now - self._at) * self._per_s)
            self._at = now
            if self._left < amount:
                return False
        self._left -= amount
        return True

    def add(self, amount: float) -> None:
        """Allow more, within what is allowed at once."""
        self._left = min(self._most, self._left + amount)

    def wait_s(self, amount: float) -> float:
        """Seconds until so much, or else the most, is allowed."""
        return max(0.0, min(amount, self._most) - self._left) / self._per_s


class Allowances:
    """The allowances of all identities."""

    def __init__(self, most: float, per_s: float, clock: Clock = time.monotonic) -> None:
        self._most, self._per_s, self._clock = most, per_s, clock
        self._of: OrderedDict[str, Allowance] = OrderedDict()  # who spoke longest ago first

    def of(self, who: str) -> Allowance:
        found = self._of.get(who)
        if found is None:
            found = self._of[who] = Allowance(self._most, self._per_s, self._clock)
            if len(self._of) > MOST_REMEMBERED:
                self._of.popitem(last=False)
        else:
            self._of.move_to_end(who)
        return found
