"""Limits in force: the real programs, on what this machine can do. What it cannot is skipped, with the reason."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from device_agent.throttle import Throttle
from testbed.live.processes.programs import find_leftovers
from testbed.live.throttle import cgroup, tc
from testbed.live.throttle.means import CGROUP, NETEM, TC, probe
from testbed.world.limits import Limits, alike
from tests.e2e.programs import SPIN, lines, run, started, waited
from venn.wire.process import PREFIX, mark_of, own_mark

pytestmark = pytest.mark.e2e
SCENARIO = """\
version: 1
name: slow
policy: fifo
duration: 3m
jobs:
  spin: {{file: job.py, demand: 4, rounds: {rounds}, min_response: 100%, deadline: 60s}}
fleets:
  slow: {{count: 2, processes: 2, cores: 0.25, memory_limit: 512 MB, up: 4 Mbit/s, down: 4 Mbit/s, delay: 20ms}}
  shared: {{count: 2, up: 8 Mbit/s, delay: 10ms}}
"""


SEND = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as out:
    for number in range(300):
        out.sendto(str(number).encode(), (sys.argv[1], int(sys.argv[2])))
"""


def need(field: str, means: str) -> None:
    machine = probe()
    if not machine.can(field, means):
        pytest.skip(f"no {means} for {field} here: {machine.why_not(field)}")


def scenario(folder: Path, rounds: int) -> Path:
    (folder / "job.py").write_text(SPIN)
    (folder / "slow.yaml").write_text(SCENARIO.format(rounds=rounds))
    return folder / "slow.yaml"


def datagrams(end: socket.socket) -> Iterator[int]:
    """Until no more come."""
    with suppress(TimeoutError):
        while True:
            yield int(end.recv(100))


def of(mark: str) -> list[str]:
    return [f"{each.kind} {each.name}" for each in find_leftovers() if each.mark == mark]


def test_a_run_is_slowed_down_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with started(tmp_path, "run", str(scenario(tmp_path, 2)), "--out", str(out), "--json") as program:
        mark = mark_of(program.process.pid)
        program.process.wait(110)
    assert program.process.returncode == 0, program.err
    summary = json.loads(program.out)
    assert summary["unfinished_jobs"] == 0
    assert not summary["emulation"]["degraded"]
    machine = probe()
    held = {(each["fleet"], each["key"]): each for each in summary["emulation"]["limits"]}
    assert held["shared", "up"]["means"] == "relay"
    if machine.can("cpu", CGROUP):
        assert held["slow", "cores"]["read_back"] == pytest.approx(0.25)
    if machine.can("rate", TC):
        assert held["slow", "up"]["read_back"] == pytest.approx(4e6)
    rows = [row for path in out.glob("devices/slow-*/receipts.jsonl") for row in lines(path)]
    assert rows
    shares = [(row["compute_cpu_s"] / row["compute_s"], row["held_back"]) for row in rows]
    assert all(share < 0.35 for share, _ in shares)
    assert all(held_back > 0 or share < 0.25 for share, held_back in shares)  # a busy machine may give a task less
    [times] = [each for each in summary["emulation"]["tasks"] if each["fleet"] == "slow"]
    assert times["tasks"] == len(rows)
    assert times["compute_cpu_s"] < 0.35 * times["measured_s"]
    assert {"relay", "venn run", "coordinator"} <= summary["host"]["lag_p99_max_s"].keys()
    counts = json.loads((out / "links-counts.json").read_text())
    assert all(each["connections"] >= 2 for each in counts.values())
    assert mark is not None
    assert of(mark) == []


