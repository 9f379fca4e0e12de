"""Job code and tasks for worker processes."""

import asyncio
from collections.abc import Callable

import numpy as np

from device_agent.workers import Work
from venn.wire import tensors
from venn.wire.chunks import digest_of

MODEL = tensors.encode({"w": np.arange(4.0)})
HEAD = "import os, sys, time\nimport numpy as np\nfrom job_driver import Arrays, Job, Result, Task\n"
TAIL = "\njob = Job(initial=lambda rng: {}, on_device=work, aggregate=lambda model: None)\n"
MEAN = "\njob = Job(initial=lambda rng: {}, on_device=work)\n"  # whose responses are like the model

DOUBLE = """
def work(model: Arrays, task: Task) -> Result:
    model["w"] *= 2
    return Result({**model, "pid": np.int64(os.getpid())}, weight=3.0, metrics={"round": task.round})
"""
STUCK = """
def work(model: Arrays, task: Task) -> Result:
    task.progress(0.1)
    while True:
        pass
"""


def work(
    code: bytes | None,
    *,
    seconds: float = 30.0,
    heard: Callable[[float], None] = lambda fraction: None,
    params: dict[str, bool | int | float | str] | None = None,
) -> Work:
    return Work(
        code=code,
        code_digest=digest_of(code) if code else b"",
        model=MODEL,
        model_digest=digest_of(MODEL),
        params=params or {},
        data="/dev/null",
        device="d",
        round=2,
        attempt=1,
        seed=7,
        ends_at=asyncio.get_running_loop().time() + seconds,
        progress=heard,
    )
