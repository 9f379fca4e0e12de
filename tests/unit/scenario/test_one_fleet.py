"""One fleet of a scenario by itself."""

import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from device_agent.spec import read_population
from testbed.scenario import ScenarioError, load
from testbed.scenario.one_fleet import fleet_population
from testbed.world.fleets import expand

TEXT = """\
version: 1
name: small
data: {mine: {source: mine.npz, held_out: 10%}}
jobs: {count: {file: job.py, data: mine, demand: 1, rounds: 2, deadline: 5s}}
fleets: {slow: {count: 3, cpu: 1..2}, fast: {count: 2, cpu: 2..3}}
"""


@pytest.fixture
def file(folder: Path) -> Path:
    (folder / "job.py").write_text("job = 1\n")
    np.savez(folder / "mine.npz", x=np.arange(40), y=np.arange(40) % 2)
    (folder / "small.yaml").write_text(TEXT)
    return folder / "small.yaml"


def test_its_devices_are_those_of_a_run(file: Path) -> None:
    devices = read_population(fleet_population("small.yaml:fast", Path("kept")))
    scenario = load(file)
    data = {"mine": [Path("x")] * 5}
    run = expand(scenario.fleet_specs(), seed=scenario.seed, time_scale=1.0, data=data)[3:]
    assert [(device.device, device.numbers) for device in devices] == [
        (device.device, device.numbers) for device in run
    ]
    assert [device.data["mine"].name for device in devices] == ["share-0004.npz", "share-0005.npz"]
    assert all(device.data["mine"].is_file() for device in devices)


def test_the_same_scenario_is_split_once_and_another_one_anew(file: Path) -> None:
    first = fleet_population("small.yaml:fast", Path("kept"))
    share = read_population(first)[0].data["mine"]
    written = share.stat().st_mtime_ns
    assert fleet_population("small.yaml:fast", Path("kept")) == first
    assert fleet_population("small.yaml:slow", Path("kept")) == first.with_name("slow.jsonl")
    assert share.stat().st_mtime_ns == written
    file.write_text(TEXT + "seed: 8\n")
    assert fleet_population("small.yaml:fast", Path("kept")).parent != first.parent


def test_a_start_that_was_stopped_half_way_is_begun_again(file: Path) -> None:
    first = fleet_population("small.yaml:fast", Path("kept"))
    first.unlink()
    assert len(read_population(fleet_population("small.yaml:fast", Path("kept")))) == 2


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("small.yaml", "--fleet small.yaml: is not SCENARIO:FLEET; write e.g. quick.yaml:small"),
        ("small.yaml:fats", "--fleet small.yaml:fats: there is no fleet 'fats' in small.yaml; did you mean fast?"),
        ("none.yaml:fast", "none.yaml: no such file; `venn scenario list`"),
    ],
)
def test_mistakes(file: Path, reference: str, told: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        fleet_population(reference, Path("kept"))
    assert str(caught.value).startswith(told)


def test_agents_find_it() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["venn.fleets"]["scenario"].partition(":")
    assert getattr(import_module(module), name) is fleet_population
