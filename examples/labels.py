"""Count the labels that devices hold: federated analytics, a histogram and no learning."""

import numpy as np

from job_driver import Arrays, Job, Result, Sum, Task


def initial(rng: np.random.Generator) -> Arrays:
    """The form of the answer: one count per label."""
    return {"counts": np.zeros(10, dtype=np.int64)}


def count(model: Arrays, task: Task) -> Result:
    """Runs on the device; only the ten counts leave it."""
    shard = np.load(task.data)
    return Result({"counts": np.bincount(shard["y"], minlength=10)})


job = Job(initial=initial, on_device=count, aggregate=Sum)
