"""A population in figures: what was asked of devices and sessions, beside what was made or what a file holds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Requirement
from device_agent.sessions import DAY_S, Availability, Block
from device_agent.spec import DeviceSpec, Interval, generated
from testbed.world.capabilities import (
    CORRELATIONS,
    LINK_LOG_SIGMA,
    LINK_MEAN_BIT_S,
    MARGINALS,
    PERCENTILES,
    SHARES,
    Phones,
    phones,
)
from testbed.world.columns import LATEST_S, Columns, GeneratedPhones, opened_csv
from testbed.world.fedscale import read_dictionary
from testbed.world.fleets import FleetSpec, expand
from testbed.world.population import KindTable, PopulationSpec
from testbed.world.sessions import PHONES_AVAILABILITY, sessions
from testbed.world.trace_files import COLUMNS, SessionFile, as_file, read_devices, read_sessions
from venn.wire.chance import Reals, at
from venn.wire.notation import Constant, Distribution, LogNormal

SHOWN = (0.05, 0.25, 0.50, 0.75, 0.95)


class Kind(StrEnum):
    """How a property is best drawn."""

    PERCENTILES = "percentiles"  # of a quantity: a curve
    PARTS = "parts"  # of a whole, or correlations: bars
    HOURS = "hours"  # of the day


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, asked and made."""

    at: str  # e.g. "50 %", "cpu, ram"
    asked: float  # NaN: nothing was, as of a file
    made: float


@dataclass(frozen=True, slots=True)
class Compared:
    """A property of a population: what was asked, and what was made."""

    name: str
    unit: str  # "": none
    kind: Kind
    rows: tuple[Row, ...]

    @property
    def worst(self) -> Row | None:
        """The row whose made is furthest from its asked: by ratio for percentiles, by difference for the rest.

        None: nothing was asked.
        """
        rows = [row for row in self.rows if not math.isnan(row.asked)]
        if self.kind is Kind.PERCENTILES:
            return max(rows, key=_ratio, default=None)
        return max(rows, key=lambda row: abs(row.made - row.asked), default=None)


def _ratio(row: Row) -> float:
    return abs(row.made / row.asked - 1) if row.asked else abs(row.made)


def percentiles(name: str, unit: str, asked: Sequence[float], made: Reals, parts: Sequence[float] = SHOWN) -> Compared:
    """Compares values with what was asked at the same ``parts`` in (0, 1). Nothing made counts as 0."""
    found = np.quantile(made, parts) if len(made) else np.zeros(len(parts))
    rows = (Row(f"{100 * part:g} %", float(a), float(m)) for part, a, m in zip(parts, asked, found, strict=True))
    return Compared(name, unit, Kind.PERCENTILES, tuple(rows))


def found(name: str, unit: str, made: Reals, parts: Sequence[float] = SHOWN) -> Compared:
    """Describes what a file holds: nothing was asked."""
    return percentiles(name, unit, [math.nan] * len(parts), made, parts)


def drawn_from(name: str, unit: str, asked: Distribution, made: Reals, scale: float = 1.0) -> Compared:
    """Compares ``made`` with the distribution that it was drawn from; both are divided by ``scale``."""
    return percentiles(name, unit, list(at(asked, np.array(SHOWN)) / scale), made / scale)


MOST_VALUES = 12  # of a label that are told apart
_UNITS = {"memory": ("GB", 1e9), "link": ("Mbit/s", 1e6), "inference": ("ms", 1e-3)}


def describe_file(path: Path) -> tuple[Compared, ...]:
    """Describes a file of devices or of sessions. Raises UsageError."""
    if path.suffix == ".csv":
        with opened_csv(path, (COLUMNS[0],)) as (header, _):
            sessions = set(COLUMNS) <= set(header)
        return describe_session_file(read_sessions(path, None)) if sessions else _of_devices(path)
    if path.suffix == ".parquet":
        return _of_devices(path)
    held = read_dictionary(path)
    return describe_columns(held) if isinstance(held, Columns) else describe_session_file(as_file(held))


def _of_devices(path: Path) -> tuple[Compared, ...]:
    return describe_columns(read_devices(path).columns)


def describe_columns(columns: Columns) -> tuple[Compared, ...]:
    """Describes devices: percentiles of each number and parts of each label, of those devices that report it."""
    numbers = []
    for name, column in columns.numbers.items():
        unit, scale = _UNITS.get(name, ("", 1.0))
        numbers.append(found(name, unit, column[~np.isnan(column)] / scale))
    reported = {name: float((~np.isnan(column)).mean()) for name, column in columns.numbers.items()}
    reported |= {name: float((each.code >= 0).mean()) for name, each in columns.labels.items()}
    rows = tuple(Row(name, math.nan, 100 * part) for name, part in reported.items())
    return (
        *numbers,
        Compared("devices", "", Kind.PARTS, (Row("all", math.nan, columns.rows),)),
        *([Compared("reported by", "% of devices", Kind.PARTS, rows)] if rows else []),
        *(_values(name, each.code, each.values) for name, each in columns.labels.items()),
    )


