"""The parts by hand, as in docs/by-hand.md."""

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.programs import ROOT, lines, run, started, waited

pytestmark = pytest.mark.e2e
DIGITS = str(ROOT / "examples" / "digits.py")


def test_coordinator_devices_and_jobs_by_hand(tmp_path: Path) -> None:
    keys = ["--keys", str(tmp_path / "keys")]
    shares = tmp_path / "digits"
    with ExitStack() as stack:
        coordinator = stack.enter_context(
            started(tmp_path, "coordinator", "--listen", "127.0.0.1:0", "--dir", "run", *keys, "--validate", "--json")
        )
        split = run(
            tmp_path, "data", "split", "sklearn-digits", "--devices", "8", "--split", "dirichlet(3.0)",
            "--held-out", "20%", "--seed", "7", "--out", str(shares),
        )  # fmt: skip
        assert split.process.returncode == 0, split.err
        waited(lambda: coordinator.out.endswith("\n"), "the coordinator")
        to = ["--coordinator", json.loads(coordinator.out)["listening"], *keys]
        devices = ["--allow-code", DIGITS, *to]
        trusting = ["--trust-owner", str(tmp_path / "keys" / "job.key"), *to]  # whatever its owner has signed
        agents = [
            stack.enter_context(
                started(tmp_path, "agent", "--name", f"mine-{number}", "--data", f"digits={share}", *trusting)
            )
            for number, share in enumerate(sorted(shares.glob("share-*"))[:2])
        ]
        swarm = stack.enter_context(
            started(tmp_path, "swarm", "--count", "8", "--name", "some", "--cpu", "2..8", "--memory", "4 GB",
                    "--session", "exp(20s)", "--gap", "exp(1s)", "--data", f"digits={shares}", *devices)
        )  # fmt: skip

        def known() -> bool:
            listed = run(tmp_path, "device", "list", *to, "--json")
            return listed.process.returncode == 0 and len(listed.said()["devices"]) >= 8

        waited(known, "the devices")
        job = ["job", "run", DIGITS, "--data", "digits", "--held-out", str(shares / "held_out.npz"),
               "--param", "epochs=40", "--deadline", "30s", *to]  # fmt: skip
        done = run(tmp_path, *job, "--name", "first", "--demand", "4", "--rounds", "3", "--json")
        assert done.process.returncode == 0, done.err
        assert done.said()["finished"] is True
        assert done.said()["metrics"]["accuracy"] > 0.7

        endless = stack.enter_context(
            started(tmp_path, *job, "--name", "second", "--demand", "4", "--rounds", "1000000", "--dir", "second")
        )
        waited(lambda: lines(tmp_path / "second" / "rounds.jsonl"), "a round of the second job")
        status = run(tmp_path, "status", *to, "--json")
        assert [job["key"]["name"] for job in status.said()["jobs"]] == ["first", "second"]
        assert "second" in run(tmp_path, "status", *to).out
        explained = run(tmp_path, "explain", "second", *to)
        assert explained.process.returncode == 0
        assert "OPENED" in explained.out
        assert run(tmp_path, "explain", "mine-0", *to, "--json").said()["subject"] == "mine-0"
        listed = {job["name"]: job["phase"] for job in run(tmp_path, "job", "list", *to, "--json").said()["jobs"]}
        assert listed["first"] == "finished"
        assert listed["second"] in ("filling", "collecting", "aggregating")
        assert run(tmp_path, "job", "wait", "first", *to).process.returncode == 0

        waited(lambda: any("is working on a task" in agent.err for agent in agents), "a device that trusts the owner")
        cancelled = run(tmp_path, "job", "cancel", "second", *to)
        assert cancelled.process.returncode == 0, cancelled.err
        assert endless.end() == 1
        assert "cancelled" in endless.err.splitlines()[-1]
        assert run(tmp_path, "job", "wait", "second", *to).process.returncode == 1

        for device in (*agents, swarm):
            assert device.stop(signal.SIGTERM) == 143, device.err
        assert coordinator.stop(signal.SIGTERM) == 143, coordinator.err
    record = tmp_path / "run"
    assert lines(record / "events.jsonl")[-1]["kind"] == "end"
    replayed = run(tmp_path, "replay", str(record), "--json")
    assert (replayed.process.returncode, replayed.said()["same"]) == (0, True)
