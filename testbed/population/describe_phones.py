"""The generated phones, and when they are there, against what is known of real ones."""

import numpy as np

from testbed.population.chance import Reals
from testbed.population.compared import Compared, Kind, Row, drawn_from, percentiles
from testbed.population.copula import PERCENTILES
from testbed.population.day import DAY_S
from testbed.population.phones import (
    CORRELATIONS,
    LINK_LOG_SIGMA,
    LINK_MEAN_BIT_S,
    MARGINALS,
    SHARES,
    Phones,
    phones,
)
from testbed.population.sessions import PHONE_SESSIONS_PER_S, PHONES, Availability, Block, sessions
from venn.wire.notation import LogNormal

BIN_S = 300.0  # of the curve over the day
HOUR_S = 3600.0


def describe_phones(count: int, days: float, seed: int) -> tuple[Compared, ...]:
    """``count`` phones, and their sessions of so many days."""
    made = phones(count, seed)
    marginals = [
        percentiles(each.name, each.unit, each.asked, getattr(made, each.name), PERCENTILES) for each in MARGINALS
    ]
    link = LogNormal(LINK_MEAN_BIT_S / np.exp(LINK_LOG_SIGMA**2 / 2), LINK_LOG_SIGMA)
    return (
        *marginals,
        drawn_from("link", "Mbit/s", link, made.link, 1e6),
        _correlations(made),
        _regions(made),
        *_times(PHONES, count, days * DAY_S, seed),
    )


def _correlations(made: Phones) -> Compared:
    def of(one: str, other: str) -> float:
        return float(np.corrcoef(np.log(getattr(made, one)), np.log(getattr(made, other)))[0, 1])

    rows = (Row(f"{one}, {other}", asked, of(one, other)) for (one, other), asked in CORRELATIONS.items())
    return Compared("correlations of logarithms", "", Kind.PARTS, tuple(rows))


def _regions(made: Phones) -> Compared:
    found = made.regions()
    rows = (Row(name, 100 * share, 100 * float((found == name).mean())) for name, share in SHARES.items())
    return Compared("regions", "% of phones", Kind.PARTS, tuple(rows))


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


def _times(about: Availability, devices: int, until_s: float, seed: int) -> list[Compared]:
    tally = _Tally(about, devices, until_s)
    for block in sessions(about, devices, seed, until_s):
        tally.add(block)
    lengths, gaps = np.concatenate(tally.lengths), np.concatenate(tally.gaps)
    per_phone = PHONE_SESSIONS_PER_S * DAY_S / about.devices_for(PHONE_SESSIONS_PER_S)
    made_per_phone = float(tally.begun.sum()) / devices / (until_s / DAY_S)
    return [
        drawn_from("session", "min", about.session, lengths, 60.0),
        drawn_from("gap", "min, as the day counts them", about.gap, gaps, 60.0),
        Compared("check-ins", "per phone and day", Kind.PARTS, (Row("mean", per_phone, made_per_phone),)),
        _hours(about, tally, devices),
    ]


def _hours(about: Availability, tally: _Tally, devices: int) -> Compared:
    """How likely a phone that is away comes back, over the day, its mean being 1."""
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
    return Compared("return of phones that are away", "over the mean", Kind.HOURS, tuple(rows))
