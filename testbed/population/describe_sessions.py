"""Generated sessions against the lengths, gaps and hours that they were asked to have."""

import numpy as np

from testbed.population.chance import Reals
from testbed.population.compared import Compared, Kind, Row, drawn_from
from testbed.population.day import DAY_S
from testbed.population.sessions import Availability, Block, sessions

BIN_S = 300.0  # of the curve over the day
HOUR_S = 3600.0


class _Tally:
    """What is kept of sessions that stream by."""

    def __init__(self, about: Availability, devices: int, until_s: float) -> None:
        self._about = about
        self._left = np.full(devices, np.nan)  # when each device's last session ended
        # Of gaps that begin late only the short ones end in time: they would make all look shorter.
        self._gaps_until_s = until_s - min(10 * about.gap.mean, until_s / 2)
        self.lengths: list[Reals] = []
        self.gaps: list[Reals] = []  # as the day counts them
        bins = int(np.ceil(until_s / BIN_S))
        self.begun, self.ended = np.zeros(bins), np.zeros(bins)
        self.there_at_0 = 0

    def add(self, block: Block) -> None:
        began = block.start_s > 0
        self.there_at_0 += int((~began).sum())
        self.lengths.append((block.end_s - block.start_s)[began])
        bins = len(self.begun)
        self.begun += np.bincount((block.start_s[began] / BIN_S).astype(np.intp), minlength=bins)[:bins]
        ends = (block.end_s / BIN_S).astype(np.intp)
        self.ended += np.bincount(ends[ends < bins], minlength=bins)
        self._add_gaps(block)

    def _add_gaps(self, block: Block) -> None:
        order = np.lexsort((block.start_s, block.device))
        device, start, end = block.device[order], block.start_s[order], block.end_s[order]
        same = np.concatenate([[False], device[1:] == device[:-1]])
        left = np.where(same, np.concatenate([[np.nan], end[:-1]]), self._left[device])
        day = self._about.day
        gaps = day.passed(start) - day.passed(left)
        self.gaps.append(gaps[left < self._gaps_until_s])  # not a number is in no order
        self._left[device] = end  # of several the last one stays

    def away(self, devices: int) -> Reals:
        """How many are away in the middle of each bin."""
        there = self.there_at_0 + np.cumsum(self.begun - self.ended) - (self.begun - self.ended) / 2
        return np.asarray(devices - there)


def describe_generated(about: Availability, devices: int, until_s: float, seed: int) -> tuple[Compared, ...]:
    """The sessions of so many devices until then."""
    tally = _Tally(about, devices, until_s)
    for block in sessions(about, devices, seed, until_s):
        tally.add(block)
    lengths, gaps = np.concatenate(tally.lengths), np.concatenate(tally.gaps)
    made_per_device = float(tally.begun.sum()) / devices / (until_s / DAY_S)
    return (
        drawn_from("session", "min", about.session, lengths, 60.0),
        drawn_from("gap", "min, as the day counts them", about.gap, gaps, 60.0),
        Compared("check-ins", "per device and day", Kind.PARTS, (Row("mean", DAY_S / about.cycle_s, made_per_device),)),
        _hours(about, tally, devices),
        over_the_day(tally.begun, BIN_S),
    )


def over_the_day(begun: Reals, bin_s: float) -> Compared:
    """Check-ins by the hour, their mean being 1; ``begun`` counts them in bins of so long from midnight on."""
    hour = ((np.arange(len(begun)) * bin_s % DAY_S) // HOUR_S).astype(np.intp)
    come = np.bincount(hour, weights=begun, minlength=24)
    per_bin = come / np.maximum(np.bincount(hour, minlength=24), 1)
    seen = np.unique(hour)
    mean = per_bin[seen].mean() or 1.0
    rows = (Row(f"{at:02}:00", np.nan, float(per_bin[at] / mean)) for at in seen.tolist())
    return Compared("check-ins over the day", "over the mean", Kind.HOURS, tuple(rows))


def _hours(about: Availability, tally: _Tally, devices: int) -> Compared:
    """How likely a device that is away comes back, over the day, its mean being 1."""
    middle: Reals = (np.arange(len(tally.begun), dtype=np.float64) + 0.5) * BIN_S
    hour = ((middle % DAY_S) // HOUR_S).astype(np.intp)
    come, away, asked = (
        np.bincount(hour, weights=each, minlength=24).astype(np.float64)
        for each in (tally.begun, tally.away(devices), about.day.pace(middle))
    )
    bins = np.maximum(np.bincount(hour, minlength=24), 1)
    rate = come / np.maximum(away, 1)
    seen = away > 0
    made = np.where(seen, rate / rate[seen].mean(), 0.0)
    rows = (Row(f"{at:02}:00", float(asked[at] / bins[at]), float(made[at])) for at in range(24) if seen[at])
    return Compared("return of those that are away", "over the mean", Kind.HOURS, tuple(rows))
