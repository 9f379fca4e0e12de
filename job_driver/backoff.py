"""How long to wait before the next try: full jitter under a doubling bound."""

import random

FIRST_S, MOST_S = 0.05, 3.0


class Backoff:
    """One per thing that is tried again; ``reset`` after it worked."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()
        self._bound_s = FIRST_S

    def reset(self) -> None:
        self._bound_s = FIRST_S

    def next_s(self) -> float:
        """Seconds, at most MOST_S; at least half of the bound, so that a busy loop is impossible."""
        wait = self._bound_s * (0.5 + 0.5 * self._chance.random())
        self._bound_s = min(MOST_S, 2 * self._bound_s)
        return wait
