"""`venn agent`, `venn swarm` and `venn agent doctor` as people start them, before a scripted coordinator."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from device_agent import cli, swarm_cli
from tests.integration.agent.scripted import Coordinator, Driver, serving
from tests.integration.gate import write_keys
from venn.v1 import device_pb2 as device
from venn.wire.keys import new_key


class Place:
    """Where commands find a coordinator and its key."""

    def __init__(self, coordinator: Coordinator, address: str, folder: Path) -> None:
        self.coordinator, self.folder = coordinator, folder
        self.to = ["--coordinator", address, "--keys", str(folder / "keys")]
        self._started: list[asyncio.subprocess.Process] = []

    async def start(self, command: str, *flags: str) -> asyncio.subprocess.Process:
        arguments = (sys.executable, "-m", "testbed.cli.main", *command.split(), *self.to, *flags)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*arguments, stdout=pipe, stderr=pipe)
        self._started.append(process)
        return process

    async def close(self) -> None:
        for process in self._started:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    write_keys(tmp_path / "keys")
    coordinator = Coordinator()
    async with serving(coordinator, Driver()) as address:
        place = Place(coordinator, address, tmp_path)
        yield place
        await place.close()


def events(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_an_agent_joins_and_leaves_with_a_goodbye_when_it_is_stopped(place: Place) -> None:
    flags = ["--name", "pi", "--cpu", "2", "--memory", "4 GB", "--os", "6", "--label", "site=lab"]
    agent = await place.start("agent", *flags, "--dir", str(place.folder / "pi"))
    stream = await place.coordinator.stream()
    check_in = await stream.welcome()
    assert check_in.device == "pi"
    assert dict(check_in.capabilities.numbers) == {"cpu": 2.0, "memory": 4e9, "os": 6.0}
    assert "numpy" in check_in.capabilities.labels["package"].values
    assert agent.stderr is not None
    assert "job code is confined by: " in (await agent.stderr.readline()).decode()
    joined = (await agent.stderr.readline()).decode()
    assert f'joined the coordinator at {place.to[1]} device=pi cpu=2 memory="4 GB" os=6 site=lab' in joined
    agent.send_signal(signal.SIGTERM)
    assert (await stream.hear("goodbye")).reason == device.GOODBYE_REASON_STOPPED
    _, said = await agent.communicate()
    assert agent.returncode == 143
    assert events(place.folder / "pi" / "sessions.jsonl")[-1]["how"] == "stopped"
    assert said.decode().endswith(" leaves device=pi why=stopped\n")


async def test_a_crash_is_a_sigkill_of_the_process_after_it_was_written_down(place: Place) -> None:
    folder = place.folder / "pi"
    trace = place.folder / "trace.csv"
    flags = ["--name", "pi", "--cpu", "2", "--trace", str(trace), "--crash", "100%", "--crash-kills"]
    trace.write_text("device,start_s,end_s\npi,0,3\n")
    agent = await place.start("agent", *flags, "--dir", str(folder))
    stream = await place.coordinator.stream()
    await stream.welcome()
    await stream.hear("end")
    assert await agent.wait() == -signal.SIGKILL
    assert events(folder / "sessions.jsonl")[-1]["how"] == "crash"


async def test_a_swarm_plays_every_device_over_a_connection_of_its_own(place: Place) -> None:
    trace = place.folder / "trace.csv"
    rows = "".join(f"s-{number:02},0,3\n" for number in range(1, 6))
    trace.write_text(f"device,start_s,end_s\n{rows}")
    flags = ["--count", "5", "--name", "s", "--cpu", "1..4", "--memory", "2 GB..8 GB", "--trace", str(trace), "--json"]
    swarm = await place.start("swarm", *flags)
    streams = [await place.coordinator.stream() for _ in range(5)]
    check_ins = [await stream.welcome() for stream in streams]
    assert sorted(check_in.device for check_in in check_ins) == [f"s-{number:02}" for number in range(1, 6)]
    assert len({check_in.instance for check_in in check_ins}) == 5
    assert len({stream._context.peer() for stream in streams}) == 5
    assert all(1 <= check_in.capabilities.numbers["cpu"] <= 4 for check_in in check_ins)
    for stream in streams:
        await stream.hear("goodbye")
    out, said = await swarm.communicate()
    assert swarm.returncode == 0
    assert json.loads(out) == {"devices": 5, "tasks": 0, "late": 0}
    assert b"joined" not in said  # of many it would be a flood


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--patience", "0s"], 4, "coordinator at 127.0.0.1:9: it does not answer"),
        (["--keys", "nowhere"], 2, "no device key"),
        (["--coordinator", "nowhere"], 2, "is no address"),
        (["--name", "a b"], 2, "is not a device name"),
        (["--session", "soon"], 2, "soon"),
        (["--crash", "130%"], 2, "crash 1.3 is not between 0 and 1"),
        (["--from", "nothing"], 2, "names no device"),
        (["--allow-code", "nothing.py"], 2, "neither a digest nor a file"),
        (["--data", "digits"], 2, "is not NAME=VALUE"),
        (["--trace", "none.csv"], 2, "cannot be read"),
    ],
)
def test_what_cannot_be_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, words: str
) -> None:
    keys = write_keys(tmp_path / "keys")
    fixed = ["--coordinator", "127.0.0.1:9", "--keys", str(keys), "--name", "pi", "--cpu", "1", "-q"]
    assert cli.main([*fixed, "--memory", "1 GB", "--os", "1", *argv]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert words in lines[0]


@pytest.mark.parametrize("command", ["agent --name pi --cpu 1", "swarm --name s --count 3"])
async def test_a_key_that_the_coordinator_does_not_know_ends_the_command(place: Place, command: str) -> None:
    (place.folder / "keys" / "device.key").write_bytes(new_key().pem())
    process = await place.start(command, "-q")
    _, error = await process.communicate()
    assert process.returncode == 4
    [line] = error.decode().splitlines()
    assert "the coordinator does not know this key; name the folder with the coordinator's keys: --keys DIR" in line


async def test_another_version_ends_the_command(place: Place) -> None:
    async def refuse() -> None:  # each time: now and then gRPC says INTERNAL instead, and the agent dials again
        while True:
            (await place.coordinator.stream()).end(grpc.StatusCode.FAILED_PRECONDITION, "VERSION")

    refusing = asyncio.create_task(refuse())
    agent = await place.start("agent", "--name", "pi", "--cpu", "1", "--json", "-q")
    out, _ = await agent.communicate()
    refusing.cancel()
    assert agent.returncode == 4
    assert json.loads(out)["error"]["reason"] == "VERSION"
    assert "same version" in json.loads(out)["error"]["fix"]


def test_a_swarm_says_which_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert swarm_cli.main([]) == 2
    assert "one of --from, --count and --fleet" in capsys.readouterr().err
    assert swarm_cli.main(["--count", "0"]) == 2


class Fleets:
    """What the testbed declares, when it is installed."""

    @staticmethod
    def load() -> Callable[[str, Path], Path]:
        def population(reference: str, folder: Path) -> Path:
            path = folder / "population.jsonl"
            path.write_text(reference)
            return path

        return population


def test_a_fleet_is_read_by_the_testbed_if_it_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("device_agent.swarm_cli.metadata.entry_points", lambda group: [])
    assert swarm_cli.main(["--fleet", "three-jobs.yaml:budget"]) == 2
    assert "needs the testbed" in capsys.readouterr().err
    monkeypatch.setattr("device_agent.swarm_cli.metadata.entry_points", lambda group: [Fleets])
    assert swarm_cli.main(["--fleet", "three-jobs.yaml:budget", "--dir", str(tmp_path)]) == 2
    assert f"{tmp_path / 'population.jsonl'}:1: is not a device" in capsys.readouterr().err


async def test_the_doctor_passes_a_machine_that_can_join(place: Place) -> None:
    process = await place.start("agent doctor", "--json")
    stream = await place.coordinator.stream()
    check_in = await stream.hear("check_in")
    assert check_in.device == ""
    stream.end(grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
    out, _ = await process.communicate()
    said = json.loads(out)
    assert process.returncode == 0, said
    assert [check["name"] for check in said["checks"]] == [
        "machine",
        "worker",
        "confined",
        "data",
        "code",
        "coordinator",
    ]


def test_the_doctor_says_how_to_fix_what_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--keys", str(tmp_path), "--data", "digits=/nowhere.npz"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["PASSED", "machine"],
        ["PASSED", "worker"],
        ["PASSED", "confined"],
        ["FAILED", "data"],
        ["PASSED", "code"],
        ["FAILED", "coordinator"],
    ]
    assert "venn data split" in lines[3]
    assert "--keys DIR" in lines[5]
