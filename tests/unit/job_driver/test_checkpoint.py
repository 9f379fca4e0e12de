"""Checkpoints: whole, or the one before, whatever the moment of a crash."""

import json
from pathlib import Path

import numpy as np
import pytest

from job_driver.checkpoint import HISTORY, MODEL, NEXT_MODEL, STATE, Checkpoint, Checkpoints, run_in
from job_driver.job import Round
from venn.wire import tensors
from venn.wire.errors import UsageError

KEY = "me/digits/7"


def saved(folder: Path, round_: int, value: float) -> Checkpoints:
    """After a round, and those before it."""
    checkpoints = Checkpoints(folder)
    rounds = tuple(Round(number + 1, 2, 0, 0.5, {"accuracy": 0.5}) for number in range(round_))
    for done in range(round_ + 1):
        artifact = checkpoints.write_model({"w": np.full(5, value)})
        checkpoints.commit(Checkpoint(KEY, done, artifact.digest.hex(), rounds[:done], 12))
    return checkpoints


@pytest.mark.parametrize("fsync", [False, True])
def test_what_is_committed_is_loaded(tmp_path: Path, fsync: bool) -> None:
    checkpoints = Checkpoints(tmp_path, fsync=fsync)
    artifact = checkpoints.write_model({"w": np.arange(5.0)})
    checkpoints.commit(Checkpoint(KEY, 0, artifact.digest.hex()))
    checkpoint, model = checkpoints.load(KEY)
    assert checkpoint.round == 0
    assert model.digest == artifact.digest
    assert tensors.open_file(checkpoints.model)["w"].tolist() == [0, 1, 2, 3, 4]
    assert model.read(0, 10) == artifact.read(0, 10)


def test_the_history_comes_back(tmp_path: Path) -> None:
    checkpoint, _ = saved(tmp_path, 2, 1.0).load(KEY)
    assert checkpoint.rounds[1] == Round(2, 2, 0, 0.5, {"accuracy": 0.5})
    assert checkpoint.driver_incarnation == 12
    assert run_in(tmp_path) == "7"


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 2, 1.0)
    state = json.loads((tmp_path / STATE).read_text())
    state["model_sha256"] = state.pop("model_digest")  # as version 1 had it
    (tmp_path / STATE).write_text(json.dumps(state | {"format": 1}))
    with pytest.raises(UsageError) as caught:
        checkpoints.load(KEY)
    assert caught.value.reason == "OTHER_FORMAT"


def test_a_checkpoint_costs_the_same_after_any_number_of_rounds(tmp_path: Path) -> None:
    saved(tmp_path, 10, 1.0)
    after_10 = (tmp_path / STATE).stat().st_size
    lines = (tmp_path / HISTORY).stat().st_size
    saved(tmp_path, 99, 1.0)
    assert (tmp_path / STATE).stat().st_size == after_10
    assert (tmp_path / HISTORY).stat().st_size < 10 * lines


@pytest.mark.parametrize(
    "left_over", ['{"number": 3, "responses": 9, "stragglers": 0, "seconds": 1, "metrics": {}}\n', '{"num']
)
def test_a_line_of_a_round_that_was_not_committed_is_cut_off(tmp_path: Path, left_over: str) -> None:
    checkpoints = saved(tmp_path, 2, 1.0)
    with open(tmp_path / HISTORY, "a") as file:
        file.write(left_over)
    checkpoint, model = checkpoints.load(KEY)
    assert [closed.number for closed in checkpoint.rounds] == [1, 2]
    third = Round(3, 2, 0, 0.5, {"accuracy": float("nan")})
    checkpoints.write_model({"w": np.full(5, 1.0)})
    checkpoints.commit(Checkpoint(KEY, 3, model.digest.hex(), (*checkpoint.rounds, third)))
    assert [closed.responses for closed in checkpoints.load(KEY)[0].rounds] == [2, 2, 2]


def test_a_damaged_history_is_told(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 2, 1.0)
    (tmp_path / HISTORY).write_text("power was lost\n")
    with pytest.raises(UsageError, match="of 2 rounds 0 can be read"):
        checkpoints.load(KEY)


def test_a_crash_before_the_state_was_written_leaves_the_one_before(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 1, 1.0)
    checkpoints.write_model({"w": np.full(5, 2.0)})
    checkpoint, _ = Checkpoints(tmp_path).load(KEY)
    assert checkpoint.round == 1
    assert tensors.open_file(tmp_path / MODEL)["w"][0] == 1.0


def test_a_crash_between_the_state_and_the_models_name_is_mended(tmp_path: Path) -> None:
    saved(tmp_path, 1, 1.0)
    old = (tmp_path / MODEL).read_bytes()
    saved(tmp_path, 2, 2.0)
    (tmp_path / MODEL).rename(tmp_path / NEXT_MODEL)
    (tmp_path / MODEL).write_bytes(old)
    checkpoint, _ = Checkpoints(tmp_path).load(KEY)
    assert checkpoint.round == 2
    assert tensors.open_file(tmp_path / MODEL)["w"][0] == 2.0


def test_an_artifact_outlives_its_name(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    artifact = checkpoints.write_model({"w": np.zeros(5)})
    checkpoints.commit(Checkpoint(KEY, 0, artifact.digest.hex()))
    saved(tmp_path, 1, 1.0)
    assert artifact.read(0, 8) == tensors.MAGIC


@pytest.mark.parametrize("what", ["absent", "another job", "damaged"])
def test_what_cannot_be_resumed_is_told(tmp_path: Path, what: str) -> None:
    if what != "absent":
        saved(tmp_path, 1, 1.0)
    if what == "damaged":
        (tmp_path / MODEL).write_bytes(b"")
    with pytest.raises(UsageError) as caught:
        Checkpoints(tmp_path).load("me/other/1" if what == "another job" else KEY)
    assert caught.value.fix
    assert run_in(tmp_path / "nowhere") == ""
