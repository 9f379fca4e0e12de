"""The devices of a scenario against the distributions that it asks for, fleet by fleet."""

import math
from itertools import islice, pairwise

import numpy as np

from device_agent.availability import Interval, generated
from testbed.population.compared import Compared, drawn_from
from testbed.population.device import DeviceSpec, FleetSpec
from testbed.population.expand import expand
from venn.wire.notation import Constant, Distribution

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
