"""What a response must be to count."""

from pathlib import Path

import numpy as np
import pytest

from job_driver import Job, Sum, WeightedMean
from job_driver.counting import AttemptNo
from job_driver.form import ResponseForm
from job_driver.job import Arrays, Result
from job_driver.spool import ResponseHeader
from venn.wire import tensors

MODEL = {"a": np.zeros(3, np.float32), "b": np.zeros((5, 7))}


class Own:
    """An aggregator that says nothing of the form of responses."""

    def __init__(self, model: Arrays) -> None: ...

    def add(self, result: Result) -> None: ...

    def close(self) -> Arrays:
        return {}


class Any(Own):
    same_as_model = False


def form(aggregate: type = WeightedMean, model: Arrays = MODEL, responses: int = 4, **more: float) -> ResponseForm:
    job = Job(initial=dict, on_device=dict, aggregate=aggregate, **more)  # type: ignore[arg-type]
    return ResponseForm(model, len(tensors.encode(model)), job, responses=responses, most_bytes=10_000)


def header(size: int, weight: float = 1.0) -> ResponseHeader:
    return ResponseHeader(AttemptNo(1, 1), 1, "d", size, b"", weight)


@pytest.mark.parametrize(("aggregate", "same"), [(WeightedMean, True), (Sum, True), (Own, True), (Any, False)])
def test_what_a_response_may_look_like(tmp_path: Path, aggregate: type, same: bool) -> None:
    one = form(aggregate)
    other_order = {"b": MODEL["b"], "a": MODEL["a"]}
    assert one.header_problem(header(len(tensors.encode(other_order)))) == ""
    assert one.header_problem(header(20_000)).startswith("SIZE: ")
    path = tmp_path / "response"
    path.write_bytes(tensors.encode(other_order))
    assert one.problem(path) == ""
    path.write_bytes(tensors.encode({"a": MODEL["a"]}))
    assert one.problem(path).startswith("TENSOR_MISMATCH") is same
    path.write_bytes(b"nonsense")
    assert one.problem(path).startswith("TENSOR_MALFORMED")


@pytest.mark.parametrize(
    ("weight", "refused"),
    [(1e-4, False), (1.0, False), (1e4, False), (10_001.0, True), (9e-5, True), (1e300, True), (5e-324, True)],
)
def test_a_weight_has_bounds(weight: float, refused: bool) -> None:
    size = len(tensors.encode(MODEL))
    assert form().header_problem(header(size, weight)).startswith("WEIGHT: ") is refused
    assert form(most_weight=1.0).header_problem(header(size, weight)).startswith("WEIGHT: ") is (weight != 1.0)


def test_numbers_have_a_limit_where_a_sum_of_them_could_overflow() -> None:
    model = {"f2": np.zeros(1, np.float16), "f4": np.zeros(1, np.float32), "f8": np.zeros(1), "i4": np.zeros(1, "i4")}
    assert form(WeightedMean, model).limits.keys() == {"f8"}  # its sums are in float64
    limits = form(Sum, model, responses=4).limits
    assert limits.keys() == set(model)
    assert limits["i4"] == (2**31 - 1) // 4
    assert form(Sum, {"i4": model["i4"], "flag": np.zeros(1, bool)}, responses=1).limits == {}
    assert form(Own, model).limits == {}
