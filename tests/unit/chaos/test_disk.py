"""The scripted disk: what survives a power cut, a kill in the middle of a write, a full disk."""

import os
from pathlib import Path
from random import Random

import pytest

from testbed.chaos.disk import Disk


def disk(tmp_path: Path, seed: int = 0) -> Disk:
    return Disk(tmp_path / "disk", Random(seed))


def sync(own: Disk, path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    own.sync(descriptor)
    os.close(descriptor)


@pytest.mark.parametrize("seed", range(8))
def test_what_was_synced_survives_a_power_cut_and_of_the_rest_a_part(tmp_path: Path, seed: int) -> None:
    own = disk(tmp_path, seed)
    log = own.folder / "log"
    log.write_bytes(b"safe")
    sync(own, log)
    with log.open("ab") as file:
        file.write(b" and not")
    own.cut_power()
    assert log.read_bytes().startswith(b"safe")
    assert b"safe and not".startswith(log.read_bytes())


def test_a_tail_that_was_not_synced_is_torn_sooner_or_later(tmp_path: Path) -> None:
    left = set()
    for seed in range(30):
        own = disk(tmp_path / str(seed), seed)
        (own.folder / "log").write_bytes(b"")
        sync(own, own.folder / "log")
        (own.folder / "log").write_bytes(b"abc")
        own.cut_power()
        left.add((own.folder / "log").read_bytes())
    assert left == {b"", b"a", b"ab", b"abc"}


@pytest.mark.parametrize("seed", range(8))
def test_a_rename_is_lost_unless_its_folder_was_synced(tmp_path: Path, seed: int) -> None:
    own = disk(tmp_path, seed)
    state, fresh = own.folder / "state", own.folder / ".state"
    state.write_bytes(b"old")
    sync(own, state)
    fresh.write_bytes(b"new")
    sync(own, fresh)
    fresh.replace(state)
    own.cut_power()
    assert state.read_bytes() == b"old"
    fresh.write_bytes(b"new")
    sync(own, fresh)
    fresh.replace(state)
    sync(own, own.folder)
    own.cut_power()
    assert state.read_bytes() == b"new"


def test_a_power_cut_keeps_who_may_read_a_file(tmp_path: Path) -> None:
    own = disk(tmp_path)
    secret = own.folder / "secret"
    secret.write_bytes(b"x")
    secret.chmod(0o600)
    sync(own, secret)
    own.cut_power()
    assert secret.stat().st_mode & 0o777 == 0o600


def test_what_a_process_does_after_it_died_in_a_write_did_not_happen(tmp_path: Path) -> None:
    own = disk(tmp_path)
    own.dies_after = 1
    assert own.before_write(3) == 3
    assert own.before_write(3) <= 3
    assert own.died
    (own.folder / "before").write_bytes(b"")
    own.freeze()
    (own.folder / "after").write_bytes(b"")
    own.process_ended()
    assert [path.name for path in own.folder.iterdir()] == ["before"]
    assert not own.died


def test_a_full_disk_takes_nothing(tmp_path: Path) -> None:
    own = disk(tmp_path)
    own.full = True
    with pytest.raises(OSError, match="No space"):
        own.before_write(1)


def test_a_machine_that_is_replaced_has_an_empty_disk(tmp_path: Path) -> None:
    own = disk(tmp_path)
    (own.folder / "run").mkdir()
    own.wipe()
    assert not list(own.folder.iterdir())
