"""A population against what was asked of it.

The devices of a scenario against the distributions that it asks for, fleet by fleet.

The generated phones, and when they are there, against what is known of real ones.

The population of a scenario, or as much of it as shows what it is.
"""

import math
from collections.abc import Mapping
from itertools import islice, pairwise

import numpy as np

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Requirement
from device_agent.spec import DeviceSpec, Interval, generated
from testbed.report.traces import (
    Compared,
    Kind,
    Row,
    describe_columns,
    describe_generated,
    describe_session_file,
    drawn_from,
    percentiles,
)
from testbed.world.columns import Columns, GeneratedPhones
from testbed.world.fleets import FleetSpec, expand
from testbed.world.matching import KindTable
from testbed.world.phones import (
    CORRELATIONS,
    LINK_LOG_SIGMA,
    LINK_MEAN_BIT_S,
    MARGINALS,
    PERCENTILES,
    SHARES,
    Phones,
    phones,
)
from testbed.world.population import PopulationSpec
from testbed.world.sessions import DAY_S, PHONES_AVAILABILITY
from testbed.world.trace_files import read_devices, read_sessions
from venn.wire.notation import Constant, Distribution, LogNormal

SESSIONS = 20  # of each device
SCALES = {"memory": ("GB", 1e9), "session": ("s", 1.0), "gap": ("s", 1.0)}


def describe_fleets(fleets: list[FleetSpec], *, seed: int, time_scale: float) -> tuple[Compared, ...]:
    """What is drawn at all: a constant is what it is. Times are as they will be, with the time scale in them."""
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
    """``count`` phones, and their sessions of so many days."""
    return (*describe_made(phones(count, seed)), *describe_generated(PHONES_AVAILABILITY, count, days * DAY_S, seed))


def describe_made(made: Phones) -> tuple[Compared, ...]:
    """The phones alone."""
    marginals = [
        percentiles(each.name, each.unit, each.asked, getattr(made, each.name), PERCENTILES) for each in MARGINALS
    ]
    link = LogNormal(LINK_MEAN_BIT_S / np.exp(LINK_LOG_SIGMA**2 / 2), LINK_LOG_SIGMA)
    return (
        *marginals,
        drawn_from("link", "Mbit/s", link, made.link, 1e6),
        _correlations(made),
        _regions(made),
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


def describe_population(
    spec: PopulationSpec, requirements: Mapping[str, Requirement], *, most: int, days: float, seed: int
) -> tuple[Compared, ...]:
    """Its devices, which requirements they meet, and their sessions; of generated ones ``most`` devices and ``days``.

    Raises UsageError.
    """
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
