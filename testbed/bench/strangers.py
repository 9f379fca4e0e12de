"""Worlds of another making than the packaged workloads: who the devices are, and when, comes from other rules.

``strangers``: nothing is correlated with anything: cpu from a gamma distribution, memory scores and task times
log-normal, links log-normal with log-sigma 1. Devices charge once in most nights, for hours, and look in for minutes a
few times a day.

``commuters``: all is of a piece. Devices are of five makes, which say what they can do and how fast; those with much
memory are slow, and one in twelve can do everything. Links are one of two speeds. They come in two rush hours, and a
few times between, for sessions of a Pareto distribution.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from testbed.simulate.model import Simulation
from testbed.world.arrays import CheckIns, Reals
from testbed.world.columns import Columns
from testbed.world.matching import KindTable

DEVICES = 40_000  # some 140,000 check-ins a day
DAYS = 3  # that are repeated
DAY_S = 86_400.0
LINK_MEAN_BIT_S = 13.7e6
NIGHTS, BRIEF_PER_DAY = 0.8, 2.7
MAKES = np.array(  # share, fp16, cpu, os, slow
    [
        (0.40, 300.0, 3.0, 9.0, 1.8),
        (0.22, 600.0, 14.0, 12.0, 0.5),
        (0.25, 2000.0, 4.0, 11.0, 1.2),
        (0.08, 4000.0, 20.0, 13.0, 0.3),
        (0.05, 150.0, 2.0, 5.0, 2.5),
    ]
)
RUSHES, RUSHING, BETWEEN_PER_DAY = ((8.0, 1.0), (18.0, 1.5)), 0.7, 2.1  # hour and spread; who takes part
FAST_LINKS, FAST_BIT_S, SLOW_BIT_S = 0.6, 40e6, 4e6

World = Callable[[Simulation, int], Simulation]
Sessions = tuple[np.ndarray, np.ndarray, np.ndarray]  # start, end and device of each


def among_strangers(simulation: Simulation, seed: int) -> Simulation:
    """The same jobs, for these devices."""
    chance = np.random.default_rng(seed)
    can = {
        "fp16": chance.lognormal(np.log(900.0), 0.9, DEVICES),
        "cpu": chance.gamma(3.0, 2.2, DEVICES),
        "os": chance.binomial(8, 0.6, DEVICES).astype(np.float64) + 5.0,
    }
    slow = chance.lognormal(0.0, 0.6, DEVICES)
    link = chance.lognormal(np.log(LINK_MEAN_BIT_S) - 0.5, 1.0, DEVICES)
    return _among(simulation, can, slow, link, _by_night(chance))


def among_commuters(simulation: Simulation, seed: int) -> Simulation:
    """The same jobs, for these devices."""
    chance = np.random.default_rng(seed)
    make = MAKES[chance.choice(len(MAKES), DEVICES, p=MAKES[:, 0])]
    slow = make[:, 4] * chance.uniform(0.8, 1.2, DEVICES)
    link = np.where(chance.random(DEVICES) < FAST_LINKS, FAST_BIT_S, SLOW_BIT_S) * chance.uniform(0.5, 1.5, DEVICES)
    return _among(simulation, dict(zip(("fp16", "cpu", "os"), make.T[1:4], strict=True)), slow, link, _by_rush(chance))


def _among(simulation: Simulation, can: dict[str, Reals], slow: Reals, link: Reals, sessions: Sessions) -> Simulation:
    """``can``: capabilities; ``slow``: of a task, over any unit; ``link``: bits a second. By device."""
    table = KindTable([job.spec.requirement for job in simulation.jobs])
    kind = table.kinds(Columns(DEVICES, can)).astype(np.int32)
    start, end, device = sessions
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


def _by_night(chance: np.random.Generator) -> Sessions:
    nights = np.argwhere(chance.random((DEVICES, DAYS)) < NIGHTS)
    evening = chance.normal(22.0, 2.0, DEVICES) * 3600.0  # when each goes to bed
    at_night = evening[nights[:, 0]] + nights[:, 1] * DAY_S + chance.normal(0.0, 1800.0, len(nights))
    brief = np.repeat(np.arange(DEVICES), chance.poisson(BRIEF_PER_DAY * DAYS, DEVICES))
    device = np.concatenate([nights[:, 0], brief])
    start = np.concatenate([at_night, chance.random(len(brief)) * DAYS * DAY_S])
    hours, minutes = chance.lognormal(np.log(5.0), 0.4, len(nights)), chance.weibull(0.7, len(brief)) * 6.0
    return _apart(start, np.concatenate([hours * 3600.0, minutes * 60.0]), device)


def _by_rush(chance: np.random.Generator) -> Sessions:
    device, start = [np.repeat(np.arange(DEVICES), chance.poisson(BETWEEN_PER_DAY * DAYS, DEVICES))], []
    start.append(chance.random(len(device[0])) * DAYS * DAY_S)
    for hour, spread in RUSHES:
        there = np.argwhere(chance.random((DEVICES, DAYS)) < RUSHING)
        device.append(there[:, 0])
        start.append(chance.normal(hour, spread, len(there)) * 3600.0 + there[:, 1] * DAY_S)
    of, at = np.concatenate(device), np.concatenate(start)
    return _apart(at, 120.0 * (1.0 + chance.pareto(1.5, len(of))), of)


def _apart(start: Reals, length: Reals, device: np.ndarray) -> Sessions:
    """By start; those of a device do not overlap, nor pass the last day."""
    start, length = start % (DAYS * DAY_S), length + 1.0
    order = np.lexsort((start, device))
    start, device, length = start[order], device[order], length[order]
    until = np.append(np.where(device[1:] == device[:-1], start[1:], DAYS * DAY_S), DAYS * DAY_S)
    end = np.minimum(start + length, until)
    kept = np.flatnonzero(end > start)
    kept = kept[np.argsort(start[kept], kind="stable")]
    return start[kept], end[kept], device[kept]
