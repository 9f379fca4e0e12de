"""The time to wait before the next try: full jitter under a doubling bound."""

import random
from collections.abc import Callable

FIRST_S, MOST_S = 0.05, 3.0


class Backoff:
    """One per thing that is tried again; ``reset`` after it worked."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        """``chance``: uniform in [0, 1)."""
        self._chance = chance
        self._bound_s = FIRST_S

    def reset(self) -> None:
        self._bound_s = FIRST_S

    def next_s(self) -> float:
        """Seconds, at most MOST_S; at least half of the bound, so that a busy loop is impossible."""
        wait = self._bound_s * (0.5 + 0.5 * self._chance())
        self._bound_s = min(MOST_S, 2 * self._bound_s)
        return wait
