"""The commands on a finished run: output, exit codes, errors."""

import json
from pathlib import Path

import pytest

from testbed.cli.main import main
from tests.unit.report.world import World


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("by-hand   policy venn")
    assert str(folder / "report.html") in said
    assert "\x1b" not in said
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["leases"]["granted"] == 6


def test_report_of_a_run_that_missed_its_goal(world: World, tmp_path: Path) -> None:
    world.about["expect"] = ["jobs.wide.accuracy >= 0.99"]
    assert main(["report", str(world.write(tmp_path / "run")), "--quiet"]) == 1


def test_explain_of_a_finished_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "narrow", "--run", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "narrow   finished"
    assert (
        lines[1]
        == "  3.0 s of its delay: present, held back (cooling, at a limit, of another tier, or counted in the round)"
    )
    assert main(["explain", "narow", "--run", str(folder)]) == 2
    assert capsys.readouterr().err.strip().endswith("did you mean narrow?")


@pytest.mark.parametrize("command", ["report", "replay"])
def test_what_is_no_run_is_one_line(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([command, str(tmp_path / "nowhere")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_replay_that_differs_exits_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run by hand was not made by an engine: its effects are not those of one."""
    assert main(["replay", str(folder), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["same"] is False
    assert said["difference"]["recorded"]
    assert main(["replay", str(folder)]) == 1
    assert capsys.readouterr().out.startswith("first difference at event")


def test_compare_refuses_an_unknown_policy_before_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "three.yaml", "--policies", "random,ven", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["reason"] == "NO_POLICY"
    assert not (tmp_path / "runs").exists()
