"""A process that simulates cells, one after the other: orders come on stdin, and an answer leaves on stdout for each.

A result is in its file, whole, before its answer leaves; so this process may be killed at any time, and that is how a
comparison stops. It ends by itself when the process that started it is gone. The object of a cell's file has the keys
of a run's summary.json as far as there are such figures, so that a comparison reads both alike.
"""

import json
import math
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from coordinator.engine.ids import job_name
from testbed.compare.facts import HOUR_S, covered_s, find_facts, folded
from testbed.compare.pool import Order, read_order
from testbed.report.comparison import TraceFacts, read_facts
from testbed.runfolder.attempts import JobFacts, job_figures
from testbed.runfolder.jsonlines import Row, plain, read_object
from testbed.simulate.model import Outcome, Progress, Simulation, Watch
from testbed.world.arrays import Reals
from venn.wire.errors import ExitCode, VennError
from venn.wire.exits import as_object, expected
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
    """Devices that requests not filled yet ask for, by requirement and hour of the day, in the mean.

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
    """The integral, at each edge, of a function that grows by a weight at its time."""
    order = np.argsort(times, kind="stable")
    times, weights = times[order], weights[order]
    before = np.searchsorted(times, edges, side="right")
    height = np.concatenate([[0.0], np.cumsum(weights)])
    moment = np.concatenate([[0.0], np.cumsum(weights * times)])
    area: Reals = height[before] * edges - moment[before]
    return area


Build = Callable[[Order], Simulation]
Compiling = Callable[[], None]  # called before the simulator's loop is compiled
Simulate = Callable[[Simulation, str, Watch, Compiling], Outcome]  # under the policy of that name

TOLD_EVERY_S = 0.5  # how far a cell is


@dataclass(slots=True)
class Cells:
    """Simulates what it is told; cells of one world that come one after the other share it."""

    build: Build
    simulate: Simulate
    _key: str = ""
    _world: tuple[Simulation, TraceFacts] | None = None

    def run(
        self, order: Order, tell: Callable[[float], None] = lambda part: None, compiling: Compiling = lambda: None
    ) -> None:
        """Leave the cell's file behind; ``tell`` hears which part of its jobs has ended. Raises VennError."""
        started = time.monotonic()
        simulation, facts = self._world_of(order)
        outcome = self.simulate(simulation, order.policy, _watch(len(simulation.jobs), tell), compiling)
        row = cell_row(simulation, outcome, facts)
        said: Row = {"key": order.key, "world_key": order.world_key, "scenario": order.name, "policy": order.policy}
        _write(Path(order.out), said | {"backend": "sim"} | row | {"seconds": time.monotonic() - started})

    def _world_of(self, order: Order) -> tuple[Simulation, TraceFacts]:
        if self._world is None or self._key != order.world_key:
            self._world = None  # before the next one is made: two may not fit
            simulation = self.build(order)
            path = Path(order.world)
            row = read_object(path)
            facts = read_facts(row) if row else find_facts(simulation)
            if not row:
                _write(path, facts)
            self._world, self._key = (simulation, facts), order.world_key
        return self._world


def _watch(jobs: int, tell: Callable[[float], None]) -> Watch:
    told = time.monotonic()

    def watch(progress: Progress) -> bool:
        nonlocal told
        now = time.monotonic()
        if now - told >= TOLD_EVERY_S:
            told = now
            tell(progress.jobs_ended / jobs)
        return True

    return watch


def serve(cells: Cells, orders: Callable[[], bytes], answer: Callable[[Row], None]) -> None:
    """Carry out orders until ``orders`` gives an empty line. To each there are answers with the part that is done, and
    whether the loop is being compiled, and then one that is empty, or has the error and the exit code of the cell.
    """
    while line := orders():
        order = read_order(line)
        try:
            cells.run(order, lambda part: answer({"part": part}), lambda: answer({"part": 0.0, "compiling": True}))
        except Exception as error:  # a policy is foreign code; the process that asked tells it, and ends
            traceback.print_exc()
            answer(_failure(error, order))
        else:
            answer({})


def _failure(error: Exception, order: Order) -> Row:
    found = expected(error)
    if found is None:
        found = VennError("BUG", f"a bug in venn: {type(error).__name__}: {error}", fix="its log says where")
    said = as_object(found)
    said["where"] = said["where"] or f"{order.name} under {order.policy}, seed {order.seed}"
    return {"error": said, "exit_code": int(found.exit_code or ExitCode.BUG)}


def _orders() -> Callable[[], bytes]:
    """Reads lines of stdin. When it ends, so does this process, whatever it is doing: nobody waits for it any more."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return lines.get


def serve_standard_streams(cells: Cells) -> None:
    """Carry out orders from stdin, with answers on stdout; what a policy prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(row: Row) -> None:
        answers.write(json.dumps(row) + "\n")
        answers.flush()

    serve(cells, _orders(), answer)


def _write(path: Path, row: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(plain(row), allow_nan=False) + "\n")


def main() -> None:
    """Simulate the cells of packaged or user scenarios until standard input ends."""
    from coordinator.service.policy import policy_of, told_with_its_plan
    from testbed.scenario import load
    from testbed.simulate.build import build
    from testbed.simulate.run import simulate

    def run(simulation: Simulation, policy: str, watch: Watch, compiling: Compiling) -> Outcome:
        with told_with_its_plan(policy):
            return simulate(simulation, policy_of(policy), watch=watch, compiling=compiling)

    serve_standard_streams(Cells(lambda order: build(load(Path(order.scenario), [f"seed={order.seed}"])), run))


if __name__ == "__main__":
    main()
