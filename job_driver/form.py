"""What a response must be to count: its size, weight and metrics, its names, dtypes and shapes, and its numbers.

What does not fit is REJECTED with the reason, before anything of it reaches the model or the job's own code.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from job_driver.job import Arrays, Job, check_like, needs_form_of_model
from job_driver.spool import Mapped, ResponseHeader
from venn.wire import tensors
from venn.wire.tensors import ALIGNMENT, TensorError
from venn.wire.text import printable

NO_LIMITS: Mapping[str, float] = {}


class ResponseForm:
    """The form that a response to a model must have."""

    def __init__(self, model: Arrays, model_bytes: int, job: Job, *, responses: int, most_bytes: int) -> None:
        """``model_bytes``: of the encoded model. ``responses``: that make the next one. ``most_bytes`` is the bound
        where the aggregator takes any arrays.
        """
        same = needs_form_of_model(job)
        self._model = model if same else None
        slack = ALIGNMENT * len(model)  # the arrays may come in another order
        self._least, self._most = (model_bytes - slack, model_bytes + slack) if same else (1, most_bytes)
        self._most_weight = job.most_weight
        self.limits = _limits(model, job, responses) if same else NO_LIMITS  # of arrays: no number is farther from 0

    def header_problem(self, header: ResponseHeader) -> str:
        """Why a response is refused before it is sent; "" if it is not."""
        return header.problem or self._size_problem(header.size) or self._weight_problem(header.weight)

    def problem(self, source: Path | memoryview) -> str:
        """Why a response is refused, found in its header; "" if it is not. Its numbers are checked as they come."""
        try:
            response = tensors.decode(source) if isinstance(source, memoryview) else Mapped(source)
            if self._model is not None:
                check_like(self._model, response)
        except TensorError as error:
            return f"{error.reason}: {error.message}"
        except ValueError as error:
            return f"TENSOR_MISMATCH: {printable(str(error), 300)}"
        return ""

    def _size_problem(self, size: int) -> str:
        if self._least <= size <= self._most:
            return ""
        return f"SIZE: the response has {size} bytes, allowed are {self._least} to {self._most}"

    def _weight_problem(self, weight: float) -> str:
        least = 1 / self._most_weight
        if least <= weight <= self._most_weight:
            return ""
        return f"WEIGHT: {weight:g} is not between {least:g} and {self._most_weight:g}; see most_weight of the Job"


def _limits(model: Arrays, job: Job, responses: int) -> Mapping[str, float]:
    """The largest magnitude of a number in each array that has a smaller one than its dtype."""
    most_value = getattr(job.aggregate, "most_value", None)
    if most_value is None:
        return NO_LIMITS
    limits = {}
    for name, array in model.items():
        limit = most_value(array.dtype, responses, job.most_weight)
        if array.dtype.kind in "iuf" and limit < _largest(array.dtype):
            limits[name] = limit
    return limits


def _largest(dtype: np.dtype) -> float:
    return np.iinfo(dtype).max if dtype.kind in "iu" else float(np.finfo(dtype).max)
