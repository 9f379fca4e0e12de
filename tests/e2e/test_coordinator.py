"""``venn coordinator`` as people start it."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
PATIENCE_S = 30


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "testbed.cli.main", "coordinator", "--keys", str(folder / "keys"), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VENN_")}
    with subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_says_where_it_listens_and_stops_cleanly_on_sigterm(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with started(tmp_path, "--listen", "127.0.0.1:0", "--dir", str(run), "--seed", "7", "--json") as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["pid"] == process.pid
        host, port = ready["listening"].split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S):
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert (lines[0]["kind"], lines[0]["settings"]["seed"], lines[0]["incarnation"]) == (
        "start",
        7,
        ready["incarnation"],
    )
    assert lines[-1]["kind"] == "end"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--listen", "0.0.0.0:0"), "NOT_LOOPBACK"),
        (("--listen", "here"), "ADDRESS"),
        (("--listen", "127.0.0.1:0", "--policy", "vann"), "POLICY"),
        (("--listen", "127.0.0.1:0", "--heartbeat", "soon"), None),
        (("--listen", "127.0.0.1:0", "--nonsense"), "USAGE"),
        (("--listen", "127.0.0.1:0", "--dir", "/proc/nowhere"), "FILE"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(tmp_path: Path, arguments: tuple[str, ...], reason: str | None) -> None:
    with started(tmp_path, *arguments, "--json") as process:
        out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "Traceback" not in errors
    said = json.loads(out)["error"]
    assert said["message"]
    assert reason in (None, said["reason"])


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with started(tmp_path, "--listen", address, "--json") as process:
            out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    said = json.loads(out)["error"]
    assert (said["reason"], said["where"]) == ("PORT_IN_USE", address)
