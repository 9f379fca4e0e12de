"""How long to wait before trying again: exponential with full jitter, so that many devices do not return at once.

And how long to try at all, before the other side was ever met.
"""

import random


class Backoff:
    """Waits of 0 to ``first_s`` x 2^n seconds, n failures on, at most ``most_s``; the same under the same ``rng``."""

    def __init__(self, rng: random.Random, *, first_s: float = 0.25, most_s: float = 5.0) -> None:
        self._rng, self._first_s, self._most_s = rng, first_s, most_s
        self.failures = 0  # since it worked last

    def next_s(self) -> float:
        """Seconds to wait after one more failure."""
        ceiling = min(self._most_s, self._first_s * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return self._rng.uniform(0.0, ceiling)

    def reset(self) -> None:
        """It worked."""
        self.failures = 0


class FirstContact:
    """Whether any device of this process has met the coordinator. If none does, trying ends after ``patience_s``."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: float | None = None  # the first try that failed
        self._met = False

    def met(self) -> None:
        """From now on it is tried for ever: it was there, and may come back."""
        self._met = True

    @property
    def was_met(self) -> bool:
        return self._met

    def failed(self, now: float) -> bool:
        """One more try failed; whether that was the last."""
        if self._since is None:
            self._since = now
        return not self._met and now >= self._since + self._patience_s
