"""The types of a job file: a page of frozen values, one protocol, and the two built-in aggregators.

A job file is plain typed functions and a ``Job`` at its end. It says what is computed; how many devices, which
and when is said elsewhere. NumPy and the standard library only: the file also runs on devices.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

Arrays = Mapping[str, np.ndarray]  # by name; any shapes, numbers only

SLICE = 1 << 16  # elements that are added at a time: the scratch space stays in the processor's cache
MOST_WEIGHT = 1e12  # that a job may allow
WINDOW = 1 << 18  # elements, after which a response's array is looked up anew


class Revoked(Exception):
    """The end of a lease: nobody wants this task's result any more."""


@dataclass(frozen=True)
class Task:
    """One device's part in one round. All of it has defaults, for a test or a notebook."""

    data: Path = Path(os.devnull)  # the device's own share; the null device where the job names no data
    params: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    round: int = 1  # from 1
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    ends_at: float = math.inf  # time.monotonic() at which the lease expires
    report: Callable[[float], None] | None = None  # where progress goes; may raise Revoked

    @property
    def seconds_left(self) -> float:
        """Seconds until the lease expires, >= 0; inf outside a testbed."""
        return max(0.0, self.ends_at - time.monotonic())

    def progress(self, fraction: float) -> None:
        """Report how far the task is, 0 to 1. Raises Revoked if the lease is gone."""
        if self.report is not None:
            self.report(min(1.0, max(0.0, float(fraction))))


@dataclass(frozen=True)
class Result:
    """The response of a device. ``weight`` is finite and > 0; ``metrics`` are finite."""

    arrays: Arrays
    weight: float = 1.0
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ValueError(f"a result's weight must be a finite number above 0, not {self.weight}")
        for name, value in self.metrics.items():
            if not math.isfinite(value):
                raise ValueError(f"a result's metric {name} must be a finite number, not {value}")


@dataclass(frozen=True)
class Round:
    """A round that has closed."""

    number: int  # from 1
    responses: int  # that are in its model
    stragglers: int  # that came too late, up to its close
    seconds: float  # from its first attempt's opening to the next model
    metrics: Mapping[str, float] = field(default_factory=dict)


class Aggregator(Protocol):
    """Makes the next model of responses; built for each attempt, with the round's model: ``aggregate(model)``.

    Its class, or function, may say more: ``same_as_model``, ``of_models`` and ``most_value``, as ``WeightedMean`` does.
    """

    def add(self, result: Result) -> None:
        """Take one response. Do not keep its arrays: they are a window on a file that is deleted."""

    def close(self) -> Arrays:
        """The next model, with the names, dtypes and shapes of this one. Called once, after the last add."""


class WeightedMean:
    """The mean of the responses by their weights, summed in float64 and cast back (integers are rounded)."""

    same_as_model: ClassVar[bool] = True  # a response has the names, dtypes and shapes of the model, or is refused
    of_models: ClassVar[bool] = True  # a response is a model: in an asynchronous job its update is what counts

    @staticmethod
    def most_value(dtype: np.dtype, responses: int, most_weight: float) -> float:
        """The largest magnitude of a number in a response, so that no sum of so many ``responses`` overflows."""
        if dtype.kind != "f":
            return math.inf  # the sum is of floats, and the mean is between the numbers
        room = responses + 3  # a stale response is moved by the difference of two models
        return min(float(np.finfo(dtype).max), float(np.finfo(np.float64).max) / most_weight / room)

    def __init__(self, model: Arrays) -> None:
        self._model = model
        self._weight = 0.0
        self._sums = {name: np.zeros(a.size, np.result_type(a.dtype, np.float64)) for name, a in model.items()}

    def add(self, result: Result) -> None:
        check_like(self._model, result.arrays)
        self._weight += result.weight
        for name, total in self._sums.items():
            scratch = np.empty(min(SLICE, total.size), total.dtype)
            for part, values in windows(result.arrays, name):
                weighted = scratch[: values.size]
                np.multiply(values, result.weight, out=weighted, dtype=total.dtype)
                total[part] += weighted

    def close(self) -> Arrays:
        if self._weight == 0:
            raise ValueError("the mean of no responses is not defined")
        return {name: self._mean(self._sums.pop(name), like) for name, like in self._model.items()}

    def _mean(self, total: np.ndarray, like: np.ndarray) -> np.ndarray:
        """Cast in place (the sum's type is the wider one), so that a large model is not held twice."""
        mean = total.view(like.dtype)
        for part, values in slices(total):
            exact = values / self._weight
            mean[part] = _whole(exact, like.dtype) if like.dtype.kind in "iub" else exact
        return mean[: total.size].reshape(like.shape)


