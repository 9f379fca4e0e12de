"""The scenario file: what a run consists of, checked before anything is started."""

from testbed.scenario.errors import Problem, ScenarioError
from testbed.scenario.expect import Verdict
from testbed.scenario.loader import load, parse
from testbed.scenario.model import Data, Fleet, Job, Scenario, Workload

__all__ = ["Data", "Fleet", "Job", "Problem", "Scenario", "ScenarioError", "Verdict", "Workload", "load", "parse"]
