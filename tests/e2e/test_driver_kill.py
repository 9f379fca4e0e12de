"""A driver that is killed between two receipts of one round, with the real coordinator and agents around it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.programs import PATIENCE_S, lines, waited
from venn.wire import tensors

pytestmark = pytest.mark.e2e
JOB = """
import time
from pathlib import Path

import numpy as np

from job_driver import Job, Result, Task


def initial(rng):
    return {"w": np.zeros(1000)}


def wait_for_gate(model, task):
    value, gate = task.data.read_text().split()
    Path(gate + "-reached").touch()
    while not Path(gate).exists():
        time.sleep(0.02)
    return Result({"w": np.full(1000, float(value)) + model["w"]})


job = Job(initial=initial, on_device=wait_for_gate)
"""


@contextmanager
def program(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VENN_")}
    command = [sys.executable, "-m", "testbed.cli.main", *arguments]
    with (
        open(folder / f"{arguments[0]}.log", "a") as log,
        subprocess.Popen(
            command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def killed_and_resumed(tmp_path: Path, *flags: str, killed_at: int) -> Iterator[None]:
    """Both devices have the first model. Device 0 answers, with 1; its driver is killed after so many lines of its
    manifest; then device 1 answers, with 4, and another driver ends the job."""
    file = tmp_path / "gates.py"
    file.write_text(JOB)
    gates = [tmp_path / "gate-0", tmp_path / "gate-1"]
    with ExitStack() as stack:
        keys = ["--keys", str(tmp_path / "keys")]
        run = str(tmp_path / "run")
        coordinator = stack.enter_context(
            program(tmp_path, "coordinator", "--listen", "127.0.0.1:0", "--dir", run, *keys, "--json")
        )
        assert coordinator.stdout is not None
        to = ["--coordinator", json.loads(coordinator.stdout.readline())["listening"], *keys]
        for number, value in enumerate((1.0, 4.0)):
            share = tmp_path / f"share-{number}"
            share.write_text(f"{value} {gates[number]}")
            home = tmp_path / f"device-{number}"
            about = ["--name", f"device-{number}", "--data", f"gates={share}", "--allow-code", str(file)]
            about += ["--tasks-per-session", "1", "--confine", "off"]  # the job's code meets this test through files
            stack.enter_context(program(tmp_path, "agent", *to, *about, "--dir", str(home)))
        job = ["job", "run", str(file), *to, "--demand", "2", *flags, "--run", "1"]
        job += ["--deadline", "120s", "--data", "gates", "--dir", str(tmp_path / "job"), "--json"]
        manifest = tmp_path / "job" / "manifest.jsonl"
        driver = stack.enter_context(program(tmp_path, *job))
        reached = [Path(f"{gate}-reached") for gate in gates]
        waited(lambda: all(path.exists() for path in reached), "both devices at work")
        gates[0].touch()
        receipts = [tmp_path / f"device-{number}" / "receipts.jsonl" for number in range(2)]
        waited(lambda: len(lines(manifest)) == killed_at and len(lines(receipts[0])) == 1, "the first receipt")
        driver.kill()
        driver.wait()
        gates[1].touch()
        resumed = stack.enter_context(program(tmp_path, *job, "--resume"))
        said, _ = resumed.communicate(timeout=PATIENCE_S)
        assert resumed.returncode == 0, (tmp_path / "job.log").read_text()
        assert json.loads(said)["finished"]
        waited(lambda: len(lines(receipts[1])) == 1, "the second receipt")
    yield
    held = {line["lease"] for path in receipts for line in lines(path)}
    assert held == {line["lease"] for line in lines(manifest) if line.get("outcome") == "counted"}


def test_a_killed_driver_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    with killed_and_resumed(tmp_path, "--min-response", "100%", "--rounds", "1", killed_at=1):
        told = lines(tmp_path / "job" / "manifest.jsonl")
        counted = [line for line in told if line["kind"] == "response" and line["outcome"] == "counted"]
        assert [(line["round"], line["attempt"]) for line in counted] == [(1, 1), (1, 1)]
        assert len({line["lease"] for line in counted}) == 2
        ends = [line for line in told if line["kind"] == "attempt"]
        assert [(line["round"], line["status"]) for line in ends] == [(1, "closed")]
    assert tensors.open_file(tmp_path / "job" / "checkpoint.tensors")["w"][0] == 2.5


def test_a_killed_asynchronous_driver_goes_on_with_the_models_that_devices_have(tmp_path: Path) -> None:
    """Device 1 was given the model before round 1, and its update counts in round 2, after the restart."""
    with killed_and_resumed(tmp_path, "--buffer", "1", "--rounds", "2", killed_at=2):
        told = [line for line in lines(tmp_path / "job" / "manifest.jsonl") if line["kind"] == "response"]
        assert [(line["round"], line.get("of_round"), line["outcome"]) for line in told] == [
            (1, None, "counted"),
            (2, 1, "counted"),
        ]
        last = lines(tmp_path / "job" / "rounds.jsonl")[-1]
        assert (last["round"], last["staleness"]) == (2, {"mean": 1.0, "max": 1})
    assert tensors.open_file(tmp_path / "job" / "checkpoint.tensors")["w"][0] == 1.0 + 4.0
