"""Worlds small enough to compare in a unit test; as a program, a process that simulates them (``worker``)."""

import os
import time
from dataclasses import replace

from coordinator.policies.registry import load_policy
from testbed.compare.pool import Order
from testbed.compare.worker import TOLD_EVERY_S, Cells, Compiling, serve_standard_streams
from testbed.simulate.model import Outcome, Progress, Simulation, Watch
from testbed.simulate.run import simulate
from testbed.testing.worlds import Session, has, job, needs, world
from testbed.world.arrays import Matching

GAP_S = 10.0  # between two check-ins
KINDS = ("", "h")


def tiny(seed: int = 1, sessions: int = 600) -> Simulation:
    """Two jobs, one of which any device may serve; a device every ten seconds, every third of which is a good one."""
    return world(
        [
            job("wide", 4, rounds=6, deadline=500, compute=20, min_response="0.5"),
            job("narrow", 2, needs("h"), rounds=8, arrives=5.0 * seed, deadline=500, compute=20),
        ],
        [
            Session(GAP_S * row, GAP_S * row + 300, row, kind=int(row % 3 == 0), slow=0.5 + (row * 7 + seed) % 4)
            for row in range(sessions)
        ],
        kinds=[has(letters) for letters in KINDS],
        matching=Matching.AT_CHECK_IN,
        tasks_per_session=1,
        seed=seed,
    )


def build(order: Order) -> Simulation:
    return tiny(order.seed)


def run(simulation: Simulation, policy: str, watch: Watch, compiling: Compiling) -> Outcome:
    """A few names stand for what may happen."""
    if policy == "dies":
        os._exit(9)
    if policy == "never":
        time.sleep(3600)
    if policy == "slow":
        time.sleep(TOLD_EVERY_S)
        watch(Progress(1.0, 1, 1))
        return run(simulation, "fifo", lambda _: True, compiling)  # which would speak again where the machine is slow
    if policy == "compiles":
        compiling()
        return run(simulation, "fifo", watch, compiling)
    if policy == "fails":
        raise RuntimeError("it cannot")
    return replace(simulate(simulation, load_policy(policy), watch=watch), wall_s=0.5)


if __name__ == "__main__":
    serve_standard_streams(Cells(build, run))
