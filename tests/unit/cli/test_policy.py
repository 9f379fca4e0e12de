"""``venn policy list``."""

import json
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

import pytest

from coordinator.policies.registry import policy_names
from testbed.cli.main import main


def test_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line and not line.startswith("or")] == policy_names()
    assert ["fifo", "by", "job", "arrival"] in [line.split() for line in lines]


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["policies"]
    assert [policy["name"] for policy in listed] == policy_names()
    assert all(policy["summary"] for policy in listed)


def test_a_broken_plug_in_hides_no_other(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_broken_one(*, group: str) -> Iterable[EntryPoint]:
        return [*entry_points(group=group), EntryPoint("broken", "no.such.module:Policy", group)]

    monkeypatch.setattr("coordinator.policies.registry.entry_points", with_a_broken_one)
    assert main(["policy", "list"]) == 0
    out = capsys.readouterr().out
    assert "policy 'broken' cannot be loaded: ModuleNotFoundError" in out
    assert "by job arrival" in out
