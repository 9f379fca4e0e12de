"""The manifest of what was decided, and the folder beside it."""

from contextlib import closing
from pathlib import Path

from job_driver.spool import MANIFEST, Spool


def test_a_folder_in_which_another_version_has_begun_is_in_use(tmp_path: Path) -> None:
    with closing(Spool(tmp_path)) as spool:
        assert not spool.begun()
        with open(tmp_path / MANIFEST, "a") as file:
            file.write('{"kind": "response", "round": 1, "attempt": 1, "lease": 7, "sha256": "00"}\n')
        assert spool.begun()
