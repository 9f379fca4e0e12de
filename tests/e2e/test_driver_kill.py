"""A driver that is killed between two receipts of one round, with the real coordinator and agents around it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from venn.wire import tensors

pytestmark = pytest.mark.e2e
PATIENCE_S = 60
JOB = """
import time
from pathlib import Path

import numpy as np

from job_driver import Job, Result, Task


def initial(rng):
    return {"w": np.zeros(1000)}


def wait_for_gate(model, task):
    value, gate = task.data.read_text().split()
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


def wait_for(condition: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_at, f"waited in vain for {what}"
        time.sleep(0.02)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_killed_driver_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    file = tmp_path / "gates.py"
    file.write_text(JOB)
    gates = [tmp_path / "gate-0", tmp_path / "gate-1"]
    gates[0].touch()
    with ExitStack() as stack:
        tokens = ["--tokens", str(tmp_path / "tokens")]
        run = str(tmp_path / "run")
        coordinator = stack.enter_context(
            program(tmp_path, "coordinator", "--listen", "127.0.0.1:0", "--dir", run, *tokens, "--json")
        )
        assert coordinator.stdout is not None
        to = ["--coordinator", json.loads(coordinator.stdout.readline())["listening"], *tokens]
        for number, value in enumerate((1.0, 4.0)):
            share = tmp_path / f"share-{number}"
            share.write_text(f"{value} {gates[number]}")
            home = tmp_path / f"device-{number}"
            flags = ["--name", f"device-{number}", "--data", f"gates={share}", "--allow-code", str(file)]
            flags += ["--tasks-per-session", "1"]
            stack.enter_context(program(tmp_path, "agent", *to, *flags, "--dir", str(home)))
        job = ["job", "run", str(file), *to, "--demand", "2", "--min-response", "100%", "--rounds", "1", "--run", "1"]
        job += ["--deadline", "120s", "--data", "gates", "--dir", str(tmp_path / "job"), "--json"]
        manifest = tmp_path / "job" / "manifest.jsonl"
        driver = stack.enter_context(program(tmp_path, *job))
        receipts = [tmp_path / f"device-{number}" / "receipts.jsonl" for number in range(2)]
        wait_for(lambda: len(lines(manifest)) == len(lines(receipts[0])) == 1, "the first receipt")
        driver.kill()
        driver.wait()
        gates[1].touch()
        resumed = stack.enter_context(program(tmp_path, *job, "--resume"))
        said, _ = resumed.communicate(timeout=PATIENCE_S)
        assert resumed.returncode == 0, (tmp_path / "job.log").read_text()
        assert json.loads(said)["rounds"] == 1
        wait_for(lambda: len(lines(receipts[1])) == 1, "the second receipt")
    told = lines(manifest)
    counted = [line for line in told if line["kind"] == "response" and line["outcome"] == "counted"]
    assert [(line["round"], line["attempt"]) for line in counted] == [(1, 1), (1, 1)]
    assert len({line["lease"] for line in counted}) == 2
    ends = [line for line in told if line["kind"] == "attempt"]
    assert [(line["round"], line["status"]) for line in ends] == [(1, "closed")]
    held = {line["lease"] for path in receipts for line in lines(path)}
    assert held == {line["lease"] for line in counted}
    assert tensors.open_file(tmp_path / "job" / "checkpoint.tensors")["w"][0] == 2.5
