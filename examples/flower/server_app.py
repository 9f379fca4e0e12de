"""The ServerApp: federated averaging, evaluated after each round on digits that no node has."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    test = np.load(Path(str(context.run_config["data"])) / "held_out.npz")

    def evaluate(_: int, arrays: ArrayRecord) -> MetricRecord:
        weights, bias = arrays.to_numpy_ndarrays()
        guess = (test["x"] / 16 @ weights + bias).argmax(axis=1)
        return MetricRecord({"accuracy": float((guess == test["y"]).mean())})

    strategy = FedAvg(fraction_train=0.5, fraction_evaluate=0.0)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros((64, 10)), np.zeros(10)]),
        num_rounds=int(context.run_config["num-rounds"]),
        evaluate_fn=evaluate,
    )
