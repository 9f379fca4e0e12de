"""The scenario file: what a run consists of, checked before anything is started."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.scenario.errors import Problem, ScenarioError
    from testbed.scenario.loader import load, parse
    from testbed.scenario.model import Confine, Data, Fleet, Job, Scenario, Workload

__all__ = ["Confine", "Data", "Fleet", "Job", "Problem", "Scenario", "ScenarioError", "Workload", "load", "parse"]


def __getattr__(name: str) -> object:
    # On demand: commands that ask for backends only need not wait for pydantic and the model.
    if name in __all__:
        return getattr(import_module("testbed.scenario.loader"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
