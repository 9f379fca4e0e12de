"""A run in containers, on a real Docker Engine; skipped, by name of what is missing, where there is none."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.live.throttle.means import NETEM, STALL
from tests.e2e.programs import ROOT, SPIN, lines, run, started, waited
from venn.wire.process import LABEL, mark_of

pytestmark = [pytest.mark.e2e, pytest.mark.containers, pytest.mark.timeout(240)]
SCENARIO = """\
version: 1
name: two-profiles
policy: fifo
backend: compose
duration: 3m
jobs:
  spin: {{file: job.py, demand: 4, rounds: {rounds}, min_response: 100%, deadline: 60s}}
fleets:
  slow: {{count: 2, profile: pi-zero-2, cores: 0.2, link: 3g}}
  fast: {{count: 2, profile: pi-4, cores: 0.4, link: ethernet}}
"""
# What a link is changed to in mid-run, and who hangs up; a loss, which a kernel without netem has a stall for.
BROKEN = """\
  lossy: {count: 1, loss: 2%}
churn:
  - {at: 1s, limit: all, delay: 800ms}
  - {at: 6s, disconnect: 1 of fast, for: 3s}
"""
SLOWED_S = 2 * 0.8  # a round at least: a model is fetched, and an update handed in


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    engine = pytest.importorskip("testbed.live.containers.engine", exc_type=ImportError)
    for each in engine.checks():
        if each.missing:
            pytest.skip(f"{each.name}: {each.missing}")
    connected = engine.connect()
    yield connected
    connected.close()


@pytest.fixture
def foreign(client: Any) -> Iterator[Any]:
    """A container that is not ours."""
    from testbed.live.containers.engine import image_name

    made = client.containers.run(image_name(), ["600"], entrypoint="sleep", detach=True, labels={"someone": "else"})
    yield made
    made.remove(force=True)


def scenario(folder: Path, rounds: int, more: str = "") -> Path:
    (folder / "job.py").write_text(SPIN)
    (folder / "two.yaml").write_text(SCENARIO.format(rounds=rounds) + more)
    return folder / "two.yaml"


def of(client: Any, mark: str) -> list[str]:
    """The names of the containers and networks of a testbed."""
    filters = {"label": f"{LABEL}={mark}"}
    found = [
        *client.containers.list(all=True, filters=filters, ignore_removed=True),
        *client.networks.list(filters=filters),
    ]
    return [each.name for each in found]


def test_two_profiles_run_to_their_end_in_containers_and_leave_nothing(client: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["--out", str(out), "--json", "--validate", "--allow-degraded"]
    with started(tmp_path, "run", str(scenario(tmp_path, 4, BROKEN)), *words) as program:
        mark = mark_of(program.process.pid)
        program.process.wait(150)
    assert program.process.returncode == 0, program.err
    assert mark is not None
    assert of(client, mark) == []
    summary = json.loads(program.out)
    assert (summary["unfinished_jobs"], summary["responses_lost"], summary["audit"]["findings"]) == (0, 0, [])
    held = {(each["fleet"], each["key"]): each for each in summary["emulation"]["limits"]}
    for fleet, key, value in (("slow", "cores", 0.2), ("fast", "cores", 0.4), ("slow", "memory_limit", 256e6)):
        assert held[fleet, key]["read_back"] == pytest.approx(value, rel=0.01)
    assert all(each["means"] for each in held.values())
    assert {key for fleet, key in held if fleet == "slow"} >= {"up", "down", "delay", "jitter"}
    stalls = held["lossy", "loss"]["means"] == STALL
    degraded = summary["emulation"]["degraded"]
    assert [each.partition("; ")[0] for each in degraded] == ["lossy-01: VENN_LOSS: 2% cannot be enforced"] * stalls
    assert stalls or held["lossy", "loss"]["means"] == NETEM
    injected = {each["name"]: each["observed"] for each in summary["injected"]}
    assert injected["limit"] == {"in_force": 5}
    assert injected["disconnect"].keys() <= {"connection_ended", "not_connected"}
    *_, last = lines(out / "jobs" / "spin" / "rounds.jsonl")
    assert last["ended_at"] - last["opened_at"] > SLOWED_S
    logs = [
        "coordinator.log",
        "jobs/spin/driver.log",
        *(f"devices/{name}/agent.log" for name in ("slow-01", "fast-02")),
    ]
    assert all((out / log).exists() for log in logs)
    assert not list(out.rglob("keys"))
    used = {row["part"]: row for row in lines(out / "containers.jsonl")}
    assert used.keys() == {"coordinator", "job spin", "slow-01", "slow-02", "fast-01", "fast-02", "lossy-01"}
    assert used["slow-01"]["throttled_periods"] > 0


def test_a_killed_testbed_leaves_containers_that_down_removes_and_no_others(
    client: Any, foreign: Any, tmp_path: Path
) -> None:
    with started(tmp_path, "run", str(scenario(tmp_path, 500)), "--out", str(tmp_path / "run")) as program:
        mark = mark_of(program.process.pid)
        assert mark is not None
        waited(lambda: len(of(client, mark)) == 7, "six containers and their network")
        spared = json.loads(run(tmp_path, "down", "--of", mark, "--json").out)["spared"]
        assert len(spared) >= 7
        os.kill(program.process.pid, signal.SIGKILL)
        program.process.wait()
    assert len(of(client, mark)) == 7
    shown = json.loads(run(tmp_path, "down", "--dry-run", "--of", mark, "--json").out)["removed"]
    assert sorted(each["name"] for each in shown if each["kind"] in ("container", "network")) == sorted(
        of(client, mark)
    )
    for _ in range(2):
        assert run(tmp_path, "down", "--of", mark).process.returncode == 0
    assert of(client, mark) == []
    foreign.reload()
    assert foreign.status == "running"


def test_ctrl_c_ends_with_a_report_and_leaves_nothing(client: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with started(tmp_path, "run", str(scenario(tmp_path, 500)), "--out", str(out)) as program:
        mark = mark_of(program.process.pid)
        assert mark is not None
        waited(lambda: len(client.containers.list(filters={"label": f"{LABEL}={mark}"})) == 6, "all to run")
        assert program.stop(signal.SIGINT) == 130
    assert of(client, mark) == []
    assert (out / "report.html").exists()
    assert json.loads((out / "run.json").read_text())["interrupted"] is True


@pytest.mark.timeout(600)
def test_a_storm_over_24_containers_breaks_no_invariant(client: Any, tmp_path: Path) -> None:
    storm = str(ROOT / "examples" / "stress" / "containers.yaml")
    with started(tmp_path, "run", storm, "--validate", "--json", "--out", str(tmp_path / "run")) as program:
        mark = mark_of(program.process.pid)
        program.process.wait(540)  # more than its own duration, and what a busy machine needs to start and to stop
    assert program.process.returncode == 0, program.err
    summary = json.loads(program.out)
    assert summary["devices"] == 24
    assert summary["audit"]["findings"] == []
    [cut] = [each["observed"] for each in summary["injected"] if each["name"] == "disconnect"]
    assert "silent" not in cut  # who is disconnected hangs up, and is heard
    assert mark is not None
    assert of(client, mark) == []


def test_what_is_missing_is_one_line_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docker")
    out = tmp_path / "run"
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    program = run(tmp_path, "run", str(scenario(tmp_path, 1)), "--out", str(out), "--json")
    assert program.process.returncode == 3
    assert json.loads(program.out)["error"]["reason"] == "ENGINE"
    assert not out.exists()
