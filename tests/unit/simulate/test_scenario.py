"""A scenario in virtual time: its folder, its table, and how it ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.policies.fifo import Fifo
from testbed.cli.main import main
from testbed.report.replay import replay
from testbed.report.result import Result, build_report
from testbed.scenario import load
from testbed.scenario.loader import parse
from testbed.simulate.build import build
from testbed.simulate.compiled.compiled import COMPILES
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Progress
from testbed.simulate.run import COMPILING
from testbed.simulate.run import scenario as virtual
from testbed.simulate.run.scenario import Watching
from testbed.testing.worlds import Session, job, world
from tests.unit.report.pages import check_page
from venn.wire.errors import UsageError

SMALL = """
version: 1
name: small
seed: 5
backend: sim
policy: fifo
requirements: {big: cpu >= 4}
jobs:
  late: {demand: 2, rounds: 2, deadline: 20s, arrives: 8s, requirement: big, workload: {compute: 3s}}
  soon: {demand: 2, max_rounds: 3, deadline: 10s, workload: {compute: 2s}}
every_device: {session: exp(8s), gap: exp(4s), crash: 30%}
fleets:
  plain: {count: 4, cpu: 2}
  fine: {count: 3, cpu: 4..8}
expect:
  - jobs.soon.jct_s < 100
  - jobs.soon.accuracy >= 0.9
