"""``venn population describe``."""

import csv
import json
from pathlib import Path

import pytest

from testbed.cli.main import main

PHONES = ["population", "describe", "phones", "--count", "500", "--days", "1"]


def test_phones_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PHONES) == 0
    out = capsys.readouterr().out
    for word in ("ASKED", "MADE", "inference", "cpu, ram", "high-performance", "session", "02:00"):
        assert word in out


def test_phones_for_programs_and_as_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PHONES, "--json", "--out", str(tmp_path / "figures")]) == 0
    told = json.loads(capsys.readouterr().out)
    cpu = next(each for each in told["compared"] if each["name"] == "cpu")
    assert [row["asked"] for row in cpu["rows"]][4] == 6.1
    assert len(told["figures"]) == 3
    for file in map(Path, told["figures"]):
        assert file.read_text().lstrip().startswith("<?xml")
        assert file.with_suffix(".pdf").exists()
    with (tmp_path / "figures" / "population-parts.csv").open() as file:
        assert next(csv.reader(file)) == ["what", "unit", "at", "asked", "made"]


def test_a_scenario_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["population", "describe", "three-jobs"]) == 0
    out = capsys.readouterr().out
    assert "budget cpu" in out
    assert "flagship session" in out


def test_a_file_of_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "phones.csv").write_text("device,cpu\na,1\nb,9\n")
    assert main(["population", "describe", str(tmp_path / "phones.csv"), "--out", str(tmp_path / "figures")]) == 0
    assert "reported by" in capsys.readouterr().out
    assert main(["population", "describe", str(tmp_path / "phones.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["compared"][0]["rows"][2] == {"at": "50 %", "asked": None, "made": 5}


def test_a_scenario_with_a_population(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = "jobs: {a: {demand: 5, rounds: 2, deadline: 100s, requirement: cpu >= 7}}"
    text = f"version: 1\nname: many\nbackend: sim\npopulation: {{count: 100000}}\n{jobs}\n"
    (tmp_path / "many.yaml").write_text(text)
    assert main(["population", "describe", str(tmp_path / "many.yaml"), "--count", "500", "--days", "1"]) == 0
    out = capsys.readouterr().out
    for word in ("high-performance", "eligible", "cpu >= 7", "check-ins over the day"):
        assert word in out


def test_bad_files_of_a_population(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sessions.csv").write_text("device,start_s,end_s\nb,2,1\n")
    assert main(["population", "describe", str(tmp_path / "sessions.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["population", "describe", "nowhere.yaml"]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert main([*PHONES, "--out", str(tmp_path / "taken" / "figures")]) == 2
    assert "cannot be used" in capsys.readouterr().err
