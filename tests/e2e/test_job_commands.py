"""``venn job list | wait | cancel`` beside a running driver."""

import json
from pathlib import Path

import pytest

from tests.e2e.test_driver_kill import PATIENCE_S, program

pytestmark = pytest.mark.e2e
JOB = """
import numpy as np
from job_driver import Job, Result
job = Job(initial=lambda rng: {"w": np.zeros(3)}, on_device=lambda model, task: Result(model))
"""


def test_a_job_that_waits_for_devices_is_listed_explained_and_cancelled(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text(JOB)
    keys = ["--keys", str(tmp_path / "keys")]
    with program(tmp_path, "coordinator", "--listen", "127.0.0.1:0", *keys, "--json") as coordinator:
        assert coordinator.stdout is not None
        to = ["--coordinator", json.loads(coordinator.stdout.readline())["listening"], *keys, "--json"]
        with program(tmp_path, "job", "run", "idle.py", *to, "--rounds", "2", "--demand", "3") as driver:
            listed: list[dict[str, object]] = []
            while not (listed and listed[0]["phase"] == "filling"):
                listed = said(tmp_path, "job", "list", *to)["jobs"]  # type: ignore[assignment]
            assert (listed[0]["name"], listed[0]["responses_needed"]) == ("idle", 3)
            assert said(tmp_path, "job", "cancel", "idle", *to)["phase"] == "cancelled"
            told, _ = driver.communicate(timeout=PATIENCE_S)
            assert driver.returncode == 1
            assert json.loads(told)["phase"] == "cancelled"
        assert said(tmp_path, "job", "wait", "idle", *to, code=1)["phase"] == "cancelled"
        error = said(tmp_path, "job", "wait", "idel", *to, code=2)["error"]
        assert "did you mean idle?" in str(error)


def said(folder: Path, *arguments: str, code: int = 0) -> dict[str, object]:
    with program(folder, *arguments) as process:
        told, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code
    whole: dict[str, object] = json.loads(told)
    return whole
