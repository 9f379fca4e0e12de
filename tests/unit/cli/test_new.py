"""``venn new``: files that are right as they are, and nothing overwritten."""

import json
from pathlib import Path

import numpy as np
import pytest

from job_driver import Task
from testbed.cli.main import main
from testbed.scenario import load
from testbed.scenario.schema import schema_text
from testbed.scenario.starter import job
from tests.unit.scenario.json_schema import schema_of


def test_a_new_scenario_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", str(tmp_path / "mine")]) == 0
    out = capsys.readouterr().out
    assert f"venn run {tmp_path}/mine/scenario.yaml" in out
    scenario = load(tmp_path / "mine" / "scenario.yaml")
    assert scenario.jobs["first"].file == tmp_path / "mine" / "job.py"
    assert schema_of(tmp_path / "mine" / "scenario.yaml") == json.loads(schema_text())


def test_here_and_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": ["scenario.yaml", "job.py", "scenario.schema.json"]}


@pytest.mark.parametrize("name", ["scenario.yaml", "job.py", "scenario.schema.json"])
def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / name).write_text("mine")
    assert main(["new", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"venn new: {tmp_path}/{name}: exists already; name another folder: venn new DIR\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_where_nothing_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["new", str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written to: Not a directory" in capsys.readouterr().err


def test_its_job_learns(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    y = np.arange(50) % 10
    x = rng.uniform(0, 4, (50, 64))
    x[np.arange(50), y] = 16
    np.savez(tmp_path / "share.npz", x=x, y=y)
    task = Task(data=tmp_path / "share.npz", params={"epochs": 40})
    result = job.train(job.initial(rng), task)
    assert result.weight == 50
    assert job.evaluate(result.arrays, tmp_path / "share.npz")["accuracy"] > 0.9
