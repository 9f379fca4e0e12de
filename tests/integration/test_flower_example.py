"""The Flower app of examples/flower and the job of examples/digits.py are the same training: model for model."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from job_driver import Arrays, Task
from testbed.world.data import split
from venn.wire.notation import parse_fraction

pytest.importorskip("flwr.serverapp", reason="flwr is not installed; to hold its example to ours: pip install flwr")

from flwr.app import Context, Message, RecordDict  # only where it is installed
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

EXAMPLES = Path(__file__).parents[2] / "examples"
NODES, ROUNDS, EPOCHS = 6, 4, 40


class OneProcess(Grid):
    """A Grid without SuperLink and SuperNodes: it calls the ClientApp, and keeps what it was asked to send."""

    def __init__(self, client: ClientApp, run_config: dict[str, str | int]) -> None:
        self._client = client
        self._run_config = run_config
        self.rounds: list[list[Message]] = []

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        asked = list(messages)
        if not asked:  # federated evaluation, which the app does not want
            return []
        self.rounds.append(asked)
        return [self._client(message, self._context(message.metadata.dst_node_id)) for message in asked]

    def get_node_ids(self) -> list[int]:
        return list(range(1, NODES + 1))

    def _context(self, node: int) -> Context:
        return Context(1, node, {"partition-id": node - 1, "num-partitions": NODES}, RecordDict(), self._run_config)

    def set_run(self, run: object) -> None:
        raise AssertionError("the app sets no run")

    @property
    def run(self) -> object:
        raise AssertionError("the app asks for no run")

    def create_message(self, *args: object, **kwargs: object) -> Message:
        raise AssertionError("the strategy makes its messages itself")

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        raise AssertionError("the strategy sends and receives at once")

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        raise AssertionError("the strategy sends and receives at once")


@pytest.fixture
def shares(tmp_path: Path) -> list[Path]:
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    folder = tmp_path / "digits"
    held_out = parse_fraction("20%")
    return split("sklearn-digits", devices=NODES, split="dirichlet(3.0)", held_out=held_out, seed=7, out=folder)


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer releases ask the process whose messages it makes; SuperLink would have told it."""
    module = "flwr.supercore.task_identity"
    if find_spec(module) is not None:
        for name in ("_task_id", "_run_id", "_node_id"):
            monkeypatch.setattr(import_module(module).TaskIdentity, name, 1)


def test_both_make_the_same_models(shares: list[Path]) -> None:
    folder = shares[0].parent
    run_config: dict[str, str | int] = {"data": str(folder), "epochs": EPOCHS, "num-rounds": ROUNDS}
    grid = OneProcess(load(EXAMPLES / "flower" / "client_app.py").app, run_config)
    load(EXAMPLES / "flower" / "server_app.py").app(grid, Context(1, 0, {}, RecordDict(), run_config))

    job = load(EXAMPLES / "digits.py").job
    model: Arrays = job.initial(np.random.default_rng(0))
    assert len(grid.rounds) == ROUNDS
    for asked in grid.rounds:
        weights, bias = asked[0].content["arrays"].to_numpy_ndarrays()
        np.testing.assert_allclose(weights, model["weights"], atol=1e-9)
        np.testing.assert_allclose(bias, model["bias"], atol=1e-9)
        total = job.aggregate(model)
        for message in asked:
            share = shares[message.metadata.dst_node_id - 1]
            total.add(job.on_device(model, Task(data=share, params={"epochs": EPOCHS})))
        model = total.close()
    assert job.evaluate(model, folder / "held_out.npz")["accuracy"] > 0.85


def load(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
