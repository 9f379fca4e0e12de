"""The ClientApp: trains the model on this node's own share of the digits."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Softmax regression: some epochs of gradient descent from the model in the message."""
    share = int(context.node_config["partition-id"]) + 1
    shard = np.load(Path(str(context.run_config["data"])) / f"share-{share:04d}.npz")
    x, y = shard["x"] / 16, shard["y"]
    weights, bias = message.content["arrays"].to_numpy_ndarrays()
    for _ in range(int(context.run_config["epochs"])):
        error = probabilities(x, weights, bias) - np.eye(10)[y]
        weights = weights - 0.5 * x.T @ error / len(y)
        bias = bias - 0.5 * error.mean(axis=0)
    arrays = ArrayRecord([weights, bias])
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def probabilities(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    scores = np.exp(x @ weights + bias)
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
