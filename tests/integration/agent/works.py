"""Job code and tasks for worker processes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np

from device_agent.confine.orders import Orders
from device_agent.confine.settings import Confinement
from device_agent.worker_process import Work
from venn.wire import tensors
from venn.wire.chunks import digest_of

MODEL = tensors.encode({"w": np.arange(4.0)})
HEAD = "import os, sys, time\nimport numpy as np\nfrom job_driver import Arrays, Job, Result, Task\n"
TAIL = """
class Own:
    same_as_model = False

    def __init__(self, model: Arrays) -> None: ...

job = Job(initial=lambda rng: {}, on_device=work, aggregate=Own)
"""
MEAN = "\njob = Job(initial=lambda rng: {}, on_device=work)\n"  # whose responses are like the model

DOUBLE = """
def work(model: Arrays, task: Task) -> Result:
    model["w"] *= 2
    sys.worker = getattr(sys, "worker", None) or int.from_bytes(os.urandom(4), "big")
    return Result({**model, "worker": np.int64(sys.worker)}, weight=3.0, metrics={"round": task.round})
"""
STUCK = """
def work(model: Arrays, task: Task) -> Result:
    task.progress(0.1)
    while True:
        pass
"""


def orders(confinement: Confinement | None = None, data: tuple[Path, ...] = ()) -> Orders:
    """The orders of a worker that keeps the user of these tests."""
    return (confinement or Confinement()).for_workers(1).orders(0, data, None, "not in this test")


def work(
    code: bytes | None,
    *,
    seconds: float = 30.0,
    heard: Callable[[float], None] = lambda fraction: None,
    params: dict[str, bool | int | float | str] | None = None,
    data: str = "/dev/null",
    reads: tuple[Path, ...] = (),
) -> Work:
    return Work(
        code=code,
        code_digest=digest_of(code) if code else b"",
        model=MODEL,
        model_digest=digest_of(MODEL),
        params=params or {},
        data=data,
        reads=reads,
        device="d",
        round=2,
        attempt=1,
        seed=7,
        ends_at=asyncio.get_running_loop().time() + seconds,
        progress=heard,
    )