class Sum:
    """The sum of the responses; weights do not matter. Integers are summed as integers, exactly."""

    same_as_model: ClassVar[bool] = True

    @staticmethod
    def most_value(dtype: np.dtype, responses: int, most_weight: float) -> float:
        """The largest magnitude of a number in a response, so that no sum of so many ``responses`` overflows."""
        match dtype.kind:
            case "f":
                return float(np.finfo(dtype).max) / (responses + 1)
            case "i" | "u":
                return int(np.iinfo(dtype).max) // responses
            case _:
                return math.inf

    def __init__(self, model: Arrays) -> None:
        self._model = model
        self._sums = {name: np.zeros(a.size, _sum_type(a.dtype)) for name, a in model.items()}

    def add(self, result: Result) -> None:
        check_like(self._model, result.arrays)
        for name, total in self._sums.items():
            for part, values in windows(result.arrays, name):
                total[part] += values

    def close(self) -> Arrays:
        return {name: _cast_back(name, self._sums.pop(name), like) for name, like in self._model.items()}


@dataclass(frozen=True, kw_only=True)
class Job:
    """The computation of a job: once at the end of the file, under the name ``job``."""

    initial: Callable[[np.random.Generator], Arrays]  # the model before round 1
    on_device: Callable[[Arrays, Task], Result]  # runs on each device
    aggregate: Callable[[Arrays], Aggregator] = WeightedMean
    evaluate: Callable[[Arrays, Path], Mapping[str, float]] | None = None  # beside the job, after each round
    stop: Callable[[Sequence[Round]], bool] | None = None  # asked after each round where their number is not exact
    packages: Sequence[str] = ()  # a device without them is not eligible
    most_weight: float = 10_000.0  # of a result, 1 to 1e12; the least is 1 / most_weight. Others are refused

    def __post_init__(self) -> None:
        if not 1.0 <= self.most_weight <= MOST_WEIGHT:
            raise ValueError(f"Job: most_weight must be 1 to {MOST_WEIGHT:g}, not {self.most_weight!r}")
        for name in ("initial", "on_device", "aggregate", "evaluate", "stop"):
            value = getattr(self, name)
            optional = name in ("evaluate", "stop")
            if not (callable(value) or (optional and value is None)):
                raise TypeError(f"Job: {name} must be a function, not {value!r}")
        if isinstance(self.packages, str) or not all(isinstance(name, str) for name in self.packages):
            raise TypeError(f"Job: packages must be a sequence of names such as ('torch',), not {self.packages!r}")


def needs_form_of_model(job: Job) -> bool:
    """Whether only responses with the names, dtypes and shapes of the model count, as they do unless the aggregator
    says ``same_as_model = False``.
    """
    return bool(getattr(job.aggregate, "same_as_model", True))


class HasStateDict(Protocol):
    """A PyTorch module, or anything that keeps its tensors like one."""

    def state_dict(self) -> Mapping[str, Any]: ...  # tensors; torch is not a dependency


def arrays(module: HasStateDict) -> Arrays:
    """The state of a PyTorch module as named arrays (copies): parameters and buffers."""
    return {name: np.array(tensor.detach().cpu().numpy()) for name, tensor in module.state_dict().items()}


def check_like(model: Arrays, other: Arrays, what: str = "response") -> None:
    """Check that other arrays have the names, dtypes and shapes of the model. Raises ValueError that names both."""
    if missing := model.keys() - other.keys():
        raise ValueError(f"the {what} lacks {', '.join(sorted(missing))}, which the model has")
    if extra := other.keys() - model.keys():
        raise ValueError(f"the {what} has {', '.join(sorted(extra))}, which the model has not")
    for name, like in model.items():
        got = np.asarray(other[name])
        if got.shape != like.shape or got.dtype.newbyteorder("<") != like.dtype.newbyteorder("<"):
            raise ValueError(f"{name} is {_describe(got)} in the {what}, but {_describe(like)} in the model")


def slices(array: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The array's elements in C order, ``SLICE`` at a time, each with its place among all."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, SLICE):
        part = slice(start, min(start + SLICE, flat.size))
        yield part, flat[part]


def windows(arrays: Arrays, name: str) -> Iterator[tuple[slice, np.ndarray]]:
    """The same as ``slices``, but the array is looked up anew now and then, so that a file need not stay in memory."""
    for start in range(0, arrays[name].size, WINDOW):
        for part, values in slices(arrays[name].reshape(-1)[start : start + WINDOW]):
            yield slice(start + part.start, start + part.stop), values


def _sum_type(dtype: np.dtype) -> np.dtype:
    match dtype.kind:
        case "u":
            return np.dtype(np.uint64)
        case "i" | "b":
            return np.dtype(np.int64)
        case _:
            return np.result_type(dtype, np.float64)


def _cast_back(name: str, total: np.ndarray, like: np.ndarray) -> np.ndarray:
    if like.dtype.kind in "iu" and total.size:
        limits = np.iinfo(like.dtype)
        if total.min() < limits.min or total.max() > limits.max:
            raise OverflowError(f"the sum of {name} does not fit in {like.dtype}; start from a wider model")
    return total.astype(like.dtype, copy=False).reshape(like.shape)


def _whole(exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round floats to integers of this dtype. Its largest may lie between two floats: then the lower one is taken."""
    whole: np.ndarray = np.rint(exact)
    if dtype.kind != "b":
        limits = np.iinfo(dtype)
        largest = float(limits.max)
        top = largest if int(largest) <= limits.max else float(np.nextafter(largest, 0.0))
        np.clip(whole, float(limits.min), top, out=whole)
    return whole


def _describe(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"
