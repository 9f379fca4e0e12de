"""Whole runs of the smallest packaged scenario: to the end, interrupted, and with a part killed in the middle."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.e2e
PATIENCE_S = 90
KEYS = {"name", "finished", "rounds", "accuracy", "jct_s"}


class Run:
    """``venn run quick`` as a child process, and what it leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VENN_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "testbed.cli.main", "run", "quick", "--out", str(folder), "--json"],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, "it takes too long"
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def until_leases(self) -> None:
        """Until devices are at work."""
        journal = self.folder / "events.jsonl"
        self.until(lambda: journal.exists() and '["RunLease"' in journal.read_text())

    def parts(self, word: str = "") -> list[psutil.Process]:
        """Processes of this run but ``venn run`` itself, with ``word`` in their command."""
        found = []
        for process in psutil.process_iter(["pid", "cmdline"]):
            words = process.info["cmdline"] or []
            ours = any(str(self.folder) in one for one in words) and process.pid != self.process.pid
            if ours and (not word or word in words):
                found.append(process)
        return found

    def end(self) -> tuple[int, dict[str, object], str]:
        """Exit code, the JSON object it printed, and what it said beside."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, json.loads(out) if out else {}, err

    def summary(self) -> dict[str, object]:
        return dict(json.loads((self.folder / "summary.json").read_text()))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    running = Run(tmp_path / "run")
    yield running
    left = running.parts()
    running.process.kill()
    running.process.communicate()
    for process in left:
        process.kill()
    assert not left, "a run leaves no process"


def test_to_the_end(run: Run) -> None:
    code, summary, said = run.end()
    assert code == 0, said
    assert all(set(job) >= KEYS and job["finished"] for job in summary["jobs"])  # type: ignore[attr-defined]
    assert summary["unfinished_jobs"] == summary["responses_lost"] == summary["responses_counted_twice"] == 0
    assert summary["audit"]["findings"] == []  # type: ignore[index]
    assert (run.folder / "report.html").stat().st_size > 10_000
    assert not (run.folder / "tokens").exists()
    replay = [sys.executable, "-m", "testbed.cli.main", "replay", str(run.folder), "--json"]
    replayed = subprocess.run(replay, capture_output=True, text=True, check=True)
    assert json.loads(replayed.stdout)["digest"] == summary["digest"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_in_the_middle(run: Run, number: int, code: int) -> None:
    run.until_leases()
    run.process.send_signal(number)
    assert run.end()[0] == code
    assert run.summary()["interrupted"] is True
    assert run.summary()["responses_lost"] == 0
    assert (run.folder / "report.html").exists()


def test_interrupted_at_the_start(run: Run) -> None:
    run.until(lambda: run.parts("coordinator"))
    run.process.send_signal(signal.SIGINT)
    assert run.end()[0] == 130


def test_a_driver_that_is_killed_takes_its_job_up_again(run: Run) -> None:
    run.until_leases()
    (driver,) = [part for part in run.parts("job") if "handwriting" in part.cmdline()]
    driver.kill()
    code, summary, said = run.end()
    assert code == 0, said
    assert "takes up its job" in said
    assert summary["unfinished_jobs"] == summary["responses_lost"] == summary["responses_counted_twice"] == 0
    assert summary["audit"]["findings"] == []  # type: ignore[index]


@pytest.mark.parametrize("part", ["coordinator", "swarm"])
def test_a_part_that_dies_ends_the_run_with_its_name(run: Run, part: str) -> None:
    run.until_leases()
    run.parts(part)[0].kill()
    code, printed, said = run.end()
    assert code == 4
    assert part in f"{printed} {said}"
    assert "Traceback" not in said
