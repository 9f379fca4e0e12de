"""What an agent is told of its limits, and the command that starts a worker within them."""

import subprocess
import sys
from pathlib import Path

import pytest

from device_agent.throttle import ANY, NOTHING, Throttle, read_throttle, write_throttle
from venn.wire.errors import UsageError


def test_what_was_written_is_read(tmp_path: Path) -> None:
    throttle = Throttle((Path("/a"),), (Path("/b"), Path("/c")), 0.25, 10**8, {"pi-01": "127.0.0.1:9"})
    write_throttle(tmp_path / "throttle.json", throttle)
    assert read_throttle(tmp_path / "throttle.json") == throttle
    assert read_throttle(None) == NOTHING


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"start_in": 1}'])
def test_anything_else_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "throttle.json").write_text(text)
    with pytest.raises(UsageError, match="cannot be read") as told:
        read_throttle(tmp_path / "throttle.json")
    assert str(tmp_path) in told.value.where


def test_a_worker_enters_its_groups_and_becomes_the_command(tmp_path: Path) -> None:
    groups = tuple(tmp_path / name for name in ("one", "with space"))
    for group in groups:
        group.mkdir()
    command = Throttle(start_in=groups).launch([sys.executable, "-c", "import os; print(os.getpid())"])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {(group / "cgroup.procs").read_text() for group in groups} == {done.stdout}


def test_the_kernel_counts_how_often_a_worker_was_held_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    throttle = Throttle(work_in=(tmp_path,))
    monkeypatch.setattr("device_agent.throttle.CONTAINER", ())
    assert throttle.held_back() is None  # no such file: another controller, or the group is gone
    (tmp_path / "cpu.stat").write_text("nr_periods 40\nnr_throttled 17\nthrottled_time 12345\n")
    assert throttle.held_back() == 17
    assert NOTHING.held_back() is None
    monkeypatch.setattr("device_agent.throttle.CONTAINER", (tmp_path,))
    assert NOTHING.held_back() == 17


@pytest.mark.parametrize(
    ("file", "limit", "counted"),
    [
        ("cpu.max", "max 100000", None),
        ("cpu.max", "25000 100000", 17),
        ("cpu.cfs_quota_us", "-1", None),
        ("cpu.cfs_quota_us", "25000", 17),
    ],
)
def test_where_nothing_is_limited_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, limit: str, counted: int | None
) -> None:
    monkeypatch.setattr("device_agent.throttle.CONTAINER", (tmp_path,))
    (tmp_path / "cpu.stat").write_text("nr_periods 40\nnr_throttled 17\n")
    (tmp_path / file).write_text(f"{limit}\n")
    assert NOTHING.held_back() == counted


def test_nothing_changes_where_nothing_is_limited() -> None:
    assert NOTHING.launch(["worker"]) == ["worker"]


def test_one_proxy_may_stand_for_every_device_of_the_process() -> None:
    throttle = Throttle(proxies={"phone-1": "127.0.0.1:1", ANY: "127.0.0.1:2"})
    assert throttle.proxy("phone-1") == "127.0.0.1:1"
    assert throttle.proxy("phone-2") == "127.0.0.1:2"
    assert Throttle().proxy("phone-1") is None
