"""``venn scenario`` as people and programs call it."""

import json
from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.scenario import load, parse
from testbed.scenario.schema import BEGIN, json_schema

TEXT = """\
# Two phones.
version: 1
name: small
requirements: {fast: cpu >= 2}
jobs:
  count: {file: job.py, requirement: fast, demand: 1, rounds: 2, deadline: 5s}
  other: {file: job.py, requirement: package = torch, demand: 1, max_rounds: 3, deadline: 5s}
fleets: {slow: {count: 3}, fast: {count: 2, cpu: 2..3}}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text("job = 1\n")
    Path("small.yaml").write_text(TEXT)
    return Path("small.yaml")


def test_check_says_who_can_serve(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "check", "small.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "small is right: policy venn, 5 devices in 2 fleets, 10m at most",
        "",
        "JOB                     ROUNDS DEMAND ELIGIBLE  REQUIREMENT",
        "count                        2      1        2  fast: cpu >= 2",
        "other                at most 3      1        ?  package = torch",
    ]


def test_check_for_programs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "check", "small.yaml", "--json", "--set", "jobs.count.demand=2"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["name"], facts["devices"]) == ("small", 5)
    assert facts["jobs"][0] == {
        "name": "count", "requirement": "cpu >= 2", "eligible": 2, "demand": 2, "rounds": 2, "max_rounds": None,
        "arrives_s": 0.0,
    }  # fmt: skip


def test_check_is_quiet_when_asked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "check", "small.yaml", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_check_tells_all_that_is_wrong(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("demand: 1, rounds: 2", "demnd: 1, rounds: 0"))
    assert main(["scenario", "check", "small.yaml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "small.yaml:6: jobs.count.demand: is missing; add e.g. demand: 20",
        "small.yaml:6: jobs.count.rounds: 0 is too small; it is at least 1",
        "small.yaml:6: jobs.count.demnd: unknown key; did you mean demand?",
    ]


def test_a_mistake_for_programs_is_one_object(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "check", "small.yaml", "--json", "--set", "backend=sim", "--set", "seed=x"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {
        "reason": "SCENARIO",
        "message": "'x' is not a whole number",
        "where": "--set seed=x: seed",
        "fix": "write e.g. 1",
    }


def test_a_missing_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "check", "smal.yaml"]) == 2
    assert capsys.readouterr().err == f"venn scenario: smal.yaml: no such file; did you mean {file.name}?\n"
    assert main(["scenario", "check", "nowhere.yaml"]) == 2
    assert capsys.readouterr().err.startswith("venn scenario: nowhere.yaml: no such file; `venn scenario list`")


def test_expand_prints_what_loads_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "expand", "small.yaml", "--set", "seed=3"]) == 0
    text = capsys.readouterr().out
    assert parse(text, folder=Path("/nowhere")) == load(file, ["seed=3"])
    assert main(["scenario", "expand", "small.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fleets"]["fast"]["cpu"] == "2..3"


def test_expand_shows_what_a_timeline_comes_to(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT + "churn: [{at: 30s, crash: 50% of fast, for: 4s}]\n")
    assert main(["scenario", "expand", "small.yaml"]) == 0
    text = capsys.readouterr().out
    assert "# 1 action\n" in text
    assert "30.000    34.000  crash       fast-0" in text
    assert parse(text, folder=Path("/nowhere")) == load(file)
    assert main(["scenario", "expand", "small.yaml", "--json"]) == 0
    [action] = json.loads(capsys.readouterr().out)["timeline"]
    assert (action["verb"], action["at_s"], action["until_s"], action["entry"]) == ("crash", 30.0, 34.0, 0)


def test_expand_sums_up_what_nobody_would_read(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    population = "version: 1\nname: many\nbackend: sim\njobs: {a: {demand: 1, rounds: 1, deadline: 9s}}\n"
    file.write_text(population + "population: {count: 3000}\nchurn: [{at: 30s, leave: 50% of all, for: 4s}]\n")
    assert main(["scenario", "expand", "small.yaml"]) == 0
    text = capsys.readouterr().out
    assert "# 1500 actions\n" in text
    assert "   30.000    30.000  leave       1500  " in text
    assert text.count("leave") == 3
    assert parse(text, folder=Path("/nowhere")) == load(file)
    assert main(["scenario", "expand", "small.yaml", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["timeline"]) == 1500


def test_list_names_what_comes_with_us(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("three-jobs ") for line in lines)
    assert main(["scenario", "list", "--json"]) == 0
    assert Path(json.loads(capsys.readouterr().out)["scenarios"]["quick"]["file"]).is_file()


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(json_schema()))
    assert main(["scenario", "schema", "--json"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert main(["scenario", "schema", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith(BEGIN)
