"""The command lines of a run's programs: what a user would write by hand, with the time scale in it once."""

from pathlib import Path

import pytest

from job_driver.cli import _value
from testbed import Scenario
from testbed.live import commands
from testbed.live.folder import RunFolder
from testbed.live.prepare import DeviceHost, prepare

SCENARIO = """
version: 1
name: two
seed: 7
time_scale: 0.5
jobs:
  count:
    file: count.py
    demand: 4
    min_response: 80%
    over_commit: 50%
    deadline: 30s
    lease: 20s
    arrives: 6s
    rounds: 3
    workload: {compute: 4s}
    params: {epochs: 40, rate: 0.5, fast: true, code: "007"}
fleets:
  phones: {count: 6, cpu: 2, session: exp(8s), gap: exp(4s)}
  bench: {count: 2, cpu: 2, processes: 2}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    (tmp_path / "count.py").write_text("job = Job()")
    (tmp_path / "two.yaml").write_text(SCENARIO)
    return Scenario.load(tmp_path / "two.yaml")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    root = tmp_path / "run"
    root.mkdir()
    return RunFolder(root)


def flag(words: list[str], name: str) -> str:
    assert words.count(name) == 1
    return words[words.index(name) + 1]


def test_a_driver_is_told_scaled_times(scenario: Scenario, folder: RunFolder) -> None:
    words = commands.job("count", scenario, folder, to="127.0.0.1:1", run="r", held_out=None, epoch=1000.0)
    assert flag(words, "--deadline") == "15s"
    assert flag(words, "--lease") == "10s"
    assert flag(words, "--compute") == "2s"
    assert flag(words, "--start-at") == "1003.000"
    assert flag(words, "--min-response") == "80%"
    assert flag(words, "--over-commit") == "50%"
    assert flag(words, "--rounds") == "3"
    assert "--max-rounds" not in words
    assert "--data" not in words


def test_a_parameter_keeps_its_kind(scenario: Scenario, folder: RunFolder) -> None:
    words = commands.job("count", scenario, folder, to="127.0.0.1:1", run="r", held_out=None, epoch=0.0)
    given = [words[index + 1].partition("=") for index, word in enumerate(words) if word == "--param"]
    assert {name: _value(text) for name, _, text in given} == scenario.jobs["count"].params
    assert _value("007") == 7  # as a user writes a number


def test_a_population_is_scaled_and_hosted_as_the_fleets_say(scenario: Scenario, folder: RunFolder) -> None:
    prepared = prepare(scenario, folder)
    assert [(host.name, len(host.devices), host.single) for host in prepared.hosts] == [
        ("swarm", 6, False),
        ("bench-01", 1, True),
        ("bench-02", 1, True),
    ]
    assert {device.session for device in prepared.hosts[0].devices} == {"exp(4s)"}
    assert {device.session for device in prepared.hosts[1].devices} == {None}


def test_one_device_with_a_process_of_its_own_is_an_agent_that_a_crash_kills(
    scenario: Scenario, folder: RunFolder
) -> None:
    swarm, alone, _ = prepare(scenario, folder).hosts

    def words(host: DeviceHost) -> list[str]:
        return commands.devices(host, scenario, folder, to="127.0.0.1:1", epoch=1000.0)

    assert words(alone)[0] == "agent"
    assert flag(words(alone), "--from").endswith(":bench-01")
    assert {"--crash-kills", "--model-time"} <= set(words(alone))
    assert words(swarm)[0] == "swarm"
    assert flag(words(swarm), "--allow-code").endswith("count.py")


def test_a_driver_is_resumed_once(scenario: Scenario, folder: RunFolder) -> None:
    words = commands.job("count", scenario, folder, to="127.0.0.1:1", run="r", held_out=None, epoch=0.0)
    again = commands.resumed(words)
    assert again == [*words, "--resume"]
    assert commands.resumed(again) == again
