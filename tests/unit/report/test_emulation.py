"""What tasks took beside what is modelled, and what of a JCT is neither."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.engine.requirements import AllDevices
from device_agent.confine.inforce import CONFINED, InForce, write_in_force
from testbed.report.explain import explain
from testbed.report.history import History, read_history
from testbed.report.host import EMULATION_FILE, overhead_s, task_times
from testbed.report.record import load_run
from testbed.report.result import PAGE, build_report
from testbed.report.words import task_lines
from testbed.runfolder.summary import TaskTimes
from tests.unit.report.world import World

LIMIT = {"fleet": "pis", "key": "cores", "asked": "0.4", "read_back": 0.4, "means": "cgroup v1"}
TIMES = TaskTimes("pis", "count", tasks=4, measured_s=1.0, modelled_s=1.5, compute_cpu_s=0.4, held_back=9.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job of two rounds on two devices: 1.5 s each by the model, and 1 s as they measured."""
    world = World()
    for name in ("a", "b"):
        world.device(name, fleet="pis", process=name, cpu=2.0)
        world.check_in(0.0, name)
    world.job(0.0, "count", AllDevices(), label="all", demand=2, rounds=2, compute_s=3.0)
    for number, start in ((1, 0.0), (2, 4.0)):
        attempt = world.open(start + 0.25, "count", number)
        leases = [world.lease(start + 0.5, name, attempt) for name in ("a", "b")]
        world.respond(start + 2.25, leases[0])
        world.respond(start + 2.5, leases[1])
    world.finish(7.0, "count")
    return world.write(tmp_path)


@pytest.fixture
def history(folder: Path) -> History:
    return read_history(load_run(folder).journal)


def test_measured_stands_beside_modelled_where_the_processor_is_limited(history: History) -> None:
    assert task_times(history, {"pis"}) == (TIMES,)
    assert task_times(history, {"others"}) == ()


def test_overhead_is_what_is_left_of_a_jct_without_tasks_and_waiting(history: History) -> None:
    """The last response of a round is there 2 s after its lease; and there are gaps of 0.25 s and 1.75 s."""
    [job] = history.jobs.values()
    assert overhead_s(history, job, ()) == pytest.approx(2.0 + 2 * 0.5)
    assert overhead_s(history, job, {"pis"}) == pytest.approx(2.0 + 2 * 1.0)


def test_a_report_has_both(folder: Path) -> None:
    told = {"fleets": [{"fleet": "pis", "count": 2}], "limits": [LIMIT], "degraded": []}
    (folder / EMULATION_FILE).write_text(json.dumps(told))
    summary = build_report(folder)
    assert summary.emulation.tasks == (TIMES,)
    assert summary.jobs[0].overhead_s == pytest.approx(4.0)
    [line] = task_lines(summary)
    assert line == (
        "count on pis: 1.00 s measured, 1.50 s modelled, 0.40 s of the processor, held back 9 times (4 tasks)"
    )
    page = (folder / PAGE).read_text()
    assert "<td>1.00</td><td>1.50</td><td>0.40</td><td>9</td>" in page


def test_a_lease_tells_what_its_task_took(history: History) -> None:
    [first, _] = [line.text for line in explain(history, "a").history if line.kind == "END"]
    assert first == (
        "lease 1 of count round 1: counted, task 1.00 s of 1.50 s modelled, 0.40 s of the processor, held back 9 times"
    )


def test_a_report_says_what_held_job_code_as_agents_read_it_back(folder: Path) -> None:
    held = InForce(user=61184, namespaces=True, files=True, landlock=7, limits={"RLIMIT_CORE": 0})
    for name, found in {"a": held, "b": replace(held, user=61185), "c": InForce(readable=["/key"])}.items():
        (folder / "devices" / name).mkdir(parents=True, exist_ok=True)
        write_in_force(folder / "devices" / name / CONFINED, found)
    summary = build_report(folder)
    assert summary.emulation.confined == (
        "user, namespaces, files, Landlock 7, rlimits (2 programs)",
        "nothing, which is not enough (1 program)",
    )
    assert "confined by user, namespaces, files, Landlock 7, rlimits (2 programs)" in (folder / PAGE).read_text()
