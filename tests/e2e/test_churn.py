"""A timeline on real processes: each way to go gives its own reason, in time, and nothing is left standing still."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from testbed.live.backend.broker import find_programs
from tests.e2e.programs import ASK_BROKER, GUARDED, Started, left, lines, run, started, waited
from venn.wire.errors import VennError

pytestmark = pytest.mark.e2e

SCENARIO = """
version: 1
name: reasons
seed: 3
duration: 26s
jobs:
  # all devices are in mid-task
  endless: {file: job.py, demand: 50, repeat: allow, rounds: 1, deadline: 60s, workload: {compute: 1h}}
fleets:
  swarm: {count: 8}
  alone: {count: 3, processes: 3}
  linked: {count: 2, up: 50 Mbit/s}     # their links can be cut, which they know nothing of
churn:
  - {at: 2s, leave: 2 of swarm}
  - {at: 2s, disconnect: 2 of swarm, for: 4s}
  - {at: 3s, partition: 2 of swarm}
  - {at: 3s, partition: 2 of linked}
  - {at: 3s, crash: 1 of alone}
  - {at: 4s, suspend: 2 of alone, for: 21s}
expect:
  - unfinished_jobs == 1
  - injected.leave.observed.goodbye_session_over == 2
  - injected.disconnect.observed.connection_ended == 2
  - injected.crash.observed.connection_ended == 1
  - injected.partition.observed.silent == 4
  - injected.suspend.observed.silent == 2
"""
JOB = """
import numpy as np
from job_driver import Job, Result

job = Job(initial=lambda rng: {"w": np.zeros(3)}, on_device=lambda model, task: Result(dict(model)))
"""
LIVENESS_S = 10.0


def test_each_way_to_go_has_its_own_reason(tmp_path: Path) -> None:
    (tmp_path / "reasons.yaml").write_text(SCENARIO)
    (tmp_path / "job.py").write_text(JOB)
    out = tmp_path / "run"
    with started(tmp_path, "run", "reasons.yaml", "--out", str(out), "--json", "--validate") as program:
        family = program.family()
        code = program.end()
        said = program.said()
        assert {each["expect"]: each["got"] for each in said["expectations"] if not each["held"]} == {}
        assert code == 0, program.err
    assert left(family, place=out) == []
    assert all(each["slowest_s"] <= 2 * LIVENESS_S for each in said["injected"])
    rows = lines(out / "churn.jsonl")
    assert [row["verb"] for row in rows].count("suspend") == 2
    killed = next(row["target"] for row in rows if row["verb"] == "crash")
    begun = [row for row in lines(out / "devices" / str(killed) / "sessions.jsonl") if row["event"] == "start"]
    assert len(begun) == 2  # it was started again


RESTARTED = """
version: 1
name: restarted
seed: 3
duration: 60s
every_job: {file: job.py, deadline: 20s}
jobs:
  whole: {demand: 4, rounds: 8, min_response: 100%, workload: {compute: 700ms}}
  buffered: {demand: 4, rounds: 8, buffer: 2, workload: {compute: 500ms}}
fleets:
  swarm: {count: 10}
churn:
  - {at: 2s, crash: coordinator, for: 1s}      # tasks are done meanwhile, and answered
  - {at: 2500ms, crash: driver whole}
  - {at: 7s, crash: coordinator}
expect:
  - responses_lost == 0
  - responses_counted_twice == 0
  - injected.crash.observed.restarted == 2
