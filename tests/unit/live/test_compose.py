"""What is waited for before a run in containers is reported, and what may not run at once."""

import asyncio
import os
from pathlib import Path

import pytest

from testbed.live import compose
from testbed.runfolder.paths import RunFolder
from venn.wire.errors import UsageError


def counted(folder: RunFolder, device: str, at: float) -> None:
    path = folder.device_host(device) / compose.COUNTS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    os.utime(path, (at, at))


async def test_what_relays_have_passed_is_waited_for(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    counted(folder, "phone-1", 200.0)
    counted(folder, "phone-2", 50.0)
    waiting = asyncio.create_task(compose.settled(folder, 100.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    counted(folder, "phone-2", 101.0)
    await waiting


async def test_a_relay_that_stands_still_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "SETTLE_S", 0.0)
    counted(RunFolder(tmp_path), "phone-1", 50.0)
    await compose.settled(RunFolder(tmp_path), 100.0)


def test_two_projects_are_not_in_one_folder(tmp_path: Path) -> None:
    live = tmp_path / compose.LIVE
    with compose.alone(live):
        with pytest.raises(UsageError, match="another project runs in this folder") as told, compose.alone(live):
            pass
        assert str(tmp_path) in told.value.where
    with compose.alone(live):
        pass
