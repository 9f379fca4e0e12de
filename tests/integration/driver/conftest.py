"""A driver under test, between a scripted coordinator and scripted devices."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from job_driver.bundle import load
from job_driver.driver import JobResult, run_job
from job_driver.settings import Settings
from tests.integration.driver.scripted import Coordinator, coordinator
from tests.integration.gate import write_keys

JOB = """
import numpy as np
from job_driver import Job, Result, Task

def initial(rng):
    return {"w": np.zeros(%(size)d, dtype=np.float32), "n": np.array(0)}

def work(model, task):
    return Result(model)

job = Job(initial=initial, on_device=work%(more)s)
"""


@pytest.fixture
async def side() -> AsyncIterator[Coordinator]:
    async with coordinator() as (scripted, address):
        scripted.listening = address  # type: ignore[attr-defined]
        yield scripted


@pytest.fixture
def run(side: Coordinator, tmp_path: Path) -> Callable[..., Any]:
    """Starts a driver; gives its task, which is cancelled at the end if it still runs."""

    keys = write_keys(tmp_path / "keys")

    @asynccontextmanager
    async def start(
        *, size: int = 1000, more: str = "", source: str = "", **settings: Any
    ) -> AsyncIterator["asyncio.Task[JobResult]"]:
        path = tmp_path / "job.py"
        path.write_text(source or JOB % {"size": size, "more": more})
        defaults: dict[str, Any] = {"name": "test", "run": "1", "demand": 2, "min_response": Fraction(1), "rounds": 1}
        defaults["coordinator"] = side.listening  # type: ignore[attr-defined]
        defaults["keys"] = keys
        task = asyncio.create_task(run_job(load(path), Settings(**(defaults | settings))))
        try:
            opened = asyncio.create_task(side.wait_for(lambda s: s.opened))
            await asyncio.wait([task, opened], return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    return start
