"""What is compiled is kept for its user, wherever the source lies."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.simulate.compiled import bulk
from testbed.simulate.compiled.compiled import COMPILES, sources

pytestmark = pytest.mark.skipif(not COMPILES, reason="Numba is not installed, or switched off")
PROGRAM = """
from testbed.simulate.compiled.compiled import entry, is_compiled


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


def test_what_was_not_used_for_a_month_is_forgotten(tmp_path: Path) -> None:
    caches = tmp_path / "venn"
    for name, days in (("numba-0.1-old", 31), ("numba-0.2-recent", 29), ("other", 31)):
        folder = caches / name
        folder.mkdir(parents=True)
        (folder / "kept.nbi").touch()
        os.utime(folder, (used := time.time() - days * 86_400, used))
    (caches / "numba-0.0-gone").symlink_to(caches / "nothing")  # as one that another process removes at this moment

    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    script = "from testbed.simulate.compiled.compiled import _folder; print(_folder())"
    said = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)

    assert Path(said.stdout.strip()).parent == caches
    assert not (caches / "numba-0.1-old").exists()
    assert (caches / "other").exists()
    assert (caches / "numba-0.2-recent" / "kept.nbi").exists()


def test_a_change_of_any_file_with_a_compiled_function_compiles_anew() -> None:
    assert bulk  # imports them all
    functions = (each for module in list(sys.modules.values()) for each in list(vars(module).values()))
    compiled = [each.py_func for each in functions if type(each).__name__ == "CPUDispatcher"]
    ours = {
        Path(each.__code__.co_filename) for each in compiled if each.__module__.startswith(("testbed.", "coordinator."))
    }
    assert len(ours) > 3
    assert ours <= set(sources())