"""


def test_a_coordinator_that_is_killed_in_mid_round_loses_no_job_and_no_response(tmp_path: Path) -> None:
    (tmp_path / "restarted.yaml").write_text(RESTARTED)
    (tmp_path / "job.py").write_text(JOB)
    out = tmp_path / "run"
    program = run(tmp_path, "run", "restarted.yaml", "--out", str(out), "--json", "--validate")
    said = program.said()
    assert program.process.returncode == 0, program.err
    assert said["audit"]["findings"] == []
    assert said["responses_in_aborted"] == 0  # each attempt goes on
    assert [job["aborts"] for job in said["jobs"]] == [0, 0]
    assert said["leases"]["revoked"] <= 3  # at most those that the buffered job no longer wanted when it ended
    assert said["sessions_by_end"]["coordinator_restarted"] > 0
    assert [path.name for path in out.glob("events*")] == ["events.jsonl"]
    replayed = run(tmp_path, "replay", str(out), "--json")
    assert replayed.said()["same"]
    assert replayed.said()["digest"] == said["digest"]
    assert left([], place=out) == []


LINKS = """
version: 1
name: links
duration: 60s
jobs:
  one: {file: job.py, demand: 3, rounds: 5, min_response: 100%, deadline: 30s, workload: {compute: 500ms}}
fleets:
  shared: {count: 2, up: 20 Mbit/s}
  alone: {count: 1, processes: 1}
churn:
  - {at: 1500ms, limit: all, up: 400 kbit/s}
  - {at: 3s, disconnect: 1 of shared, for: 1s}
expect:
  - injected.limit.observed.in_force == 3
  - injected.disconnect.observed.connection_ended == 1
  - responses_lost == 0
"""
LARGE = JOB.replace("np.zeros(3)", "np.zeros(10_000)")  # 80 kB, which take 1.6 s at 400 kbit/s


def test_a_link_that_is_changed_in_mid_run_is_as_slow_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "links.yaml").write_text(LINKS)
    (tmp_path / "job.py").write_text(LARGE)
    out = tmp_path / "run"
    program = run(tmp_path, "run", "links.yaml", "--out", str(out), "--json")
    assert program.process.returncode == 0, program.err
    changed = [row for row in lines(out / "churn.jsonl") if row["verb"] == "limit"]
    assert [row["link"] for row in changed] == [{"up": "400 kbit/s"}] * 3
    since = max(row["at"] for row in changed)
    after = [row for row in lines(out / "jobs" / "one" / "rounds.jsonl") if row["opened_at"] > since]
    assert after
    assert all(row["ended_at"] - row["opened_at"] > 1.6 * 0.9 for row in after)
    assert left([], place=out) == []


BROKER = """
version: 1
name: broker
duration: 60s
jobs:
  endless: {file: job.py, demand: 2, rounds: 1, deadline: 60s, workload: {compute: 1h}}
fleets:
  swarm: {count: 2}
churn:
  - {at: 1s, crash: broker}
"""


def test_a_broker_that_is_killed_is_there_again_and_lets_in_nobody_else(tmp_path: Path) -> None:
    try:
        find_programs()
    except VennError as error:
        pytest.skip(str(error))
    (tmp_path / "broker.yaml").write_text(BROKER)
    (tmp_path / "job.py").write_text(JOB)
    out = tmp_path / "run"
    with started(tmp_path, "run", "broker.yaml", "--out", str(out)) as program:
        waited(lambda: lines(out / "churn.jsonl"), "the end of the first")
        waited(lambda: brokers(program), "the one that is started again")
        family = program.family()
        _, port, host = (out / "keys" / "broker.conf").read_text().splitlines()[0].split()
        ask = [sys.executable, "-c", ASK_BROKER, host, port, str(out / "keys" / "broker")]
        told = waited(lambda: subprocess.run(ask, capture_output=True, text=True, check=False).stdout, "an answer")
        assert [int(word) for word in told.split()] == GUARDED
        assert program.stop(signal.SIGINT) == 130, program.err
    assert left(family, place=out) == []
    assert not (out / "keys").exists()


def brokers(program: Started) -> list[int]:
    found = []
    for process in program.family():
        with suppress(psutil.Error):
            [program_file] = process.cmdline()[:1] or [""]  # none for a moment of its exec
            found += [process.pid] * program_file.endswith("mosquitto")
    return found
