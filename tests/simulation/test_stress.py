"""The packaged stress scenarios in virtual time: what they expect holds."""

from pathlib import Path

import pytest

from testbed.report.result import PAGE, build_report
from testbed.scenario import load, packaged
from testbed.simulate.run.scenario import run_simulated

STRESS = sorted(path.stem for path in (packaged.packaged_folder() / "stress").glob("*.yaml"))


def test_there_are_ten() -> None:
    assert STRESS == [
        "containers",
        "coordinator-restart",
        "exodus",
        "failing-links",
        "flapping-links",
        "flash-crowd",
        "mass-exodus",
        "site-cut-off",
        "slow-majority",
        "storm",
    ]


@pytest.mark.parametrize("name", STRESS)
def test_what_it_expects_holds(name: str, tmp_path: Path) -> None:
    scenario = load(packaged.packaged(name), ["backend=sim"])
    large = scenario.population is not None  # in bulk, without a journal
    result, _ = run_simulated(scenario, out=tmp_path / "run", validate=not large, quiet=True)
    assert [each.expect for each in result.summary.expectations if each.judged and not each.held] == []
    assert sum(one.actions for one in result.summary.injected) > 0
    assert result.summary.audit.findings == ()
    if name == "storm":  # one report is enough: drawing takes longer than simulating
        build_report(result.folder.root)
        assert "What was injected, and what was observed" in (result.folder.root / PAGE).read_text()
