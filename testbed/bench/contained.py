"""Two kinds of containers with other limits of the processor: how long the same task takes on each, in a real run."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from testbed.live.run import run_scenario
from testbed.scenario.loader import parse

SLOW, FAST = 0.125, 0.5  # cores
SCENARIO = """
version: 1
name: contained
policy: fifo
backend: compose
duration: 5m
every_job: {{file: {file}, demand: 1, rounds: 4, min_response: 100%, deadline: 60s}}
jobs:
  slowly: {{requirement: fleet = slow}}
  faster: {{requirement: fleet = fast}}
fleets:
  slow: {{count: 1, cores: {slow}}}
  fast: {{count: 1, cores: {fast}}}
"""
JOB = """
import time

import numpy as np

from job_driver import Arrays, Job, Result, Task


def initial(rng: np.random.Generator) -> Arrays:
    return {"w": np.zeros(1)}


def spin(model: Arrays, task: Task) -> Result:
    end = time.process_time() + 1.0
    while time.process_time() < end:
        pass
    return Result(dict(model))


job = Job(initial=initial, on_device=spin)
"""


def missing() -> str:
    """What this machine lacks to run containers; "" if it lacks nothing."""
    try:
        from testbed.live.containers.engine import checks
    except ModuleNotFoundError as error:
        return f"there is no Python package {error.name}"
    return next((wrong for _, _, wrong in checks() if wrong), "")


async def task_times(add: Callable[[str, float, float], None]) -> None:
    """``add`` takes a figure: its name, what was got, and what was asked."""
    with tempfile.TemporaryDirectory(prefix="venn-bench-") as folder:
        file = Path(folder) / "spin.py"
        file.write_text(JOB)
        scenario = parse(SCENARIO.format(file=file, slow=SLOW, fast=FAST))
        result = await run_scenario(scenario, out=Path(folder) / "run", quiet=True)
        took = {times.fleet: times for times in result.summary.emulation.tasks}
        for fleet, cores in (("slow", SLOW), ("fast", FAST)):
            add(f"cpu_container_{cores:g}_cores", took[fleet].compute_cpu_s / took[fleet].measured_s, cores)
        add("containers_slow_task_over_fast", took["slow"].measured_s / took["fast"].measured_s, FAST / SLOW)