def test_what_a_killed_testbed_leaves_is_found_and_removed(tmp_path: Path) -> None:
    with started(tmp_path, "run", str(scenario(tmp_path, 500)), "--out", str(tmp_path / "run")) as program:
        mark = mark_of(program.process.pid)
        assert mark is not None
        waited(lambda: any("agent" in each for each in of(mark)), "the agents")
        os.kill(program.process.pid, signal.SIGKILL)
        program.process.wait()
    waited(lambda: not any(each.startswith("process") for each in of(mark)), "the end of its programs")
    left = of(mark)
    machine = probe()
    assert bool(left) == (machine.can("cpu", CGROUP) or machine.can("rate", TC))
    shown = run(tmp_path, "down", "--dry-run", "--of", mark, "--json")
    assert len(json.loads(shown.out)["removed"]) == len(left)
    for _ in range(2):
        assert run(tmp_path, "down", "--of", mark).process.returncode == 0
    assert of(mark) == []


def test_a_group_holds_a_process_to_its_quota() -> None:
    need("cpu", CGROUP)
    group = cgroup.make(probe().trees, own_mark(), "test", Limits(cores=0.2))
    try:
        held = Throttle(start_in=group.start_in, work_in=group.work_in)
        with subprocess.Popen([sys.executable, "-m", "testbed.bench.loads", "spin", "60"]) as process:
            held.slow_down(process.pid)
            try:
                waited(lambda: (held.held_back() or 0) > 0, "the kernel to hold it back")
            finally:
                process.kill()
        assert cgroup.cores_in_force(group.work_in) == pytest.approx(0.2)
    finally:
        for path in reversed(group.made):
            cgroup.remove(path)
    assert not any(path.exists() for path in group.made)


def test_a_group_kills_a_process_beyond_its_memory_from_its_birth() -> None:
    need("memory", CGROUP)
    group = cgroup.make(probe().trees, own_mark(), "test", Limits(memory_bytes=64 * 2**20))
    try:
        assert cgroup.memory_in_force(group.memory_of) == 64 * 2**20
        held = Throttle(start_in=group.start_in, work_in=group.work_in)
        codes = [
            subprocess.run(held.launch([sys.executable, "-c", f"bytearray({mib} * 2**20)"]), check=False).returncode
            for mib in (16, 256)
        ]
        assert codes == [0, -signal.SIGKILL]
    finally:
        for path in reversed(group.made):
            cgroup.remove(path)


def test_a_cable_is_shaped_at_both_ends_and_goes_with_its_namespace() -> None:
    need("rate", TC)
    made = tc.create_namespace(f"{PREFIX}{own_mark()}-test", f"vn{os.getpid()}t", os.getpid() * 61 + 7)
    try:
        tc.shape(made, Limits(up_bits=1e6, down_bits=5e6), netem=False)
        assert tc.in_force(made) == Limits(up_bits=1e6, down_bits=5e6)
    finally:
        tc.remove_namespace(made.name)
    assert not Path("/sys/class/net", made.interface).exists()


def test_netem_delays_loses_and_keeps_the_order_and_is_taken_off_again() -> None:
    need("loss", NETEM)
    made = tc.create_namespace(f"{PREFIX}{own_mark()}-test", f"vn{os.getpid()}t", os.getpid() * 61 + 7)
    try:
        rough = Limits(up_bits=5e6, down_bits=8e6, delay_s=0.04, jitter_s=0.03, loss=0.2)
        tc.shape(made, rough, netem=True)
        assert alike(tc.in_force(made), rough)
        with socket.socket(type=socket.SOCK_DGRAM) as end:
            end.bind((made.address, 0))
            end.settimeout(1.0)  # longer than any is under way
            to = (made.address, str(end.getsockname()[1]))
            subprocess.run([*made.enter, sys.executable, "-c", SEND, *to], check=True)
            came = list(datagrams(end))
        assert len(came) > 100
        assert came == sorted(came)
        sent = came[-1] - came[0] + 1  # the first ones may be lost while the addresses are resolved
        assert 0.65 * sent < len(came) < 0.95 * sent
        tc.shape(made, Limits(down_bits=8e6), netem=True)
        assert tc.in_force(made) == Limits(down_bits=8e6)
    finally:
        tc.remove_namespace(made.name)
