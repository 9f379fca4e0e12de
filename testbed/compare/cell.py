"""A cell: one simulation of a comparison, and the small file that is left of it.

Its object has the keys of a run's summary.json as far as there are such figures, so that a comparison reads both alike.
"""

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np

from coordinator.engine.ids import job_name
from testbed.compare.facts import HOUR_S, covered_s, folded
from testbed.report.comparison import TraceFacts
from testbed.runfolder.attempts import JobFacts, job_figures
from testbed.runfolder.jsonlines import Row
from testbed.simulate.model import Outcome, Simulation
from testbed.world.arrays import Reals
from venn.wire.files import write_atomic


def cell_row(simulation: Simulation, outcome: Outcome, facts: TraceFacts) -> Row:
    """The figures of a cell; the caller adds what it was asked for."""
    jobs = _jobs(simulation, outcome, facts)
    return {
        "seed": simulation.settings.seed,
        "devices": simulation.devices,
        "unfinished_jobs": sum(not job["finished"] for job in jobs),
        "jobs": jobs,
        "wanted": _wanted(simulation, outcome),
        "leases": {str(end): count for end, count in outcome.leases.items()} | {"live": outcome.live},
        "check_ins": outcome.check_ins,
        "plans": outcome.plans,
        "ended_s": outcome.now_s,
        "digest": outcome.digest,
        "path": outcome.path,
        "why": outcome.why,
        "wall_s": outcome.wall_s,
    }


def write_row(path: Path, row: Row) -> None:
    """What is not a finite number is null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(_plain(row), allow_nan=False) + "\n")


def read_row(path: Path) -> Row:
    """The object of a file; empty if there is none, or nothing that can be read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _jobs(simulation: Simulation, outcome: Outcome, facts: TraceFacts) -> list[Row]:
    ended = [float(at) if math.isfinite(at) else None for at in outcome.ended_s]
    wasted = outcome.wasted_device_s.tolist()
    jobs = [
        JobFacts(job_name(job.spec.job), job.spec.requirement_label, job.arrives_s, *came_to)
        for job, *came_to in zip(simulation.jobs, ended, wasted, strict=True)
    ]
    return [
        {key: value for key, value in asdict(figures).items() if value not in (None, "", (), {})}
        | {"device_s": device_s, "alone_s": facts.alone_s.get(figures.name)}
        for figures, device_s in zip(job_figures(jobs, outcome.attempts), outcome.device_s.tolist(), strict=True)
    ]


def _wanted(simulation: Simulation, outcome: Outcome) -> dict[str, list[float | None]]:
    """By requirement: devices that requests which are not filled yet ask for, by hour of the day, in the mean.

    A request counts with all its places until it is filled.
    """
    attempts = outcome.attempts
    until = float(attempts.ended_s.max()) if len(attempts.ended_s) else 0.0
    span = covered_s(until)
    edges = np.append(np.arange(len(span)) * HOUR_S, until)
    names = [job.spec.requirement_label for job in simulation.jobs]
    places = np.array([job.spec.places for job in simulation.jobs], dtype=np.float64)
    found: dict[str, list[float | None]] = {}
    for name in dict.fromkeys(names):
        mine = np.isin(attempts.job, [index for index, other in enumerate(names) if other == name])
        weights = places[attempts.job[mine]]
        wanted = _integral(attempts.opened_s[mine], weights, edges) - _integral(attempts.filled_s[mine], weights, edges)
        found[name] = list(folded(np.diff(wanted), span))
    return found


def _integral(times: Reals, weights: Reals, edges: Reals) -> Reals:
    """At each edge, the integral of a function that grows by a weight at its time."""
    order = np.argsort(times, kind="stable")
    times, weights = times[order], weights[order]
    before = np.searchsorted(times, edges, side="right")
    height = np.concatenate([[0.0], np.cumsum(weights)])
    moment = np.concatenate([[0.0], np.cumsum(weights * times)])
    area: Reals = height[before] * edges - moment[before]
    return area


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
