"""The running sum of one attempt, one response at a time, on a thread of its own: transfers go on meanwhile."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from job_driver.bundle import JobError, JobFile, job_code
from job_driver.form import NO_LIMITS
from job_driver.job import Aggregator, Arrays, Result, check_like
from job_driver.metrics import mean
from job_driver.spool import Mapped, ResponseHeader
from venn.wire import tensors
from venn.wire.chunks import SMALL_BYTES
from venn.wire.process import return_freed_memory

TOGETHER = 32  # small responses that are added together, so that not each of them wakes the thread


class Counted(NamedTuple):
    """A response that counts, and its file."""

    header: ResponseHeader
    path: Path


class Aggregation:
    """The sum of responses: in the order in which they were counted, or (``in_lease_order``) by lease at the close.

    A response to the model of a former round, of which there are some in an asynchronous job only, is as many rounds
    *stale*. It weighs 1 / sqrt(1 + staleness) of its weight (FedBuff: Nguyen et al., AISTATS 2022, section 5), and, if
    the aggregator takes responses for moved models (``of_models``), it is moved by as much as the model has been since:
    what counts is the device's own update.
    """

    def __init__(
        self,
        file: JobFile,
        model: Arrays,
        thread: ThreadPoolExecutor,
        *,
        in_lease_order: bool,
        round_: int = 0,
        former: Mapping[int, Arrays] | None = None,
        limits: Mapping[str, float] = NO_LIMITS,
    ) -> None:
        """``model`` is that of ``round_``, ``former`` has those of rounds before. ``limits``: of its form."""
        self._file, self._model, self._thread = file, model, thread
        self._in_lease_order = in_lease_order
        self._round, self._former, self._limits = round_, former or {}, limits
        self._moves = bool(getattr(file.job.aggregate, "of_models", False))
        self._bases: dict[int, Arrays] = {}  # by lease: the former model that a response was computed from
        self._responses: list[Counted] = []
        self._sum: Aggregator | None = None
        self._waiting: list[Counted] = []  # small ones, not yet given to the thread
        self._added: list[Future[None]] = []
        self._dropped = False

    def add(self, header: ResponseHeader, path: Path) -> None:
        """Add a response that counts. Errors of the job's own code are raised by ``close``."""
        response = Counted(header, path)
        self._responses.append(response)
        if header.no.round in self._former:
            self._bases[header.lease] = self._former[header.no.round]
        if self._in_lease_order:
            return
        self._waiting.append(response)
        if header.size > SMALL_BYTES or len(self._waiting) == TOGETHER:
            together, self._waiting = self._waiting, []
            self._added.append(self._thread.submit(self._add, together))

    def close(self) -> Arrays:
        """Make the next model; on the job's thread. Raises JobError if its code fails, changes the model's form, or
        makes a model with NaN or infinity.
        """
        for added in self._added:
            added.result()
        self._add(self._by_lease() if self._in_lease_order else self._waiting)
        assert self._sum is not None, "an attempt closes with at least one response"
        with job_code(self._file, "aggregate"):
            model = self._sum.close()
        self._sum = None
        check_form(self._file, self._model, model)
        check_finite(self._file, model)
        return model

    async def drop(self) -> None:
        """Drop the sum: the attempt was aborted. Afterwards no response's file is read any more."""
        self._dropped = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._forget)

    def metrics(self) -> dict[str, float]:
        """The devices' own metrics: the mean over the responses that have them, by weight."""
        return mean((header.metrics, header.weight) for header, _ in self._by_lease())

    def _by_lease(self) -> list[Counted]:
        return sorted(self._responses, key=lambda response: response.header.lease)

    def _forget(self) -> None:
        """Forget the sum; on the job's thread, behind the response that is being added now."""
        self._sum = None

    def _add(self, responses: Sequence[Counted]) -> None:
        for header, path in responses:
            if self._dropped:
                return
            with job_code(self._file, "aggregate"):
                if self._sum is None:
                    if header.size > SMALL_BYTES:
                        return_freed_memory()  # of the transfers so far: the sum is as large as two models
                    self._sum = self._file.job.aggregate(self._model)
                self._sum.add(self._result(header, path))

    def _result(self, header: ResponseHeader, path: Path) -> Result:
        base = self._bases.get(header.lease)
        response: Arrays = Mapped(path)
        if base is None:
            return Result(response, header.weight, header.metrics)
        if self._moves:
            response = {name: self._moved(name, response[name], base[name]) for name in response}
        return Result(response, header.weight / math.sqrt(1 + self._round - header.no.round), header.metrics)

    def _moved(self, name: str, response: np.ndarray, base: np.ndarray) -> np.ndarray:
        return moved(response, base, self._model[name], self._limits.get(name, math.inf))


def moved(response: np.ndarray, base: np.ndarray, model: np.ndarray, limit: float) -> np.ndarray:
    """Move a response to another model: response + (model - base), in its own dtype, at most ``limit`` from 0. Other
    dtypes than floats stay as they are.
    """
    if response.dtype.kind != "f":
        return response
    wide = np.result_type(response.dtype, np.float64)
    limit = min(limit, float(np.finfo(response.dtype).max))
    there = response.astype(wide) + (model.astype(wide) - base.astype(wide))
    return np.asarray(np.clip(there, -limit, limit), dtype=response.dtype)


def check_form(file: JobFile, before: Arrays, after: Arrays) -> None:
    """Check that a model has the names, dtypes and shapes of the one before. Raises JobError that names both."""
    try:
        check_like(before, after, "next model")
    except ValueError as error:
        raise JobError(
            "MODEL_CHANGED", f"aggregate changed the model: {error}", where=file.path.name,
            fix="close() must return the names, dtypes and shapes of the model it was given",
        ) from error  # fmt: skip


def check_finite(file: JobFile, model: Arrays) -> None:
    """Check that a model holds neither NaN nor infinity. Raises JobError."""
    for name, array in model.items():
        if not tensors.finite(np.asarray(array)):
            raise JobError(
                "MODEL_NOT_FINITE", f"the next model is refused: {name} holds NaN or infinity", where=file.path.name,
                fix="an aggregator of your own must cope with any finite numbers, or limit them with most_value",
            )  # fmt: skip
