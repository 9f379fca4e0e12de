"""Every file and picture of a run counts from the same zero: when the coordinator started."""

import csv
import json
from pathlib import Path

import pytest

from testbed.report.draw_devices import churn, host
from testbed.report.draw_jobs import curves, learning, rounds
from testbed.report.explain import explain
from testbed.report.history import read_history
from testbed.report.record import load_run
from testbed.report.result import build_report
from testbed.report.summary import summarise
from testbed.runfolder.summary import CLOCK
from tests.unit.report.world import World


@pytest.fixture
def made(world: World, tmp_path: Path) -> Path:
    world.busy(7.0, 0.2)
    folder = world.write(tmp_path)
    build_report(folder)
    return folder


def column(folder: Path, figure: str, name: str) -> list[str]:
    with (folder / "figures" / f"{figure}.csv").open() as file:
        return [row[name] for row in csv.DictReader(file)]


def test_files_agree_on_when_things_were(made: Path) -> None:
    history = read_history(load_run(made).journal)
    wide = explain(history, "wide")
    opened = [line.at_s for line in wide.history if line.kind == "OPEN"]
    said = json.loads((made / "summary.json").read_text())
    assert said["jobs"][0]["arrived_s"] == wide.history[0].at_s == 1.0
    assert opened == [5.0, 21.0]
    rows = zip(column(made, "rounds", "job"), column(made, "rounds", "opened_s"), strict=True)
    assert [float(at) for job, at in rows if job == "wide"] == opened
    check_in = next(line for line in explain(history, "a").history if line.kind == "CHECK-IN")
    assert float(column(made, "churn", "from_s")[0]) == check_in.at_s == 3.0
    assert [float(at) for at in column(made, "host", "at_s")] == pytest.approx([7.0, 7.0], abs=1e-6)
    assert column(made, "learning", "at_s") == ["26.0"]
    assert {said["clock"], wide.clock} == {CLOCK}


def test_pictures_are_drawn_on_that_clock_and_say_so(made: Path) -> None:
    record = load_run(made)
    history = read_history(record.journal)
    summary = summarise(record, history)
    lanes = rounds(history, summary.jobs).figure.axes[0]
    assert min(patch.get_x() for patch in lanes.patches) == 5.0
    drawn = [lanes, churn(history, summary.jobs, {}).figure.axes[0]]
    machine, learned = host(record, history.window), learning(curves(record, history), (), summary.jobs)
    assert machine is not None
    assert learned is not None
    drawn += [*machine.figure.axes, learned.figure.axes[0]]
    assert {axes.get_xlabel() for axes in drawn} == {CLOCK}
    assert {axes.get_xlim() for axes in drawn[:-1]} == {history.window} == {(1.0, 30.0)}
    assert CLOCK in (made / "report.html").read_text()