def _values(name: str, code: NDArray[np.int32], values: tuple[str, ...]) -> Compared:
    """The most frequent values of a label, and the rest together."""
    counts = np.bincount(code[code >= 0], minlength=len(values))
    most = np.argsort(-counts, kind="stable")[:MOST_VALUES].tolist()
    rest = int(counts.sum() - counts[most].sum())
    rows = [Row(values[place], math.nan, 100 * int(counts[place]) / len(code)) for place in most]
    rows += [Row("others", math.nan, 100 * rest / len(code))] if rest else []
    return Compared(name, "% of devices", Kind.PARTS, tuple(rows))


def describe_session_file(file: SessionFile) -> tuple[Compared, ...]:
    """Describes the sessions of a file: lengths, gaps, how often devices check in and when."""
    lengths, gaps = Spread(), Spread()
    left = np.full(file.devices, np.nan)  # when each device's last session ended
    begun = np.zeros(int(LATEST_S / BIN_S) + 1)
    last_s = 0.0
    for block in file.blocks():
        lengths.add(block.end_s - block.start_s)
        before, start = _before(block, left)
        gaps.add((start - before)[~np.isnan(before)])
        begun += np.bincount((block.start_s / BIN_S).astype(np.intp), minlength=len(begun))
        last_s = max(last_s, float(block.end_s.max()))
    days = last_s / DAY_S
    rows = [Row("sessions", math.nan, file.rows), Row("devices", math.nan, file.devices), Row("days", math.nan, days)]
    rows += [Row("left out, without any length", math.nan, file.empty)] if file.empty else []
    often = Row("mean", math.nan, file.rows / file.devices / days)
    return (
        lengths.described("session"),
        *([gaps.described("gap")] if gaps.counts.any() else []),
        Compared("it holds", "", Kind.PARTS, tuple(rows)),
        Compared("check-ins", "per device and day", Kind.PARTS, (often,)),
        over_the_day(begun[: int(last_s / BIN_S) + 1], BIN_S),
    )


def _before(block: Block, left: Reals) -> tuple[Reals, Reals]:
    """When each device had left before a session, and when the session began; NaN before its device's first.

    ``left`` is brought up to date.
    """
    order = np.lexsort((block.start_s, block.device))
    device, start, end = block.device[order], block.start_s[order], block.end_s[order]
    again = np.concatenate([[False], device[1:] == device[:-1]])
    before = np.where(again, np.concatenate([[np.nan], end[:-1]]), left[device])
    left[device] = end  # of several the last one stays
    return before, start


class Spread:
    """Percentiles of values that stream by, to within 0.2 %: counts between edges that lie 0.2 % apart."""

    def __init__(self) -> None:
        self._edges = np.geomspace(1e-3, 1e9, 13_801)  # ms to 30 years
        self.counts = np.zeros(len(self._edges) + 1)

    def add(self, values: Reals) -> None:
        self.counts += np.bincount(np.searchsorted(self._edges, values), minlength=len(self.counts))

    def described(self, name: str) -> Compared:
        """The percentiles, in minutes."""
        reached = np.searchsorted(np.cumsum(self.counts), np.array(SHOWN) * self.counts.sum())
        values = np.concatenate([[0.0], self._edges])[np.minimum(reached, len(self._edges))]
        minutes = (values / 60).tolist()
        rows = (Row(f"{100 * part:g} %", math.nan, each) for part, each in zip(SHOWN, minutes, strict=True))
        return Compared(name, "min", Kind.PERCENTILES, tuple(rows))


BIN_S = 300.0  # of the curve over the day
HOUR_S = 3600.0


class _Tally:
    """Counts and sums of sessions that stream by."""

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
        left, start = _before(block, self._left)
        gaps = self._about.day.passed(start) - self._about.day.passed(left)
        self.gaps.append(gaps[left < self._gaps_until_s])  # not a number is in no order

    def away(self, devices: int) -> Reals:
        """The number of devices that are away in the middle of each bin."""
        there = self.there_at_0 + np.cumsum(self.begun - self.ended) - (self.begun - self.ended) / 2
        return np.asarray(devices - there)


def describe_generated(about: Availability, devices: int, until_s: float, seed: int) -> tuple[Compared, ...]:
    """Compares generated sessions of so many devices, until then, with what was asked of them."""
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
    """Check-ins by hour of the day, their mean being 1; ``begun`` counts them in bins of ``bin_s`` from midnight on."""
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


SESSIONS = 20  # of each device
SCALES = {"memory": ("GB", 1e9), "session": ("s", 1.0), "gap": ("s", 1.0)}


