"""A small scenario on disk, and programs that only pretend to be ours."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from testbed.live import supervisor
from testbed.live.processes import backend, programs
from testbed.runfolder.paths import RunFolder
from testbed.scenario import Scenario, load

SCENARIO = """\
version: 1
name: small
seed: 7
policy: venn
duration: 30s
time_scale: 0.5
requirements: {roomy: memory >= 4 GB}
data:
  marks: {source: marks.npz, split: iid, held_out: 20%}
every_job: {file: job.py, deadline: 8s, workload: {compute: 3s}}
jobs:
  wide: {demand: 3, rounds: 2, data: marks, params: {epochs: 40, fast: true, name: a b}}
  narrow: {requirement: roomy, demand: 1, over_commit: 100%, max_rounds: 4, lease: 6s, arrives: 1s,
           stragglers: revoke, deterministic: true}
every_device: {session: 8s, gap: 4s}
fleets:
  phones: {count: 5, cpu: 2, memory: 2 GB}
  bench: {count: 2, cpu: 4, memory: 8 GB, processes: 2}
"""
JOB = """\
import numpy as np
from job_driver import Job, Result

job = Job(initial=lambda rng: {"w": np.zeros(3)}, on_device=lambda model, task: Result(dict(model)))
"""
# What each of our programs does is told by a file, named by its command and, for a driver, its job's name.
PRETENDER = """\
import json, os, signal, sys, time
from pathlib import Path

arguments, place = sys.argv[1:], Path(__file__).parent
name = arguments[arguments.index("--name") + 1] if arguments[0] == "job" else arguments[0]
with open(place / "started", "a") as started:
    started.write(json.dumps(arguments) + "\\n")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
plan = json.loads((place / "plan.json").read_text()).get(name, {})
for act in (plan.get("resumed", plan) if "--resume" in arguments else plan).get("do", ["wait"]):
    match act:
        case "announce":
            print(json.dumps({"listening": "127.0.0.1:1", "pid": os.getpid()}), flush=True)
        case "wait":
            while True:
                time.sleep(1)
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case ["say", text]:
            print(text, flush=True)
        case ["log", text]:
            print(text, file=sys.stderr, flush=True)
        case ["until", path]:
            while not (place / path).exists():
                time.sleep(0.01)
        case ["die", number]:
            os.kill(os.getpid(), number)
        case ["exit", code]:
            sys.exit(code)
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "marks.npz", x=rng.normal(size=(60, 2)), y=np.arange(60) % 3)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "small.yaml").write_text(SCENARIO)
    return load(tmp_path / "small.yaml")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    root = tmp_path / "run"
    root.mkdir()
    return RunFolder(root)


class Stage:
    """Where the pretenders act."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def plan(self, **acts: list[object] | dict[str, object]) -> None:
        """What each program does, by its name; those that are not named wait until they are stopped."""
        parts = {name: act if isinstance(act, dict) else {"do": act} for name, act in acts.items()}
        (self.place / "plan.json").write_text(json.dumps(parts))

    def started(self) -> list[list[str]]:
        """The arguments of every program that was started."""
        path = self.place / "started"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def signal(self, name: str) -> None:
        """Let those who wait for it go on."""
        (self.place / name).touch()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    place = tmp_path / "stage"
    place.mkdir()
    (place / "pretender.py").write_text(PRETENDER)
    monkeypatch.setattr(programs, "VENN", (sys.executable, "-S", str(place / "pretender.py")))
    monkeypatch.setattr(supervisor, "FIRST_START_S", 0.0)
    monkeypatch.setattr(backend.Processes, "start_cost_s", lambda self, others, one_s: 0.0)
    made = Stage(place)
    made.plan(coordinator=["announce", "wait"])
    return made


async def until(condition: Callable[[], object]) -> None:
    """Until it is true; a test has no limit but that of pytest."""
    while not condition():  # noqa: ASYNC110 - what is waited for is on disk, or in another process
        await asyncio.sleep(0.005)


def lives(group: int) -> bool:
    """Whether anything of a process group is left, but for what only waits to be buried."""
    for process in psutil.process_iter(["pid", "status"]):
        try:
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                return True
        except ProcessLookupError:
            continue
    return False
