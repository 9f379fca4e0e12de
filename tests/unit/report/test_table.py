import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from coordinator.engine.model import Repeat
from coordinator.engine.requirements import AllDevices
from testbed.report.record import load_run
from testbed.report.result import print_summary
from testbed.report.summary import summarise
from testbed.report.words import job_lines, simulated_line, with_units
from testbed.runfolder.summary import EVERY_EVENT, Finding, Repeats, Simulated, Summary
from tests.unit.report.world import World


def printed(summary: Summary, *, width: int = 80, terminal: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    print_summary(summary, console, report="runs/x/report.html", following="venn compare x.yaml")
    assert console.width == width
    return file.getvalue()


@pytest.fixture
def summary(world: World, tmp_path: Path) -> Summary:
    for second in range(30):
        world.busy(second, 0.4)
    return summarise(load_run(world.write(tmp_path)))


def test_where_there_is_no_terminal_it_is_plain_and_whole(summary: Summary) -> None:
    said = printed(summary)
    assert "\x1b" not in said
    assert "…" not in said
    lines = said.splitlines()
    assert lines[0] == "by-hand   policy venn   seed 7   backend process   3 devices   finished in 29 s"
    assert lines[3].split() == ["wide", "1", "1", "25.0", "4.0", "16.0", "5.0", "0", "8.0", "0.920"]
    assert lines[5].split() == ["mean", "/", "total", "2", "2", "26.5", "4.0", "15.0", "7.5", "0", "12.0"]
    assert "leases     6 = 4 responses + 0 stragglers + 1 lost + 1 failed + 0 expired + 0 revoked" in lines
    assert "responses  4 acknowledged = 3 in rounds + 1 in aborted attempts + 0 lost; 0 counted twice" in lines
    assert any("1 ended in mid-task, 1 process killed" in line for line in lines)
    host = next(index for index, line in enumerate(lines) if line.startswith("host"))
    assert lines[host + 1].strip() == "figures can be trusted"
    assert max(map(len, lines)) <= 100
    assert any(line.split() == ["jobs.wide.accuracy", ">=", "0.90", "0.920", "ok"] for line in lines)
    assert lines[-2:] == ["report     runs/x/report.html", "next       venn compare x.yaml"]


@pytest.mark.parametrize(
    ("busy", "ended", "first", "then"),
    [
        (0.6, {}, "60 % busy at most, 50 % on average", "figures can be trusted"),
        (1.0, {}, "100 % busy at most (over 85 % for less than 5 s), 50 % on average", "figures can be trusted"),
        (0.6, {"interrupted": True}, "60 %", "not too busy, but the run was interrupted and its figures are partial"),
        (1.0, {"duration_s": 4.0}, "100 %", "the run was too short to judge, under 5 s"),
    ],
)
def test_whether_figures_can_be_trusted(
    summary: Summary, busy: float, ended: dict[str, Any], first: str, then: str
) -> None:
    host = replace(summary.host, cpu_max=busy, cpu_mean=0.5, saturated=False, reasons=())
    lines = printed(replace(summary, host=host, **ended)).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("host"))
    assert lines[at].startswith(f"host       {first}")
    assert lines[at + 1].strip() == then


def test_on_a_terminal_it_has_colours(summary: Summary) -> None:
    assert "\x1b[" in printed(summary, width=120, terminal=True)


def test_what_is_wrong_is_said(summary: Summary) -> None:
    finding = Finding("RESPONSE_LOST", "lease 3", "was acknowledged [bold]COUNTED[/bold]")
    audit = replace(summary.audit, findings=(finding,) * 7)
    host = replace(summary.host, saturated=True, reasons=("the processor was busy",))
    said = printed(replace(summary, audit=audit, host=host, unfinished_jobs=1))
    assert "audit      7 findings" in said
    assert "and 2 more, in the report" in said
    assert "[bold]COUNTED[/bold]" in said
    assert "TOO BUSY" in said
    assert "ended after" in said


def test_it_says_why_a_job_did_not_finish_and_what_the_machine_lacked(summary: Summary) -> None:
    wide = replace(summary.jobs[0], finished=False, message="aggregate failed: no")
    small = replace(summary.host, too_small=("this machine is too small",))
    lines = printed(replace(summary, jobs=(wide, *summary.jobs[1:]), host=small)).splitlines()
    assert "wide       aggregate failed: no" in lines
    assert "           this machine is too small" in lines


def test_a_job_that_lets_devices_count_again_says_how_often_that_was(tmp_path: Path) -> None:
    world = World()
    world.device("a")
    world.job(0.0, "wide", AllDevices(), label="any", demand=3, rounds=1, repeat=Repeat.ALLOW)
    world.check_in(1.0, "a")
    attempt = world.open(1.0, "wide", 1)
    for t in (2.0, 3.0, 4.0):
        world.respond(t + 0.5, world.lease(t, "a", attempt))
    summary = summarise(load_run(world.write(tmp_path)))
    assert summary.jobs[0].repeats == Repeats(2)
    told = "wide lets a device count several times in a round: "
    assert f"{told}2 responses in its rounds came from devices that count there already" in printed(summary, width=120)
    bulk = replace(summary, jobs=(replace(summary.jobs[0], repeats=Repeats(None)),))
    assert job_lines(bulk)[0].startswith(f"{told}it was not counted how many responses")
    assert not job_lines(replace(summary, jobs=(replace(summary.jobs[0], repeats=None),)))


def test_a_requirement_has_its_units() -> None:
    assert with_units("memory >= 4000000000 and cpu >= 7") == "memory >= 4 GB and cpu >= 7"
    assert with_units("not memory < 512000000 or free_memory > 3") == "not memory < 512 MB or free_memory > 3"
    assert with_units("roomy") == "roomy"


def test_how_a_simulation_went_is_told_where_it_may_surprise() -> None:
    went = Simulated(devices=9, path="bulk", why="", check_ins=933, plans=175, virtual_s=99.0, wall_s=0.2)
    ending = "1 min 39 s of virtual time in 0.2 s"
    assert simulated_line(went) == f"933 check-ins and 175 plans, in bulk: {ending}"
    journaled = replace(went, path="events", why=EVERY_EVENT)
    assert simulated_line(journaled) == f"933 check-ins and 175 plans: {ending}"
    slow = replace(went, path="events", why="links are modelled")
    assert simulated_line(slow) == f"933 check-ins and 175 plans, event by event (links are modelled): {ending}"
