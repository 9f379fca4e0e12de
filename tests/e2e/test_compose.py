"""``docker compose up`` on a real engine: to the report, and down to nothing."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import ASK_BROKER, GUARDED, ROOT, environment

pytestmark = [pytest.mark.e2e, pytest.mark.containers, pytest.mark.timeout(600)]
CALLER = 4321  # whom ./runs belongs to, where we may give it to somebody
PATIENCE_S = 300.0
IMAGE = os.environ.get("VENN_IMAGE") or "venn-testbed"


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout


def answers(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def exists(image: str) -> bool:
    return answers("docker", "image", "inspect", image)


@pytest.fixture(scope="module")
def compose() -> tuple[str, ...]:
    """The program, on an engine that has our image."""
    if not answers("docker", "version"):
        pytest.skip("no Docker Engine answers here")
    found: tuple[tuple[str, ...], ...] = (("docker", "compose"), ("docker-compose",))
    for program in found:
        if answers(*program, "version"):
            break
    else:
        pytest.skip("there is neither `docker compose` nor `docker-compose` here")
    offline = ["--offline"] if exists("venn-base") else []
    build = [sys.executable, str(ROOT / "containers" / "image.py"), "--tag", IMAGE, *offline]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return program


class Project:
    """One project of compose.yaml, with its runs in a folder of its own."""

    def __init__(self, compose: tuple[str, ...], runs: Path) -> None:
        self.name, self.runs = f"venn-test-{secrets.token_hex(4)}", runs
        self._command = [*compose, "--project-name", self.name, "--file", str(ROOT / "compose.yaml")]

    def run(self, *words: str) -> str:
        settings = {**environment(), "VENN_RUNS": str(self.runs), "VENN_IMAGE": IMAGE}
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, env=settings, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def containers(self, service: str = "") -> list[str]:
        filters = [f"label=com.docker.compose.project={self.name}"]
        filters += [f"label=com.docker.compose.service={service}"] if service else []
        return docker("ps", "-aq", *(word for each in filters for word in ("--filter", each))).split()

    def log(self, service: str) -> list[str]:
        (container,) = self.containers(service)
        done = subprocess.run(["docker", "logs", container], capture_output=True, text=True, check=True)
        return (done.stdout + done.stderr).splitlines()

    def reported(self) -> Path:
        """Waits for the run folder."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if any(line.startswith("report ") for line in self.log("testbed")):
                (folder,) = [path for path in self.runs.iterdir() if not path.name.startswith(".")]
                return folder
            time.sleep(1)
        raise AssertionError(f"no report after {PATIENCE_S:g} s:\n" + self.run("logs", "--tail=20"))


@pytest.fixture
def project(compose: tuple[str, ...], tmp_path: Path) -> Iterator[Project]:
    runs = tmp_path / "runs"
    runs.mkdir()
    tmp_path.chmod(0o755)
    if os.getuid() == 0:
        os.chown(runs, CALLER, CALLER)
    one = Project(compose, runs)
    try:
        yield one
    finally:
        one.run("down", "--timeout", "5")


def test_a_fleet_in_containers_trains_two_jobs_and_leaves_a_report(project: Project) -> None:
    project.run("up", "--detach")
    folder = project.reported()

    summary = json.loads((folder / "summary.json").read_text())
    assert {job["name"]: job["finished"] for job in summary["jobs"]} == {"handwriting": True, "tablet-pen": True}
    assert all(job["accuracy"] >= 0.90 for job in summary["jobs"])
    assert summary["responses_lost"] == 0
    assert summary["audit"]["findings"] == []
    assert all(one["held"] for one in summary["expectations"])
    assert summary["devices"] == 5

    owner = project.runs.stat().st_uid
    assert owner == (CALLER if os.getuid() == 0 else os.getuid())
    assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {owner}
    assert not (folder / "keys").exists()
    assert f"{folder.name}/report.html" in project.log("testbed")[-1]
    assert (folder / "report.html").is_file()

    limits = {(row["fleet"], row["key"]): row for row in summary["emulation"]["limits"]}
    assert limits["phone-low", "cores"]["read_back"] == 0.2
    assert all(row["means"] for row in limits.values())
    assert summary["emulation"]["degraded"] == [] or (os.cpu_count() or 1) < 2

    (device, *_) = project.containers("phone-low")
    own = [line.split() for line in docker("top", device, "-eo", "pid,uid,comm").splitlines()[1:]]
    assert {uid for _, uid, name in own if name != "docker-init"} == {"1000"}
    (coordinator,) = project.containers("coordinator")
    assert json.loads(docker("exec", coordinator, "venn", "status", "--json"))["jobs"]  # it goes on serving
    broker = ("broker", "1883", "/live/keys/broker")
    told = [int(word) for word in docker("exec", coordinator, "python", "-c", ASK_BROKER, *broker).split()]
    assert told == GUARDED

    project.run("down")
    assert project.containers() == []
    assert docker("network", "ls", "-q", "--filter", f"label=com.docker.compose.project={project.name}") == ""
    assert docker("volume", "ls", "-q", "--filter", f"label=com.docker.compose.project={project.name}") == ""
    assert [path.name for path in project.runs.iterdir()] == [folder.name]


def test_taken_down_early_devices_say_goodbye_and_what_there_was_is_reported(project: Project) -> None:
    project.run("up", "--detach", "--scale", "pi-4=1", "pi-4")
    journal, end = project.runs / ".live" / "events.jsonl", time.monotonic() + PATIENCE_S
    while not (journal.exists() and "DeviceCheckedIn" in journal.read_text()) and time.monotonic() < end:
        time.sleep(0.2)
    project.run("down")
    (folder,) = project.runs.iterdir()
    assert json.loads((folder / "run.json").read_text())["interrupted"] is True
    assert json.loads((folder / "summary.json").read_text())["sessions_by_end"] == {"goodbye_stopped": 1}
    assert (folder / "report.html").is_file()
