"""The types of a job file, and its two aggregators."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from job_driver import Job, Result, Revoked, Sum, Task, WeightedMean, arrays
from job_driver.job import check_like


def test_importing_it_loads_numpy_and_the_standard_library_only() -> None:
    script = (
        "import sys, numpy.random; before = set(sys.modules); import job_driver;"
        "new = {n.partition('.')[0] for n in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names) - {'numpy'}))"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "['job_driver']"


def test_a_task_is_easy_to_make_in_a_test_or_a_notebook() -> None:
    task = Task(Path("share.npz"), {"epochs": 3})
    assert (task.round, task.seconds_left) == (1, float("inf"))
    task.progress(0.5)
    assert Task().rng.random() == Task().rng.random()


def test_progress_is_clipped_and_may_say_that_the_lease_is_gone() -> None:
    told: list[float] = []
    Task(report=told.append).progress(7)
    assert told == [1.0]

    def gone(fraction: float) -> None:
        raise Revoked

    with pytest.raises(Revoked):
        Task(report=gone).progress(0.1)


def test_seconds_left_counts_down_to_zero() -> None:
    assert Task(ends_at=0.0).seconds_left == 0.0


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_is_finite_and_positive(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        Result({}, weight=weight)


def test_a_metric_is_finite() -> None:
    with pytest.raises(ValueError, match="metric loss"):
        Result({}, metrics={"loss": float("nan")})


@pytest.mark.parametrize("wrong", [{"initial": 3}, {"on_device": None}, {"stop": "never"}, {"packages": "torch"}])
def test_a_job_says_what_is_wrong_with_it(wrong: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"initial": dict, "on_device": dict}
    with pytest.raises(TypeError, match=next(iter(wrong))):
        Job(**(whole | wrong))


def test_the_weighted_mean_is_summed_in_float64_and_cast_back() -> None:
    model = {
        "w": np.zeros((300, 300), np.float32),
        "scalar": np.array(0.0, np.float16),
        "count": np.array([0, 0]),
        "flag": np.array(False),
    }
    mean = WeightedMean(model)
    for value, weight in ((1.0, 1), (4.0, 3)):
        shape = (300, 300)
        mean.add(
            Result(
                {
                    "w": np.full(shape, value, np.float32),
                    "scalar": np.array(value, np.float16),
                    "count": np.array([int(value), 10]),
                    "flag": np.array(value > 2),
                },
                weight=weight,
            )
        )
    after = mean.close()
    assert {name: (a.dtype, a.shape) for name, a in after.items()} == {
        name: (a.dtype, a.shape) for name, a in model.items()
    }
    assert np.all(after["w"] == np.float32(3.25))
    assert after["scalar"] == 3.25
    assert after["count"].tolist() == [3, 10]
    assert after["flag"]


def test_a_float32_mean_of_many_does_not_drift() -> None:
    model = {"w": np.zeros(3, np.float32)}
    mean = WeightedMean(model)
    for _ in range(10_000):
        mean.add(Result({"w": np.full(3, 0.1, np.float32)}))
    assert mean.close()["w"].tolist() == [np.float32(0.1)] * 3


def test_the_mean_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no responses"):
        WeightedMean({"w": np.zeros(2)}).close()


def test_a_sum_of_integers_is_exact_and_ignores_weights() -> None:
    model = {"counts": np.zeros(3, np.int64), "empty": np.zeros((0, 2)), "big": np.array(0, np.uint64)}
    total = Sum(model)
    for _ in range(2):
        part = {"counts": np.array([1, 2**60, 3]), "empty": np.zeros((0, 2)), "big": np.array(2**62, np.uint64)}
        total.add(Result(part, weight=9))
    after = total.close()
    assert after["counts"].tolist() == [2, 2**61, 6]
    assert after["big"] == 2**63
    assert after["empty"].shape == (0, 2)


def test_a_sum_that_does_not_fit_is_told() -> None:
    total = Sum({"n": np.zeros(1, np.int8)})
    total.add(Result({"n": np.array([100], np.int8)}))
    total.add(Result({"n": np.array([100], np.int8)}))
    with pytest.raises(OverflowError, match="int8"):
        total.close()


@pytest.mark.parametrize("aggregator", [WeightedMean, Sum])
@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({}, ["lacks w"]),
        ({"w": np.zeros(3), "extra": np.zeros(1)}, ["has extra"]),
        ({"w": np.zeros(4)}, ["float64[4]", "float64[3]"]),
        ({"w": np.zeros(3, np.float32)}, ["float32[3]", "float64[3]"]),
    ],
)
def test_a_response_that_differs_from_the_model_names_both(
    aggregator: Any, response: dict[str, np.ndarray], words: list[str]
) -> None:
    with pytest.raises(ValueError, match="response") as caught:
        aggregator({"w": np.zeros(3)}).add(Result(response))
    assert all(word in str(caught.value) for word in words)


def test_arrays_copies_the_state_of_a_module() -> None:
    class Tensor:
        def __init__(self) -> None:
            self.values = np.arange(3.0)

        def detach(self) -> "Tensor":
            return self

        cpu = detach

        def numpy(self) -> np.ndarray:
            return self.values

    class Module:
        tensor = Tensor()

        def state_dict(self) -> dict[str, Tensor]:
            return {"layer.weight": self.tensor}

    state = arrays(Module())
    Module.tensor.values[0] = 7
    assert state["layer.weight"].tolist() == [0.0, 1.0, 2.0]


def test_a_mismatch_names_both_sides() -> None:
    model = {"w": np.zeros((64, 10)), "b": np.zeros(10)}
    check_like(model, {"b": np.ones(10), "w": np.ones((64, 10), ">f8")})
    for response, text in [
        (
            {"w": np.zeros((64, 9)), "b": np.zeros(10)},
            r"w is float64\[64, 9\] in the response, but float64\[64, 10\] in",
        ),
        ({"w": np.zeros((64, 10), np.float32), "b": np.zeros(10)}, r"w is float32\[64, 10\] in the response"),
        ({"w": np.zeros((64, 10))}, "the response lacks b, which the model has"),
        ({"w": np.zeros((64, 10)), "b": np.zeros(10), "x": np.zeros(1)}, "the response has x, which the model has not"),
    ]:
        with pytest.raises(ValueError, match=text):
            check_like(model, response)


@pytest.mark.parametrize("most", [0.5, -1.0, 1e13, float("nan"), float("inf")])
def test_the_largest_weight_that_a_job_allows_has_bounds(most: float) -> None:
    with pytest.raises(ValueError, match="most_weight"):
        Job(initial=dict, on_device=dict, most_weight=most)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_the_mean_of_the_largest_integers_is_no_small_one(dtype: str) -> None:
    """The largest of 64 bits lie between two floats, and the upper one is none of them."""
    limits = np.iinfo(dtype)
    for value in (limits.max, limits.min):
        mean = WeightedMean({"n": np.zeros(3, dtype)})
        mean.add(Result({"n": np.full(3, value, dtype)}, weight=0.3))
        assert abs(int(mean.close()["n"][0]) - int(value)) <= abs(int(value)) * 2**-52


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u8", "f2", "f4", "f8"])
def test_so_many_of_the_largest_numbers_have_a_sum_and_a_mean(dtype: str) -> None:
    for aggregate, weight in ((Sum, 1.0), (WeightedMean, 10_000.0)):
        limit = min(aggregate.most_value(np.dtype(dtype), 7, weight), _largest(dtype))
        for sign in (1, -1) if dtype[0] != "u" else (1,):
            total = aggregate({"n": np.zeros(2, dtype)})
            for _ in range(7):
                total.add(Result({"n": np.full(2, sign * limit, dtype)}, weight=weight))
            after = total.close()["n"][0].item()
            assert np.isfinite(after)
            assert after * sign > 0


def _largest(dtype: str) -> float:
    return int(np.iinfo(dtype).max) if dtype[0] in "iu" else float(np.finfo(dtype).max)
