"""The tutorial that starts the real programs, as it is written."""

from pathlib import Path

import pytest

from tests.tutorials import follow

pytestmark = pytest.mark.e2e


def test_write_a_job(tmp_path: Path) -> None:
    follow("write-a-job.md", tmp_path)