def describe_fleets(fleets: list[FleetSpec], *, seed: int, time_scale: float) -> tuple[Compared, ...]:
    """Compares the devices of fleets with the distributions that were asked for; times include the time scale."""
    devices = expand(fleets, seed=seed, time_scale=time_scale, data={})
    found: list[Compared] = []
    for fleet in fleets:
        mine = [device for device in devices if device.fleet == fleet.name]
        for name in ("cpu", "memory", "os"):
            asked: Distribution | None = getattr(fleet, name)
            if asked is not None and not isinstance(asked, Constant):
                found.append(_compared(fleet, name, asked, [device.numbers[name] for device in mine]))
        if fleet.session is not None and fleet.gap is not None:
            found += _times(fleet, mine, fleet.session.scaled(time_scale), fleet.gap.scaled(time_scale))
    return tuple(found)


def _times(fleet: FleetSpec, devices: list[DeviceSpec], session: Distribution, gap: Distribution) -> list[Compared]:
    lengths: list[float] = []
    gaps: list[float] = []
    for device in devices:
        intervals = list(islice(generated(device.seed, device.device, session, gap, fleet.crash), SESSIONS + 1))
        lengths += [each.end_s - each.start_s for each in intervals if each.start_s > 0]
        gaps += [_between(one, other) for one, other in pairwise(intervals)]
    each = (("session", session, lengths), ("gap", gap, gaps))
    return [_compared(fleet, name, asked, made) for name, asked, made in each if not isinstance(asked, Constant)]


def _between(one: Interval, other: Interval) -> float:
    return 0.0 if math.isinf(one.end_s) else other.start_s - one.end_s


def _compared(fleet: FleetSpec, name: str, asked: Distribution, made: list[float]) -> Compared:
    unit, scale = SCALES.get(name, ("", 1.0))
    return drawn_from(f"{fleet.name} {name}", unit, asked, np.array(made), scale)


def describe_phones(count: int, days: float, seed: int) -> tuple[Compared, ...]:
    """Compares ``count`` generated phones, and their sessions of so many days, with what is known of real ones."""
    return (*describe_made(phones(count, seed)), *describe_generated(PHONES_AVAILABILITY, count, days * DAY_S, seed))


def describe_made(made: Phones) -> tuple[Compared, ...]:
    """Compares generated phones, without their sessions, with what is known of real ones."""
    marginals = [
        percentiles(each.name, each.unit, each.asked, getattr(made, each.name), PERCENTILES) for each in MARGINALS
    ]
    link = LogNormal(LINK_MEAN_BIT_S / np.exp(LINK_LOG_SIGMA**2 / 2), LINK_LOG_SIGMA)
    return (*marginals, drawn_from("link", "Mbit/s", link, made.link, 1e6), _correlations(made), _regions(made))


def _correlations(made: Phones) -> Compared:
    def of(one: str, other: str) -> float:
        return float(np.corrcoef(np.log(getattr(made, one)), np.log(getattr(made, other)))[0, 1])

    rows = (Row(f"{one}, {other}", asked, of(one, other)) for (one, other), asked in CORRELATIONS.items())
    return Compared("correlations of logarithms", "", Kind.PARTS, tuple(rows))


def _regions(made: Phones) -> Compared:
    found = made.regions()
    rows = (Row(name, 100 * share, 100 * float((found == name).mean())) for name, share in SHARES.items())
    return Compared("regions", "% of phones", Kind.PARTS, tuple(rows))


def describe_population(
    spec: PopulationSpec, requirements: Mapping[str, Requirement], *, most: int, days: float, seed: int
) -> tuple[Compared, ...]:
    """Describes a scenario's population: devices, which requirements they meet, and sessions.

    Of generated ones, ``most`` devices and ``days``. Raises UsageError."""
    ids = None
    count = min(spec.count or most, most)
    if spec.devices is not None:
        file = read_devices(spec.devices)
        ids, columns = file.ids, file.columns
        about = describe_columns(columns)
    else:
        columns = GeneratedPhones(seed).columns(0, count)
        about = describe_made(phones(count, seed))
    if spec.sessions is not None:
        times = describe_session_file(read_sessions(spec.sessions, ids))
    else:
        until_s = min(days * DAY_S, math.inf if spec.replay_s is None else spec.replay_s)
        times = describe_generated(spec.availability, count, until_s, seed)
    return (*about, *_eligible(columns, requirements), *times)


def _eligible(columns: Columns, requirements: Mapping[str, Requirement]) -> tuple[Compared, ...]:
    """The part of the devices that meets each requirement."""
    if not requirements:
        return ()
    table = KindTable(requirements.values())
    kinds = table.kinds(columns).tolist()
    rows = []
    for name, requirement in requirements.items():
        met = [requirement.matches(DeviceId(""), each) for each in table.capabilities]
        rows.append(Row(name, math.nan, 100 * sum(met[kind] for kind in kinds) / len(kinds)))
    return (Compared("eligible", "% of devices", Kind.PARTS, tuple(rows)),)
