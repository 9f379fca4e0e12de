"""``venn run``: to its end, stopped at any time, and with parts that die."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import QUICK, Started, left, lines, run, started, waited

pytestmark = pytest.mark.e2e


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def running(tmp_path: Path, out: Path) -> Iterator[Started]:
    """The quick scenario, under way."""
    faster = ["--set", "every_job.workload.compute=2s", "--set", "jobs.handwriting.rounds=4"]
    with started(tmp_path, "run", str(QUICK), "--out", str(out), "--json", "--validate", *faster) as program:
        yield program


def in_mid_run(program: Started, out: Path) -> None:
    """Until a round has closed and the next is open."""

    def closed() -> bool:
        assert program.process.poll() is None, program.out + program.err
        return bool(lines(out / "jobs" / "handwriting" / "rounds.jsonl"))

    waited(closed, "a round")


def test_the_quick_scenario_runs_to_its_end_and_can_be_replayed(running: Started, out: Path, tmp_path: Path) -> None:
    assert running.end() == 0, running.err
    said = running.said()
    assert said["folder"] == str(out)
    assert {key: value for key, value in said.items() if key != "folder"} == json.loads(
        (out / "summary.json").read_text()
    )
    jobs = {job["name"]: job for job in said["jobs"]}
    assert all({"name", "finished", "rounds", "accuracy", "jct_s"} <= job.keys() for job in said["jobs"])
    assert [(name, job["finished"], job["rounds"]) for name, job in sorted(jobs.items())] == [
        ("handwriting", True, 4),
        ("label-count", True, 4),
    ]
    assert jobs["handwriting"]["accuracy"] > 0.8
    assert jobs["handwriting"]["jct_s"] > 0
    assert (said["unfinished_jobs"], said["devices"], said["policy"]) == (0, 12, "venn")
    assert said["responses_acknowledged"] >= 4 * 5 + 4 * 3
    assert (said["responses_lost"], said["audit"]["findings"]) == (0, [])
    assert said["devices_lost_in_task"] >= 0
    assert not (out / "keys").exists()
    assert (out / "report.html").read_text().rstrip().endswith("</html>")
    replayed = run(tmp_path, "replay", str(out), "--json")
    assert replayed.process.returncode == 0, replayed.err
    assert replayed.said()["digest"] == said["digest"]


def test_stopped_in_mid_run_it_leaves_no_process_and_a_partial_report(running: Started, out: Path) -> None:
    in_mid_run(running, out)
    family = running.family()
    assert len(family) >= 5  # itself, coordinator, two drivers, swarm; and workers
    assert running.stop(signal.SIGINT) == 130
    assert left(family, place=out) == []
    said = running.said()
    assert said["interrupted"] is True
    assert (said["responses_lost"], said["audit"]["findings"]) == (0, [])
    assert said["jobs"][0]["rounds"] >= 1
    assert "partial report" in (Path(said["folder"]) / "report.html").read_text()
    assert json.loads((out / "summary.json").read_text())["interrupted"] is True


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a program of its supervisor's end")
def test_killed_in_mid_run_its_programs_end_with_it(running: Started, out: Path) -> None:
    in_mid_run(running, out)
    family = running.family()
    running.process.kill()
    running.process.wait()
    waited(lambda: not left(family, place=out), "the end of its programs")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_before_its_clock_has_started_it_reports_and_says_where(
    tmp_path: Path, out: Path, number: int, code: int
) -> None:
    with started(tmp_path, "run", str(QUICK), "--out", str(out)) as program:
        waited((out / "jobs" / "label-count" / "driver.log").exists, "the drivers")
        family = program.family()
        assert program.stop(number) == code
    assert left(family, place=out) == []
    assert f"report     {out.relative_to(tmp_path)}/report.html\n" in program.out
    assert "interrupted after" in program.out
    assert (out / "report.html").exists()


def test_stopped_while_it_prepares_nothing_is_left(tmp_path: Path, out: Path) -> None:
    with started(tmp_path, "run", str(QUICK), "--out", str(out), "--json") as program:
        waited(out.exists, "its folder")
        assert program.stop(signal.SIGINT) == 130
    assert left([], place=out) == []
    assert not out.exists()
    assert program.said()["error"]["reason"] == "STOPPED"


def test_a_driver_killed_in_mid_round_takes_up_its_job_and_loses_nothing(running: Started, out: Path) -> None:
    in_mid_run(running, out)
    running.child("job", "handwriting").kill()
    assert running.end() == 0, running.err
    said = running.said()
    assert (said["unfinished_jobs"], said["responses_lost"], said["audit"]["findings"]) == (0, 0, [])
    assert "the driver of handwriting was killed by SIGKILL: another one continues its job" in running.err


@pytest.mark.parametrize("part", ["coordinator", "swarm"])
def test_a_part_without_which_nothing_goes_on_ends_the_run(running: Started, out: Path, part: str) -> None:
    in_mid_run(running, out)
    family = running.family()
    running.child(part).kill()
    assert running.end() == 4
    assert left(family, place=out) == []
    said = running.said()
    assert said["error"]["message"] == "was killed by SIGKILL"
    assert said["error"]["where"] == part
    assert said["error"]["fix"].startswith("see ")
    assert (said["responses_lost"], said["interrupted"]) == (0, True)  # and a report of what was recorded
    assert (out / "report.html").exists()


def test_a_policy_that_fails_ends_the_run_with_the_plan_that_did_it(tmp_path: Path, out: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("class Bad:\n    name = 'bad'\n\n    def plan(self, view):\n        raise ValueError('no idea')\n")
    with started(tmp_path, "run", str(QUICK), "--out", str(out), "--json", "--policy", f"{file}:Bad") as program:
        assert program.end() == 2
    told = program.said()["error"]
    assert told["message"].startswith("coordinator: failed in plan 1, at ")
    assert told["message"].endswith(": ValueError: no idea")
    assert (told["where"], told["fix"]) == (f"{file}:Bad", "correct it, or take another policy")
    assert (out / "report.html").exists()
