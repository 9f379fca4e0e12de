"""Day and night: how likely a device that is away comes back, over the hours."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from testbed.population.chance import Reals

DAY_S = 86_400.0
_GRID = 4096  # parts of a day to begin the search in: within 10 ms
_STEPS = 2


@dataclass(frozen=True, slots=True)
class Day:
    """A sine over the day, 1 on average: gaps pass faster where it is high. Time 0 is midnight."""

    swing: float = 1.0  # the most over the least, >= 1; 1: no day and night
    peak_s: float = 0.0  # when it is highest, seconds after midnight

    def __post_init__(self) -> None:
        if not (1 <= self.swing < np.inf):
            raise ValueError(f"a swing of {self.swing} is not 1 or more")

    @property
    def _amplitude(self) -> float:
        return (self.swing - 1) / (self.swing + 1)

    def pace(self, time_s: Reals) -> Reals:
        """Seconds of gap that pass in a second, at these times."""
        return 1 + self._amplitude * np.cos(2 * np.pi * (time_s - self.peak_s) / DAY_S)

    def passed(self, time_s: Reals) -> Reals:
        """Seconds of gap that pass until these times, from some moment on that is always the same."""
        return time_s + self._amplitude * DAY_S / (2 * np.pi) * np.sin(2 * np.pi * (time_s - self.peak_s) / DAY_S)

    def after(self, time_s: Reals, gap_s: Reals) -> Reals:
        """When a gap that began then is over."""
        if self.swing == 1:
            return time_s + gap_s
        wanted = self.passed(time_s) + gap_s
        first, times = _inverse(self)
        midnight = np.floor((wanted - first) / DAY_S) * DAY_S
        place = (wanted - midnight - first) * (_GRID / DAY_S)
        below = np.minimum(place.astype(np.intp), _GRID - 1)
        found = midnight + times[below] + (place - below) * (times[below + 1] - times[below])
        for _ in range(_STEPS):  # of Newton's: always as many, so that no device's time depends on who is asked with it
            found = found - (self.passed(found) - wanted) / self.pace(found)
        return np.asarray(np.maximum(found, time_s))


@cache
def _inverse(day: Day) -> tuple[float, Reals]:
    """What has passed at midnight, and the times at which each _GRID-th part of a day more has passed."""
    times = np.linspace(0.0, DAY_S, 4 * _GRID + 1)
    passed = day.passed(times)
    return float(passed[0]), np.interp(passed[0] + np.linspace(0.0, DAY_S, _GRID + 1), passed, times)
