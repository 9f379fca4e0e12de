"""What profiles give to fleets, and where limits are refused."""

from pathlib import Path

import pytest

from testbed.scenario import Scenario, ScenarioError
from testbed.scenario.loader import parse

JOB = """\
import numpy as np
from job_driver import Job, Result

job = Job(initial=lambda rng: {"w": np.zeros(3)}, on_device=lambda model, task: Result(dict(model)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "mine.yaml").write_text("extends: pi-4\ncores: 0.1\n")
    return tmp_path


def scenario(folder: Path, fleet: str, *more: str) -> Scenario:
    job = "{file: job.py, demand: 1, rounds: 1, deadline: 9s}"
    lines = ["version: 1", "name: small", *more, "jobs:", f"  only: {job}", "fleets:", f"  some: {{{fleet}}}"]
    return parse("\n".join(lines), folder=folder)


def test_a_process_for_each_device_gets_all_of_a_profile(folder: Path) -> None:
    fleet = scenario(folder, "count: 2, processes: 2, profile: phone-low").fleets["some"]
    assert (fleet.cores, fleet.memory_limit, fleet.up, fleet.delay) == (0.2, 750_000_000, 768_000.0, 0.3)
    assert fleet.cpu.mean == 2.4


def test_devices_that_share_a_process_get_what_can_be_enforced(folder: Path) -> None:
    fleet = scenario(folder, "count: 2, profile: phone-low").fleets["some"]
    assert (fleet.cores, fleet.memory_limit, fleet.up) == (None, None, 768_000.0)


def test_a_simulation_takes_the_capabilities_and_the_link(folder: Path) -> None:
    fleet = scenario(folder, "count: 2, processes: 2, profile: phone-low", "backend: sim").fleets["some"]
    assert (fleet.cores, fleet.memory_limit, fleet.up, fleet.delay) == (None, None, 768_000.0, 0.3)
    assert fleet.cpu.mean == 2.4


def test_what_the_fleet_says_goes_before_its_link_and_that_before_its_profile(folder: Path) -> None:
    fleet = scenario(folder, "count: 1, profile: mine.yaml, link: 3g, up: 1 Mbit/s, cpu: 1..4").fleets["some"]
    assert (fleet.cores, fleet.up, fleet.down) == (0.1, 1e6, 1.6e6)
    assert str(fleet.cpu) == "1..4"


def test_what_all_devices_have_goes_before_a_profile(folder: Path) -> None:
    fleet = scenario(folder, "count: 1, profile: pi-4", "every_device: {cores: 0.5}").fleets["some"]
    assert fleet.cores == 0.5


def test_it_is_the_same_when_it_was_written_out(folder: Path) -> None:
    first = scenario(folder, "count: 2, processes: 2, profile: mine.yaml, link: lte, loss: 1.5%")
    assert parse(first.dump(), folder=Path("/")) == first


@pytest.mark.parametrize(
    ("fleet", "more", "message"),
    [
        ("count: 2, cores: 0.5", "backend: sim", "fleets.some.cores: has no effect with backend: sim"),
        ("count: 2, memory_limit: 1 GB", "backend: sim", "fleets.some.memory_limit: has no effect with backend: sim"),
        ("count: 2, up: 1 Mbit/s", "time_scale: 0.5", "fleets.some.up: is not scaled, and time_scale is not 1"),
        ("count: 2, loss: 1%", "seed: 1", "fleets.some.loss: needs a process for each device"),
        ("count: 2, memory_limit: 1 GB", "seed: 1", "fleets.some.memory_limit: needs a process for each device"),
        ("count: 2, profile: none.yaml", "seed: 1", "fleets.some.profile: cannot be read"),
    ],
)
def test_limits_without_effect_are_refused(folder: Path, fleet: str, more: str, message: str) -> None:
    with pytest.raises(ScenarioError) as told:
        scenario(folder, fleet, more)
    assert message in str(told.value)
    assert told.value.fix
