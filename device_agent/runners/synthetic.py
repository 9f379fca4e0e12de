"""A task without a job's code: it spends a stated amount of processor time and sends a stated number of bytes.

params: kind = synthetic, compute_s = 0 (processor seconds, >= 0), upload_bytes (absent: the model goes back)
"""

import math
import time
from collections.abc import Mapping

import numpy as np

from job_driver.job import Arrays, Result, Task

KIND = "synthetic"
STEPS = 50  # progress is told so often
PIECE = 4096  # elements that are worked on at a time


def is_synthetic(params: Mapping[str, object]) -> bool:
    return params.get("kind") == KIND


def on_device(model: Arrays, task: Task) -> Result:
    """Do the task. Raises ValueError for parameters that make no sense."""
    compute_s = float(task.params.get("compute_s", 0.0))
    if not (math.isfinite(compute_s) and compute_s >= 0):
        raise ValueError(f"compute_s must be seconds, at least 0, not {compute_s}")
    _spend(compute_s, task)
    if "upload_bytes" not in task.params:
        return Result(model)
    upload_bytes = int(task.params["upload_bytes"])
    if upload_bytes < 0:
        raise ValueError(f"upload_bytes must be at least 0, not {upload_bytes}")
    return Result({"payload": task.rng.integers(0, 256, upload_bytes, dtype=np.uint8)})


def _spend(seconds: float, task: Task) -> None:
    started = time.thread_time()
    values = task.rng.random(PIECE)
    for step in range(1, STEPS + 1):
        until = started + seconds * step / STEPS
        while time.thread_time() < until:
            values = np.sqrt(values * values + 1e-9)
        task.progress(step / STEPS)
