"""Whom a timeline means where devices of a fleet are each another."""

from pathlib import Path

import pytest

from testbed.scenario import Scenario, parse
from testbed.scenario.errors import ScenarioError
from testbed.simulate.build import device_specs

TEXT = """
version: 1
name: labs
backend: sim
jobs: {a: {demand: 2, rounds: 3, deadline: 20s, workload: {compute: 4s}}}
fleets:
  lab: {count: 4, devices: lab.csv}
  other: {count: 3, labels: {soc: snap}}
churn: [{at: 2s, crash: WHOM, for: 3s}]
"""


def labs(folder: Path, whom: str) -> Scenario:
    (folder / "lab.csv").write_text("device,cpu,soc\na,2,snap\nb,7,exynos\n")
    return parse(TEXT.replace("WHOM", whom), folder=folder)


def test_labels_of_a_file_are_selected_as_those_of_a_fleet_are(tmp_path: Path) -> None:
    scenario = labs(tmp_path, "soc=snap")
    actions = scenario.timeline(device_specs(scenario)).actions
    assert [action.target for action in actions] == ["lab-01", "lab-03", "other-01", "other-02", "other-03"]


@pytest.mark.parametrize(
    ("whom", "told"),
    [("3 of soc=exynos", "asks for more than there are: 2"), ("soc=apple", "no device has soc=apple")],
)
def test_more_than_a_file_has_are_refused(tmp_path: Path, whom: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        labs(tmp_path, whom)