"""


def simulated(tmp_path: Path, text: str = SMALL, *overrides: tuple[str, str]) -> Result:
    for before, after in overrides:
        assert before in text
        text = text.replace(before, after)
    result, stopped_by = virtual.run_simulated(parse(text), out=tmp_path / "run", quiet=True, command=["venn", "run"])
    assert stopped_by == 0
    return result


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return simulated(tmp_path_factory.mktemp("small"))


def test_a_small_run_leaves_what_a_live_one_does(small: Result) -> None:
    result = small
    summary, folder = result.summary, result.folder.root
    assert result.exit_code == 0
    assert (summary.backend, summary.devices, summary.unfinished_jobs) == ("sim", 7, 0)
    assert [job.name for job in summary.jobs] == ["soon", "late"]
    assert [job.rounds for job in summary.jobs] == [3, 2]
    assert summary.leases.adds_up
    assert summary.audit.findings == ()
    assert summary.responses_in_rounds == 2 * 3 + 2 * 2
    names = {"events.jsonl", "scenario.yaml", "run.json", "summary.json", "devices"}
    assert {path.name for path in folder.iterdir()} == names
    about = json.loads((folder / "run.json").read_text())
    assert about["simulated"]["path"] in ("bulk", "events")
    assert about["command"] == ["venn", "run"]
    assert load(folder / "scenario.yaml").backend == "sim"


def test_what_is_not_measured_is_not_judged(small: Result) -> None:
    judged = {one.expect: (one.held, one.judged) for one in small.summary.expectations}
    assert judged["jobs.soon.jct_s < 100"] == (True, True)
    assert judged["jobs.soon.accuracy >= 0.9"] == (False, False)


@pytest.mark.skipif(not COMPILES, reason="Numba is not installed, or switched off")
@pytest.mark.parametrize("ready", [False, True])
def test_that_it_compiles_is_said_while_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ready: bool
) -> None:
    monkeypatch.setattr(virtual, "journaled", lambda simulation: False)
    monkeypatch.setattr("testbed.simulate.run.FEW_CHECK_INS", 0)
    monkeypatch.setattr("testbed.simulate.compiled.compiled.is_compiled", lambda function: ready)
    virtual.run_simulated(parse(SMALL), out=tmp_path / "run")
    assert (COMPILING in capsys.readouterr().err) is not ready


def test_an_expectation_that_fails(tmp_path: Path) -> None:
    assert simulated(tmp_path, SMALL, ("jct_s < 100", "jct_s < 1")).exit_code == 1


def test_the_same_again(small: Result) -> None:
    replayed = replay(small.folder.root)
    assert replayed.same
    assert replayed.digest == small.summary.digest == simulate_events(build(parse(SMALL)), Fifo()).digest


def test_the_report_is_drawn_when_it_is_asked_for(small: Result, tmp_path: Path) -> None:
    folder = shutil.copytree(small.folder.root, tmp_path / "copy")
    assert build_report(folder) == small.summary
    assert "late" in (folder / "report.html").read_text()
    assert any((folder / "figures").iterdir())


def test_a_simulation_does_not_wait_for_what_draws(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    program = (
        "import sys\nfrom testbed.cli.main import main\n"
        "code = main(['run', 'small.yaml', '--out', 'run'])\n"
        "print('LOADED', *sys.modules)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table, _, loaded = done.stdout.rpartition("LOADED")
    assert "report     venn report run\n" in table
    assert not {"matplotlib", "jinja2", "numba", "scipy"} & set(loaded.split())


def test_explain_reads_it(small: Result, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "late", "--run", str(small.folder.root)]) == 0
    assert "devices of 7 could serve it" in capsys.readouterr().out


@pytest.mark.parametrize("least", [0, 5])
def test_a_large_run_keeps_its_attempts_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], least: int, small: Result
) -> None:
    """0: seen before it starts; 5: only when so many have checked in."""
    whole = small.summary
    monkeypatch.setattr(virtual, "MOST_JOURNALED", least or 1)
    monkeypatch.setattr(virtual, "journaled", lambda simulation: bool(least))
    monkeypatch.setattr("testbed.simulate.events.loop._LOOK_UP_EVERY", 1)
    result = simulated(tmp_path)
    summary, folder = result.summary, result.folder.root
    assert not (folder / "events.jsonl").exists()
    assert (folder / "rounds.csv").read_text().count("\n") == 1 + sum(job.rounds + job.aborts for job in summary.jobs)
    assert summary.digest == whole.digest
    assert summary.leases == whole.leases
    assert summary.sessions == whole.sessions
    for mine, theirs in zip(summary.jobs, whole.jobs, strict=True):
        assert (mine.name, mine.requirement, mine.rounds, mine.aborts) == (
            theirs.name,
            theirs.requirement,
            theirs.rounds,
            theirs.aborts,
        )
        for figure in ("jct_s", "delay_s", "collect_s", "arrived_s", "wasted_device_s"):
            assert getattr(mine, figure) == pytest.approx(getattr(theirs, figure), abs=1e-6)
    assert build_report(folder) == summary
    assert "once more" not in capsys.readouterr().err  # it is quiet
    page = (folder / "report.html").read_text()
    check_page(page)
    assert "late" in page
    with pytest.raises(UsageError, match="no events are recorded there") as caught:
        replay(folder)
    assert "smaller --scale" in caught.value.fix


def test_what_a_timeline_did_in_a_large_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums without a journal, each action with one."""
    timeline = ("fine: {count: 3", "plain2: {count: 5, cpu: 1}\n  fine: {count: 3")
    churn = (
        "expect:",
        "churn: [{at: 1s, leave: 2 of plain2}, {at: 2s, crash: driver soon}, {at: 9m, leave: plain2}]\nexpect:",
    )
    whole = simulated(tmp_path / "whole", SMALL, timeline, churn)
    monkeypatch.setattr(virtual, "journaled", lambda simulation: False)
    result = simulated(tmp_path, SMALL, timeline, churn)
    told = [(one.name, one.actions, one.observed) for one in result.summary.injected]
    assert told == [("leave", 2, {}), ("crash", 1, {})]
    assert [(one.name, one.actions) for one in whole.summary.injected] == [("leave", 2), ("crash", 1)]
    assert sum(whole.summary.injected[0].observed.values()) == 2
    assert (whole.folder.root / "churn.jsonl").exists()
    assert not (result.folder.root / "churn.jsonl").exists()
    assert build_report(result.folder.root) == result.summary


