"""Small tables for the functions of the compiled loop, and these functions as they are written: nothing is compiled."""

from collections.abc import Sequence
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from testbed.simulate.compiled import compiled, kernel_lists, kernel_rules
from testbed.simulate.compiled.layout import CELL, NONE
from testbed.simulate.compiled.tables import Tables, more_devices, tables
from testbed.simulate.model import SimulatedJob
from testbed.testing.worlds import Session, has, world

SLOTS = 64  # for sessions, and for leases
DEVICES = 16
_written: dict[int, dict[str, Any]] = {}  # by the names that they stand for


def uncompiled(module: ModuleType) -> SimpleNamespace:
    """The functions of a module, which call each other, and those of other modules, as they are written."""
    return SimpleNamespace(**_uncompiled(vars(module)))


def _uncompiled(names: dict[str, Any]) -> dict[str, Any]:
    if id(names) in _written:
        return _written[id(names)]
    written = _written[id(names)] = dict(names)
    for name, value in names.items():
        if value is compiled.mixed:
            written[name] = compiled._mixed_exactly
        elif isinstance(function := getattr(value, "py_func", None), FunctionType):
            written[name] = FunctionType(function.__code__, _uncompiled(function.__globals__), name)
    return written


LISTS, RULES = uncompiled(kernel_lists), uncompiled(kernel_rules)


def small(
    jobs: Sequence[SimulatedJob],
    groups: Sequence[int] = (),
    *,
    serves: Sequence[Sequence[int]] = (),
    tiers: int = 1,
    **settings: object,
) -> Tables:
    """Tables of jobs that have arrived, by name, and of devices of one kind per region.

    ``groups``: of each job, 0 unless given. ``serves``: the groups that each region serves; one region serves all of
    them unless given. The first request of each is
    open. ``settings``: fields of Simulation.
    """
    groups = groups or [0] * len(jobs)
    serves = serves or [sorted(set(groups))]
    kinds = [has("") for _ in serves]
    t = tables(world(jobs, [Session(0.0, 1.0, 0)], kinds=kinds, **settings), list(groups), tiers, slots=SLOTS)
    width = tiers + 1 if tiers > 1 else 1
    cells, served = np.zeros(len(serves) * width, CELL), np.zeros((len(serves) * width, max(groups) + 1), np.bool_)
    for name in ("pool", "owner", "dry", "listed"):
        cells[name] = NONE
    for region, each in enumerate(serves):
        served[region * width : (region + 1) * width, list(each)] = True
    t.kinds["cell"] = np.arange(len(serves)) * width
    candidates = np.zeros((len(cells), len(jobs)), np.int32)
    t = t.with_(cells=cells, serves=served, candidates=candidates, devices=more_devices(t.devices, DEVICES))
    t.devices["lease"] = NONE
    t.run.arrived = len(jobs)
    for job in range(len(jobs)):
        RULES.open_attempt(t, job, 1)
    t.run.dirty = 0
    return t


def plan(t: Tables, *queues: Sequence[int]) -> None:
    """Make a plan of these queues of jobs."""
    place = 0
    for number, queue in enumerate(queues):
        t.queues[number], t.queues[number + 1] = place, place + len(queue)
        t.queued[place : place + len(queue)] = queue
        place += len(queue)
    t.run.queues = len(queues)
    t.run.plans += 1


def queues(t: Tables) -> list[list[int]]:
    """The queues of jobs in the present plan."""
    return [t.queued[t.queues[one] : t.queues[one + 1]].tolist() for one in range(t.run.queues)]


def lease(t: Tables, job: int, device: int, *, end: float = 1e6) -> tuple[int, int]:
    """A device checks in now, until ``end``, and is leased to a job: the slots of its session and of its lease."""
    t.run.check_ins += 1
    t.run.present += 1
    slot = LISTS.new_session(t, int(t.run.check_ins))
    session = t.sessions[slot]
    session.device_no, session.kind, session.lease, session.waits = device, 0, NONE, 0
    session.draws, session.tier, session.end, session.slow, session.byte_s = 0, NONE, end, 1.0, 0.0
    RULES.grant(t, slot, job)
    return slot, int(t.sessions[slot].lease)
