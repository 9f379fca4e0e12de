"""Parts of the means: user IDs that nobody else has, the places of a view, what is missing, what jobs may read."""

import errno
import os
import sys
from pathlib import Path

import pytest

from device_agent.confine import inside, landlock, users, view
from device_agent.confine.inforce import CONFINED, InForce, read_in_force
from device_agent.confine.settings import LEAST_MEMORY, MOST_NAMED, Confinement, fair_memory, named_together
from device_agent.confine.users import FIRST, LAST, Users
from device_agent.hosting import HeldBy, likely_data, shares_of
from device_agent.spec import DeviceSpec
from device_agent.worker_process import environment
from venn.wire import RUN_MARK


def test_a_user_id_is_given_to_one_worker_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(users, "_exists", lambda user: user == FIRST)
    one, other = Users(tmp_path), Users(tmp_path)
    assert one.take() == (FIRST + 1, "")
    assert other.take() == (FIRST + 2, "")
    one.give_back(FIRST + 1)
    one.give_back(None)
    assert other.take() == (FIRST + 1, "")


def test_without_a_free_user_id_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert Users(tmp_path).take() == (None, "only root can change the user")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(users, "_exists", lambda user: True)
    assert Users(tmp_path).take() == (None, f"no user ID from {FIRST} to {LAST} is free")
    (tmp_path / "file").write_text("")
    assert "no free user ID" in Users(tmp_path / "file" / "below").take()[1]


def test_a_view_holds_links_and_what_they_name_and_each_folder_once(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "round").symlink_to("round")
    asked = [tmp_path / "link" / "inner", tmp_path / "real", tmp_path / "other", tmp_path / "none", tmp_path / "round"]
    shown = dict(view._places(map(str, asked)))
    assert shown[f"{tmp_path}/link"] == "real"
    assert [path for path, link in shown.items() if link is None] == [f"{tmp_path}/other", f"{tmp_path}/real"]


@pytest.mark.skipif(sys.platform != "linux", reason="it needs Linux")
def test_a_kernel_without_landlock_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(readable: object, writable: object) -> int:
        raise OSError(errno.ENOSYS, "landlock: Function not implemented")

    monkeypatch.setattr(landlock, "restrict", lacking)
    held = InForce()
    inside._restrict(Confinement().orders(0, (), None, ""), "/job", [], held)
    assert held.landlock == 0
    assert "Function not implemented" in held.why_not["landlock"]


def test_where_there_is_no_view_a_user_that_cannot_read_python_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    closed = tmp_path / "closed"
    (closed / "python").mkdir(parents=True)
    closed.chmod(0o700)
    assert inside._closed_to(FIRST, [str(closed / "python"), str(tmp_path / "none")]) == str(closed / "python")
    assert inside._closed_to(FIRST, ["/usr"]) == ""
    assert os.geteuid() == 0


def test_memory_is_shared_fairly_by_the_workers() -> None:
    assert fair_memory(1) >= fair_memory(4) >= LEAST_MEMORY
    assert fair_memory(10**6) == LEAST_MEMORY
    assert Confinement().for_workers(2).memory_bytes == fair_memory(2)
    assert Confinement(memory_bytes=5).for_workers(2).memory_bytes == 5


def test_a_job_reads_its_data_set_of_the_devices_here_and_no_other() -> None:
    specs = [
        DeviceSpec(device="a", data={"digits": Path("/d/share-1"), "voices": Path("/v/1")}),
        DeviceSpec(device="b", data={"digits": Path("/d/share-2")}),
    ]
    assert shares_of(specs) == {"digits": (Path("/d/share-1"), Path("/d/share-2")), "voices": (Path("/v/1"),)}
    assert likely_data(shares_of(specs)) == ()
    assert likely_data(shares_of(specs[1:])) == (Path("/d/share-2"),)
    many = [Path(f"/d/{number}") for number in range(MOST_NAMED + 1)]
    assert named_together([*many, Path("/e/1")]) == (Path("/d"), Path("/e/1"))


def test_a_worker_gets_of_our_environment_what_it_needs_and_no_more() -> None:
    ours = {"PATH": "/bin", "LC_ALL": "C", RUN_MARK: "p1-s2", "VENN_DEVICE_TOKEN": "secret", "AWS_SECRET": "secret"}
    theirs = environment(ours)
    assert {"PATH", "LC_ALL", RUN_MARK} <= theirs.keys()
    assert "secret" not in theirs.values()
    assert theirs["OMP_NUM_THREADS"] == "1"


def test_what_holds_is_told_once_and_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed: list[int] = []
    monkeypatch.setattr("device_agent.hosting.prctl", lambda option, value: sealed.append(value))
    told = HeldBy(tmp_path)
    with caplog.at_level("INFO"):
        for held in (InForce(user=61184), InForce(user=61185), InForce(why_not={"user": "not root"})):
            told.note(held)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert read_in_force(tmp_path / CONFINED) == InForce(why_not={"user": "not root"})
    assert read_in_force(tmp_path / "none") is None
    assert sealed == ([0] if sys.platform == "linux" else [])
