"""A world of another making than the packaged workloads: who the devices are, and when, comes from other rules.

Nothing is correlated with anything: cpu from a gamma distribution, memory scores and task times log-normal, links
log-normal with log-sigma 1. Devices charge once in most nights, for hours, and look in for minutes a few times a day.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from testbed.population.columns import Columns
from testbed.population.kinds import KindTable
from testbed.simulator.model import CheckIns, Simulation

DEVICES = 40_000  # some 140,000 check-ins a day
DAYS = 3  # that are repeated
DAY_S = 86_400.0
LINK_MEAN_BIT_S = 13.7e6
NIGHTS, BRIEF_PER_DAY = 0.8, 2.7


def among_strangers(simulation: Simulation, seed: int) -> Simulation:
    """The same jobs, for these devices."""
    chance = np.random.default_rng(seed)
    columns = Columns(
        DEVICES,
        {
            "fp16": chance.lognormal(np.log(900.0), 0.9, DEVICES),
            "cpu": chance.gamma(3.0, 2.2, DEVICES),
            "os": chance.binomial(8, 0.6, DEVICES).astype(np.float64) + 5.0,
        },
    )
    table = KindTable([job.spec.requirement for job in simulation.jobs])
    kind = table.kinds(columns).astype(np.int32)
    slow = chance.lognormal(0.0, 0.6, DEVICES)
    link = chance.lognormal(np.log(LINK_MEAN_BIT_S) - 0.5, 1.0, DEVICES)
    start, end, device = _sessions(chance)
    span_s = DAYS * DAY_S

    def trace() -> Iterator[CheckIns]:
        cycle = 0
        while True:
            yield CheckIns(
                start + cycle * span_s,
                end + cycle * span_s,
                device,
                np.arange(len(start)) + cycle * len(start),
                kind[device],
                (slow / slow.mean())[device],
                (8.0 / link)[device],
                np.zeros(len(start), np.bool_),
            )
            cycle += 1

    return replace(simulation, kinds=table.capabilities, trace=trace, devices=DEVICES)


def _sessions(chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, end and device of each, by start; those of a device do not overlap, nor pass the last day."""
    nights = np.argwhere(chance.random((DEVICES, DAYS)) < NIGHTS)
    evening = chance.normal(22.0, 2.0, DEVICES) * 3600.0  # when each goes to bed
    at_night = evening[nights[:, 0]] + nights[:, 1] * DAY_S + chance.normal(0.0, 1800.0, len(nights))
    brief = np.repeat(np.arange(DEVICES), chance.poisson(BRIEF_PER_DAY * DAYS, DEVICES))
    device = np.concatenate([nights[:, 0], brief])
    start = np.concatenate([at_night, chance.random(len(brief)) * DAYS * DAY_S]) % (DAYS * DAY_S)
    hours, minutes = chance.lognormal(np.log(5.0), 0.4, len(nights)), chance.weibull(0.7, len(brief)) * 6.0
    length = np.concatenate([hours * 3600.0, minutes * 60.0]) + 1.0
    order = np.lexsort((start, device))
    start, device, length = start[order], device[order], length[order]
    until = np.append(np.where(device[1:] == device[:-1], start[1:], DAYS * DAY_S), DAYS * DAY_S)
    end = np.minimum(start + length, until)
    kept = np.flatnonzero(end > start)
    kept = kept[np.argsort(start[kept], kind="stable")]
    return start[kept], end[kept], device[kept]
