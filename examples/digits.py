"""Recognise handwritten digits together: softmax regression in NumPy, averaged over devices."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from job_driver import Arrays, Job, Result, Round, Task, WeightedMean


def initial(rng: np.random.Generator) -> Arrays:
    """The model before round 1. Any named arrays will do."""
    return {"weights": np.zeros((64, 10)), "bias": np.zeros(10)}


def train(model: Arrays, task: Task) -> Result:
    """Runs on the device. `task.data` is its own share of the data, and stays there."""
    shard = np.load(task.data)
    x, y = shard["x"] / 16, shard["y"]
    weights, bias = model["weights"].copy(), model["bias"].copy()
    for _ in range(int(task.params["epochs"])):
        error = probabilities(x, weights, bias) - np.eye(10)[y]
        weights -= 0.5 * x.T @ error / len(y)
        bias -= 0.5 * error.mean(axis=0)
    return Result({"weights": weights, "bias": bias}, weight=len(y))


def evaluate(model: Arrays, held_out: Path) -> dict[str, float]:
    """Runs beside the job after each round, on data that no device has."""
    test = np.load(held_out)
    guess = probabilities(test["x"] / 16, model["weights"], model["bias"]).argmax(axis=1)
    return {"accuracy": float((guess == test["y"]).mean())}


def probabilities(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    scores = np.exp(x @ weights + bias)
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def good_enough(rounds: Sequence[Round]) -> bool:
    return rounds[-1].metrics["accuracy"] >= 0.93


job = Job(initial=initial, on_device=train, aggregate=WeightedMean, evaluate=evaluate, stop=good_enough)
