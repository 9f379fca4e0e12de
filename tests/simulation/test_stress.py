"""The packaged stress scenarios in virtual time: what they expect holds."""

from pathlib import Path

import pytest

from testbed.report.record import load_run
from testbed.report.summary import summarise
from testbed.scenario import Scenario, packaged
from testbed.virtual import run

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
def test_what_it_expects_holds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario.load(packaged.packaged(name), ["backend=sim"])
    large = scenario.population is not None  # in bulk, without a journal
    if name != "storm" and not large:  # one report is enough: drawing takes longer than simulating
        monkeypatch.setattr(run, "build_report", lambda folder: summarise(load_run(folder)))
    result, _ = run.run_simulated(scenario, out=tmp_path / "run", validate=not large, quiet=True)
    assert [each.expect for each in result.summary.expectations if each.judged and not each.held] == []
    assert sum(one.actions for one in result.summary.injected) > 0
    assert result.summary.audit.findings == ()
    if name == "storm":
        assert "What was injected, and what was observed" in result.page.read_text()
