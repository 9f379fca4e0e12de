"""Scripts: from a seed, written down, read again."""

from pathlib import Path

import pytest

from testbed.chaos.script import COORDINATOR, Kind, generate, read
from venn.wire.errors import UsageError


def test_a_seed_gives_the_same_script_and_another_seed_another() -> None:
    assert generate(7) == generate(7)
    assert generate(7) != generate(8)


def test_every_kind_of_fault_comes_up() -> None:
    kinds = {fault.kind for seed in range(40) for fault in generate(seed).faults}
    assert kinds == set(Kind)


def test_a_job_asks_for_no_more_devices_than_can_serve_it() -> None:
    for seed in range(100):
        script = generate(seed)
        for job in script.jobs:
            assert 1 <= job.demand <= sum(device.size >= job.size for device in script.devices)


def test_faults_are_of_machines_that_are_there() -> None:
    for seed in range(40):
        script = generate(seed)
        there = {COORDINATOR, "stranger"} | {one.name for one in (*script.devices, *script.jobs)}
        assert {fault.machine for fault in script.faults} <= there


def test_a_script_that_was_written_down_is_the_same_when_it_is_read(tmp_path: Path) -> None:
    script = generate(3)
    script.write(tmp_path / "script.json")
    assert read(tmp_path / "script.json") == script


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "faults": [{"kind": "rain"}], "jobs": [], "devices": []}']
)
def test_what_is_no_script_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not a script"):
        read(path)
    with pytest.raises(UsageError, match="is not a script"):
        read(tmp_path / "missing.json")
