"""Chaos on real processes, for some seconds: all is done that was asked for, nothing is broken, nothing is left."""

import signal
from pathlib import Path

import pytest

from testbed.scenario import load
from tests.e2e.programs import left, lines, run, started, waited
from tests.e2e.test_churn import JOB

pytestmark = pytest.mark.e2e

SCENARIO = """
version: 1
name: small
seed: 3
duration: 2m
every_job: {file: job.py, deadline: 30s, rounds: 8, min_response: 80%, workload: {compute: 2s}}   # 16 s at least
jobs:
  wide: {demand: 5, over_commit: 40%}
  narrow: {demand: 2, over_commit: 50%}
fleets:
  swarm: {count: 16}
  alone: {count: 2, processes: 2}
"""
FAULTS = ["--duration", "14s", "--coordinator-kills", "2", "--driver-kills", "2", "--device-losses", "15"]


def test_a_run_in_chaos_is_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "job.py").write_text(JOB)
    out = tmp_path / "run"
    program = run(tmp_path, "chaos", "run", "small.yaml", *FAULTS, "--out", str(out), "--json", "--validate")
    said = program.said()
    found = {key: (each["got"], each["held"]) for key, each in said["chaos"]["figures"].items()}
    assert program.process.returncode == 0, (found, program.err)
    assert found["coordinator_kills"] == (2, True)
    assert found["driver_kills"] == (2, True)
    assert found["device_losses"] == (15, True)
    assert all(held for _, held in found.values())
    assert len(said["chaos"]["first_lease_after_kill_s"]) == 2
    targets = [row["target"] for row in lines(out / "churn.jsonl") if row["verb"] == "crash"]
    assert targets.count("coordinator") == 2
    assert len(load(out / "scenario.yaml").churn) > 4  # the run can be repeated
    assert left([], place=out) == []


def test_one_that_is_stopped_leaves_nothing_and_is_no_proof(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "job.py").write_text(JOB)
    out = tmp_path / "run"
    with started(tmp_path, "chaos", "run", "small.yaml", *FAULTS, "--out", str(out), "--json") as program:
        waited(lambda: (out / "churn.jsonl").is_file() and lines(out / "churn.jsonl"), "the first fault")
        family = program.family()
        assert program.stop(signal.SIGINT) == 130, program.err
        assert not program.said()["chaos"]["held"]
    assert left(family, place=out) == []
