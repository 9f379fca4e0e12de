"""What holds for all tests.

Hypothesis tries the same examples each time, and no example has a time limit, which a busy machine would miss. The loop
of a simulation in bulk is compiled before the first test that runs it, so that the time limit of that test need not
hold for this: half a minute of one core. Tests in these folders have the marker ``bulk``, as a few elsewhere; without
them the suite is fast.
"""

from pathlib import Path

import pytest
from hypothesis import settings

from coordinator.policies.registry import load_policy
from testbed.simulate.compiled.bulk import simulate_in_bulk
from testbed.simulate.compiled.compiled import COMPILES
from testbed.testing.worlds import Session, job, world

_HERE = Path(__file__).parent
_FOLDERS = [_HERE / folder for folder in ("simulation", "unit/bench", "unit/compare", "unit/simulator", "unit/virtual")]

settings.register_profile("same everywhere", deadline=None, derandomize=True)
settings.load_profile("same everywhere")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in _FOLDERS):
            item.add_marker(pytest.mark.bulk)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    wanted = any(item.get_closest_marker("bulk") for item in session.items)
    if COMPILES and wanted and not session.config.option.collectonly:
        simulate_in_bulk(world([job("a", 1)], [Session(0.0, 1.0, 0)]), load_policy("fifo"))
