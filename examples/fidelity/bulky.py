"""A model of a megabyte that each device sends back changed: what a slow link makes of it is what counts."""

import numpy as np

from job_driver import Arrays, Job, Result, Task


def initial(rng: np.random.Generator) -> Arrays:
    return {"w": rng.standard_normal(250_000, dtype=np.float32)}


def wander(model: Arrays, task: Task) -> Result:
    """Runs on the device; its time is the scenario's."""
    return Result({"w": model["w"] + 0.01 * task.rng.standard_normal(250_000, dtype=np.float32)})


job = Job(initial=initial, on_device=wander)
