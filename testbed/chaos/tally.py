"""The job that simulated devices and drivers do: its model is a list of which responses are in it, round by round.

A response is one number that no other response has. So what counts, and how often, can be read from the model.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from job_driver.bundle import JobFile
from job_driver.job import Arrays, Job, Result
from testbed.chaos.script import JobPlan
from venn.wire import tensors
from venn.wire.chunks import digest_of

TOKEN, ROWS = "token", "rows"
JOB, PAD = "job", "pad"  # parameters


def job_file(plan: JobPlan, needed: int) -> JobFile:
    """The job of a plan; ``needed``: responses per round."""
    from pathlib import Path

    empty = {ROWS: np.zeros((plan.rounds, needed), np.int64)}

    def nothing(model: Arrays, task: object) -> Result:
        raise NotImplementedError("simulated devices make their responses themselves")

    job = Job(initial=lambda rng: empty, on_device=nothing, aggregate=Tally)
    return JobFile(job, Path(f"{plan.name}.py"), f"# {plan.name}\n".encode())


class Tally:
    """The aggregator: writes the numbers of the responses into the first row that is empty."""

    same_as_model: ClassVar[bool] = False

    def __init__(self, model: Arrays) -> None:
        self._model = model
        self._tokens: list[int] = []

    def add(self, result: Result) -> None:
        self._tokens.append(int(result.arrays[TOKEN][0]))

    def close(self) -> Arrays:
        rows = np.array(self._model[ROWS])
        row = closed_rounds(rows)
        rows[row, : len(self._tokens)] = self._tokens
        return {ROWS: rows}


def closed_rounds(rows: np.ndarray) -> int:
    """How many rounds are in a model."""
    return int((rows[:, 0] != 0).sum())


def response(token: int, pad: int, *, bad: bool = False) -> tuple[bytes, bytes]:
    """The body of a response, and its digest. ``bad``: its driver is to refuse it."""
    arrays: Mapping[str, np.ndarray] = {TOKEN: np.array([token], np.int64)}
    if bad:
        arrays = {**arrays, "bad": np.array([np.nan])}
    if pad:
        arrays = {**arrays, "pad": np.zeros(pad, np.uint8)}
    body = tensors.encode(arrays)
    return body, digest_of(body)
