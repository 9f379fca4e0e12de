"""A backend of another package, installed by one folder: every command takes it, and no file of ours knows it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.runfolder.machine import free_port
from tests.e2e.programs import ROOT, Started, lines, run, started, waited
from venn.wire.keys import ensure_keys

pytestmark = pytest.mark.e2e
SCENARIO = """\
version: 1
name: standing
backend: standing
duration: 2m
jobs:
  one: {file: FILE, demand: 2, rounds: 2, deadline: 30s, workload: {compute: 1s}, data: digits}
data:
  digits: {source: sklearn-digits}
fleets:
  bench: {count: 2, processes: 2}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "standing"
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "standing"))
    monkeypatch.setenv("STANDING_DEVICES", str(folder))
    ensure_keys(folder / "keys")
    (folder / "port").write_text(str(free_port()))
    (tmp_path / "standing.yaml").write_text(SCENARIO.replace("FILE", str(ROOT / "examples" / "labels.py")))
    return folder


@pytest.fixture
def agents(place: Path, tmp_path: Path) -> Iterator[list[Started]]:
    """Both devices, which run before there is a coordinator."""
    split = run(tmp_path, "data", "split", "sklearn-digits", "--devices", "2", "--out", "shares")
    assert split.process.returncode == 0, split.err
    to = ["--coordinator", f"127.0.0.1:{(place / 'port').read_text()}", "--keys", str(place / "keys")]
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                started(tmp_path, "agent", "--name", name, "--dir", str(place / name), "--data", f"digits={share}",
                        "--allow-code", "any", *to)
            )
            for name, share in zip(("bench-01", "bench-02"), sorted((tmp_path / "shares").glob("share-*")), strict=True)
        ]  # fmt: skip


def test_devices_that_run_already_join_a_run_and_stay(place: Path, agents: list[Started], tmp_path: Path) -> None:
    checked = run(tmp_path, "scenario", "check", "standing.yaml")
    assert checked.process.returncode == 0, checked.err
    waited(lambda: all((place / name / "load.jsonl").exists() for name in ("bench-01", "bench-02")), "the agents")
    ran = run(tmp_path, "run", "standing.yaml", "--out", "run", "--json")
    assert ran.process.returncode == 0, ran.err
    assert (ran.said()["backend"], ran.said()["devices"], ran.said()["audit"]["findings"]) == ("standing", 2, [])
    receipts = lines(tmp_path / "run" / "devices" / "bench-01" / "receipts.jsonl")
    assert {row["device"] for row in receipts} == {"bench-01"}
    assert [agent.process.poll() for agent in agents] == [None, None]
    shown = run(tmp_path, "report", "run", "--json")
    assert shown.process.returncode == 0, shown.err


def test_what_it_cannot_do_is_told_by_a_check(place: Path, tmp_path: Path) -> None:
    text = (tmp_path / "standing.yaml").read_text().replace("processes: 2", "processes: 1, up: 1 Mbit/s")
    (tmp_path / "wrong.yaml").write_text(text + "churn:\n  - {at: 5s, crash: 1 of bench}\n")
    checked = run(tmp_path, "scenario", "check", "wrong.yaml")
    assert checked.process.returncode == 2
    for told in (
        "1 processes for 2 devices, and each device is a standing device",
        "has no effect with backend: standing",
        "crash: backend standing cannot do this to a device",
    ):
        assert told in checked.err


def test_doctor_and_down_ask_it(place: Path, tmp_path: Path) -> None:
    told = run(tmp_path, "doctor", "--json").said()["backends"]["standing"]
    assert told == [{"needs": "devices", "passed": False, "says": "no device runs; start their agents"}]
    mark = place / "used-by-p1-s0"
    mark.touch()
    down = run(tmp_path, "down", "--json", "--of", "p1-s0")
    assert json.loads(down.out)["removed"] == [{"kind": "standing device", "name": mark.name, "mark": "p1-s0"}]
    assert not mark.exists()


def test_the_generated_schema_stays_as_it_is_committed(place: Path, tmp_path: Path) -> None:
    printed = run(tmp_path, "scenario", "schema")
    assert printed.out == (ROOT / "examples" / "scenario.schema.json").read_text()
