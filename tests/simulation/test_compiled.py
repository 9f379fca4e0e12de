"""What is compiled is kept for its user, wherever the source lies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.simulator.compiled import COMPILES

pytestmark = pytest.mark.skipif(not COMPILES, reason="Numba is not installed, or switched off")
PROGRAM = """
from testbed.simulator.compiled import entry, is_compiled


@entry
def double(value):
    return 2 * value


before = is_compiled(double)
assert double(3) == 6
print(before, is_compiled(double))
"""


def test_it_is_kept_for_the_next_process_from_another_place(tmp_path: Path) -> None:
    said = []
    for name in ("here", "there"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "doubled.py").write_text(PROGRAM)
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "doubled.py"], cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
        said.append(done.stdout.split())
    assert said == [["False", "True"], ["True", "True"]]
    assert not list((tmp_path / "here").rglob("*.nbc"))
