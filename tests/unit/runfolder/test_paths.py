"""The run folder's place."""

from datetime import datetime
from pathlib import Path

import pytest

from testbed.runfolder.paths import RunFolder


@pytest.mark.parametrize("policy", ["mine", "/somewhere/else/policies.py:mine"])
def test_a_run_without_a_folder_of_its_own_gets_one_below_here(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create(None, name="quick", policy=policy, now=datetime(2026, 5, 12, 14, 3, 11))
    assert folder.root == tmp_path / "runs" / "2026-05-12-140311-quick-mine"
    assert folder.root.is_dir()