def test_jobs_that_do_not_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = simulated(tmp_path, SMALL, ("seed: 5", "seed: 5\nduration: 8100ms"))
    assert result.exit_code == 1
    assert result.summary.unfinished_jobs == 1
    said = capsys.readouterr().err
    assert "gave up after 8100ms: job late was unfinished; raise duration" in said


def test_sessions_that_end_too_early() -> None:
    made = world([job("x/a/y", 3, compute=1.0), job("x/b/y", 1, compute=1.0)], [Session(0, 30, 0), Session(5, 40, 1)])
    made = replace(made, tasks_per_session=1)
    told = virtual.unfinished(made, simulate_events(made, Fifo()), stopped=False)
    assert told == [
        "the last session ended at 6s: jobs a, b were unfinished: no device was left",
        "job b was never given a device",
    ]
    assert virtual.unfinished(made, simulate_events(made, Fifo()), stopped=True) == []


def test_a_policy_that_fails_is_told_with_its_plan(tmp_path: Path) -> None:
    policy = tmp_path / "bad.py"
    policy.write_text("class Bad:\n    name = 'bad'\n    def plan(self, view):\n        return {}[view.plan_number]\n")
    with pytest.raises(UsageError, match=r"failed in plan 1, at 0\.000 s, open requests: 1: KeyError: 1"):
        simulated(tmp_path, SMALL, ("policy: fifo", f"policy: {policy}:Bad"))
    assert not (tmp_path / "run").exists()


