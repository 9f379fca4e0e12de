"""A driver that crashes is started again, with its checkpoint; one that ends has ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from job_driver.supervised import MOST_CRASHES, STEADY_S, supervise, this_command
from venn.wire.errors import ExitCode

# Notes how it was started, then ends as the first line of the plan that is left says.
DRIVER = """
import os, sys
plan, notes = sys.argv[1:3]
open(notes, "a").write(" ".join(sys.argv[3:]) + "\\n")
how, *rest = open(plan).read().split()
open(plan, "w").write(" ".join(rest))
if how == "kill":
    os.kill(os.getpid(), 9)
sys.exit(int(how))
"""


class Bench:
    def __init__(self, place: Path, plan: str) -> None:
        self.waits: list[float] = []
        self.now, self.lives_s = 0.0, 0.0
        (place / "driver.py").write_text(DRIVER)
        (place / "plan").write_text(plan)
        self.notes = place / "notes"
        self.command = [sys.executable, str(place / "driver.py"), str(place / "plan"), str(self.notes), "--dir", "x"]

    def clock(self) -> float:
        self.now += self.lives_s / 2
        return self.now

    def run(self) -> int:
        return supervise(self.command, wait=self.waits.append, clock=self.clock)

    def started(self) -> list[str]:
        return self.notes.read_text().splitlines()


def test_a_driver_that_is_killed_is_started_again_from_its_checkpoint(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "kill kill 0")
    assert bench.run() == ExitCode.OK
    assert bench.started() == ["--dir x", "--dir x --resume", "--dir x --resume"]
    assert bench.waits == [0.5, 1.0]


@pytest.mark.parametrize("code", [0, 1, 2, 4])
def test_a_driver_that_ends_is_not_started_again(tmp_path: Path, code: int) -> None:
    bench = Bench(tmp_path, f"{code}")
    assert bench.run() == code
    assert len(bench.started()) == 1


def test_a_bug_is_a_crash(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "70 0")
    assert (bench.run(), len(bench.started())) == (0, 2)


def test_one_that_crashes_at_its_start_again_and_again_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "kill " * 50)
    assert bench.run() == ExitCode.BUG
    assert len(bench.started()) == MOST_CRASHES
    assert bench.waits[-1] == 30.0


def test_one_that_was_steady_begins_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "kill " * (MOST_CRASHES + 5) + "0")
    bench.lives_s = 2 * STEADY_S
    assert bench.run() == ExitCode.OK
    assert set(bench.waits) == {0.5}


def test_the_command_is_its_own_with_the_name_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["venn", "job", "run", "job.py", "--supervised", "--dir", "d"])
    assert this_command("r1")[1:] == ["venn", "job", "run", "job.py", "--dir", "d", "--run", "r1"]
    monkeypatch.setattr(sys, "argv", ["venn", "job", "run", "job.py", "--supervised", "--dir", "d", "--resume"])
    assert this_command("r1")[1:] == ["venn", "job", "run", "job.py", "--dir", "d", "--resume"]


def test_what_stops_the_supervisor_stops_the_driver(tmp_path: Path) -> None:
    waits = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(143))\nprint('up', flush=True)\nsignal.pause()"
    supervisor = "from job_driver.supervised import supervise\nsys.exit(supervise([sys.executable, '-c', sys.argv[1]]))"
    code = f"import sys\n{supervisor}"
    process = subprocess.Popen([sys.executable, "-c", code, waits], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(30) == 143
    process.stdout.close()
