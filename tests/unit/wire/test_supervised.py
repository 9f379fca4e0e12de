"""Programs that end with the one that started them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from venn.wire import RUN_MARK
from venn.wire.process import own_mark

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
PATIENCE_S = 30.0
# A child that has become another program since, and says that it is one.
CHILD = """
import os, sys
from venn.wire.process import end_with_parent
end_with_parent()
os.execv(sys.executable, [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"])
"""
PARENT = f"""
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.DEVNULL) as child:
    print(child.pid, flush=True)
"""


@contextmanager
def parent_and_child(mark: str) -> Iterator[tuple["subprocess.Popen[str]", psutil.Process]]:
    environment = os.environ | {RUN_MARK: mark}
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        try:
            assert parent.stdout.readline() == "up\n"
            yield parent, child
        finally:
            parent.kill()
            if child.is_running():
                child.kill()


@pytest.mark.parametrize("standing_still", [False, True])
def test_a_child_ends_with_a_parent_that_is_killed(standing_still: bool) -> None:
    with parent_and_child(own_mark()) as (parent, child):
        if standing_still:
            child.suspend()
        parent.send_signal(signal.SIGKILL)
        parent.wait(PATIENCE_S)
        child.wait(PATIENCE_S)  # raises where it runs on


def test_a_child_whose_testbed_has_died_before_it_asked_ends_at_once() -> None:
    environment = os.environ | {RUN_MARK: f"p{os.getpid()}-s1"}  # an earlier process of the same id
    done = subprocess.run([sys.executable, "-c", CHILD], env=environment, check=False, timeout=PATIENCE_S)
    assert done.returncode == 128 + signal.SIGKILL