BAD_PLANS = """
from coordinator.engine.plan import Plan

def queue(view):
    return tuple(request.request for request in view.requests)

class Nothing:
    name = "nothing"
    def plan(self, view):
        return None

class Owner:
    name = "owner"
    def plan(self, view):
        return Plan((queue(view),), {0: 1})

class Twice:
    name = "twice"
    def plan(self, view):
        return Plan((queue(view), queue(view)))

class Lists:  # the plan before would change with it
    name = "lists"
    queues = []
    def plan(self, view):
        self.queues[:] = [queue(view)]
        return Plan(self.queues)

class Past:
    name = "past"
    def plan(self, view):
        return Plan((queue(view),), review_at=view.now)

class Letters:
    name = "letters"
    def plan(self, view):
        return Plan((queue(view),), review_at="soon")

class Idle:
    name = "idle"
    def plan(self, view):
        return Plan()
"""


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("Nothing", "plan 1 of policy nothing at 0.000 s: it is of type NoneType, not a Plan"),
        ("Owner", "plan 1 of policy owner at 0.000 s: owner names a queue that is not a whole number from 0 to 0"),
        ("Twice", "a request is in its queues twice"),
        ("Lists", "plan 1 of policy lists at 0.000 s: its queues are not a tuple of tuples"),
        ("Past", "plan 1 of policy past at 0.000 s: review_at is 0.0; it is None, or a time after 0.0"),
        ("Letters", "plan 1 of policy letters at 0.000 s: review_at is 'soon'; it is None"),
        ("Idle", "broke an invariant with plan "),
    ],
)
def test_a_plan_that_cannot_be_followed_ends_the_run_and_is_named(tmp_path: Path, policy: str, told: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(BAD_PLANS)
    scenario = parse(SMALL.replace("policy: fifo", f"policy: {file}:{policy}"))
    with pytest.raises(UsageError, match=told) as raised:
        virtual.run_simulated(scenario, out=tmp_path / "run", quiet=True, validate=True)
    assert str(file) in raised.value.where


def test_a_signal_stops_it_with_a_partial_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.simulate.events.loop._LOOK_UP_EVERY", 1)
    looked = Watching.__call__

    def interrupted(self: Watching, progress: Progress) -> bool:
        if progress.check_ins == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return looked(self, progress)

    monkeypatch.setattr(Watching, "__call__", interrupted)
    result, stopped_by = virtual.run_simulated(parse(SMALL), out=tmp_path / "run", quiet=True)
    assert stopped_by == signal.SIGTERM
    assert result.summary.interrupted
    assert result.summary.sessions == 5
    assert (result.folder.root / "summary.json").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL.replace("backend: sim", "backend: process"))
    flags = ["small.yaml", "--backend", "sim", "--policy", "srsf", "--set", "seed=9"]
    assert main(["run", *flags, "--out", "a", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["backend"], said["policy"], said["seed"], said["folder"]) == ("sim", "srsf", 9, str(tmp_path / "a"))
    assert said["simulated"]["path"] in ("bulk", "events")
    assert main(["run", *flags, "--out", "b"]) == 0
    table = capsys.readouterr().out
    assert "not measured in a simulation" in table
    following = "venn compare small.yaml --policies random,fifo,srsf-job,venn --set seed=9 --backend sim"
    assert table.splitlines()[-1] == f"next       {following}"
    assert main(["run", "quick", "--set", "churn=[]", "--scale", "0.5", "--seed", "3", "--backend", "sim"]) in (0, 1)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split()[1:] == [
        *("venn", "compare", "quick", "--policies", "random,fifo,srsf-job,venn", "--set", "'churn=[]'"),
        *("--backend", "sim", "--set", "seed=3", "--scale", "0.5"),
    ]
    assert said["digest"] in table
    assert main(["run", *flags, "--out", "a"]) == 2
    assert "is not an empty folder" in capsys.readouterr().err


def test_links_change(tmp_path: Path) -> None:
    churn = """churn:
  - {at: 2s, limit: all, up: 1 Mbit/s}
  - {at: 3s, leave: 1 of plain, for: 5s}
expect:
  - injected.limit.observed.in_force == 7
"""
    result = simulated(tmp_path, SMALL, ("expect:\n", churn))
    about = json.loads((result.folder.root / "run.json").read_text())
    assert about["warnings"] == []
    assert [one.name for one in result.summary.injected] == ["limit", "leave"]
    assert result.exit_code == 0


BROKEN = """churn:
  - {at: 1s, crash: coordinator, for: 1500ms}
  - {at: 3s, crash: driver soon, for: 1s}
  - {at: 5s, suspend: driver soon, for: 1s}
  - {at: 6s, crash: coordinator}
  - {at: 7s, suspend: coordinator, for: 1s}
  - {at: 7s, crash: broker}
expect:
  - injected.crash.actions == 4
  - injected.crash.observed.restarted == 2
  - injected.crash.observed.driver_lost == 1
  - injected.crash.observed.nothing == 1
  - injected.suspend.observed.nothing == 2
"""


def test_programs_break(tmp_path: Path) -> None:
    result = simulated(tmp_path, SMALL, ("expect:\n", BROKEN))
    folder = result.folder.root
    assert json.loads((folder / "run.json").read_text())["warnings"] == []
    assert [one.expect for one in result.summary.expectations if one.judged and not one.held] == []
    assert sum(one.judged for one in result.summary.expectations) == 7
    assert {path.name for path in folder.glob("events*")} == {"events.jsonl"}
    assert len((folder / "churn.jsonl").read_text().splitlines()) == 6
    assert result.summary.audit.findings == ()
    assert sum(job.aborts for job in result.summary.jobs) == 0
    assert replay(folder).same
    assert build_report(folder) == result.summary


def test_programs_break_without_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulated(tmp_path / "whole", SMALL, ("expect:\n", BROKEN)).summary
    monkeypatch.setattr(virtual, "journaled", lambda simulation: False)
    result = simulated(tmp_path, SMALL, ("expect:\n", BROKEN))
    summary, folder = result.summary, result.folder.root
    assert json.loads((folder / "run.json").read_text())["simulated"]["path"] == "events"
    assert not list(folder.glob("events*"))
    for figure in ("digest", "leases", "sessions", "responses_acknowledged", "responses_in_aborted"):
        assert getattr(summary, figure) == getattr(whole, figure)
    for mine, theirs in zip(summary.jobs, whole.jobs, strict=True):
        assert (mine.rounds, mine.aborts) == (theirs.rounds, theirs.aborts)
        assert mine.wasted_device_s == pytest.approx(theirs.wasted_device_s, abs=1e-6)
