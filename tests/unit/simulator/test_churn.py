"""A timeline in virtual time, held against cases worked by hand."""

import pytest

from coordinator.engine.model import LeaseEnd
from coordinator.policies.fifo import Fifo
from testbed.scenario.loader import parse
from testbed.simulator.build import build
from testbed.simulator.events import simulate_events
from testbed.simulator.model import Outcome

ONE = """
version: 1
name: one
backend: sim
duration: 1m
time_scale: {scale}
jobs:
  only: {{demand: 1, rounds: 2, deadline: 20s, workload: {{compute: 4s}}}}
fleets:
  phones: {{count: 1, cpu: 1}}
churn:
  - {entry}
"""


def run(entry: str, scale: float = 1) -> Outcome:
    return simulate_events(build(parse(ONE.format(entry=entry, scale=scale))), Fifo(), validate=True)


def test_undisturbed_it_takes_two_tasks() -> None:
    assert run("{at: 50s, leave: all}").ended_s.tolist() == [8.0]


@pytest.mark.parametrize("verb", ["leave", "crash", "disconnect", "suspend", "partition"])
def test_a_task_that_is_cut_begins_again_when_its_device_is_back(verb: str) -> None:
    outcome = run(f"{{at: 2s, {verb}: all, for: 3s}}")
    assert outcome.ended_s.tolist() == [13.0]  # lost at 2, back at 5, two tasks of 4 s
    assert outcome.check_ins == 2
    assert outcome.leases[LeaseEnd.COUNTED] == 2
    assert outcome.leases[LeaseEnd.LOST] == 1


def test_a_crash_of_a_device_that_is_always_there_costs_its_restart() -> None:
    assert run("{at: 2s, crash: all}").ended_s.tolist() == [12.0]


def test_who_joins_comes_then() -> None:
    outcome = run("{at: 7s, join: all}")
    assert (outcome.ended_s.tolist(), outcome.check_ins) == ([15.0], 1)


def test_time_scale_multiplies_the_timeline() -> None:
    assert run("{at: 2s, leave: all, for: 3s}", 0.5).ended_s.tolist() == [6.5]
