"""Recognise handwritten digits together with PyTorch: a small network, averaged over devices."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from job_driver import Arrays, Job, Result, Task, arrays


class Net(nn.Module):
    """8 x 8 pixels to 10 digits."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def initial(rng: np.random.Generator) -> Arrays:
    torch.manual_seed(int(rng.integers(2**31)))
    return arrays(Net())


def train(model: Arrays, task: Task) -> Result:
    """Runs on the device: the usual loop, from the model that was sent to the one that is sent back."""
    torch.manual_seed(int(task.rng.integers(2**31)))
    net = loaded(model)
    x, y = read(task.data)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    epochs = int(task.params.get("epochs", 5))
    for epoch in range(epochs):
        for batch in torch.randperm(len(y)).split(16):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
        task.progress((epoch + 1) / epochs)
    return Result(arrays(net), weight=len(y), metrics={"loss": float(loss)})


def evaluate(model: Arrays, held_out: Path) -> dict[str, float]:
    x, y = read(held_out)
    with torch.no_grad():
        guess = loaded(model)(x).argmax(dim=1)
    return {"accuracy": float((guess == y).float().mean())}


def loaded(model: Arrays) -> Net:
    net = Net()
    net.load_state_dict({name: torch.tensor(array) for name, array in model.items()})
    return net


def read(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    share = np.load(path)
    return torch.tensor(share["x"] / 16, dtype=torch.float32), torch.tensor(share["y"], dtype=torch.int64)


job = Job(initial=initial, on_device=train, evaluate=evaluate, packages=("torch",))
