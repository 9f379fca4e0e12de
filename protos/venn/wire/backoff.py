"""Waits before another try: exponential backoff with full jitter, so that many peers do not return at once.

Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

import random


class Backoff:
    """Waits that are uniform in 0 to ``first_s`` x 2^n seconds, at most ``most_s``, after n failures in a row."""

    def __init__(self, rng: random.Random | None = None, *, first_s: float = 0.25, most_s: float = 5.0) -> None:
        self._rng, self._first_s, self._most_s = rng or random.Random(), first_s, most_s
        self.failures = 0  # since it worked last

    def next_s(self) -> float:
        """Seconds to wait after one more failure."""
        ceiling = min(self._most_s, self._first_s * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return self._rng.uniform(0.0, ceiling)

    def reset(self) -> None:
        """Begin again at ``first_s``: a try has worked."""
        self.failures = 0
