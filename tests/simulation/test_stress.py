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


def test_the_exodus_without_it_as_the_page_on_churn_runs_it(tmp_path: Path) -> None:
    overrides = ["churn=[]", "expect=[]"]
    command = f"venn run exodus {' '.join(f'--set {each!r}' for each in overrides)}"
    assert command in (Path(__file__).parents[2] / "docs" / "churn.md").read_text()
    result, _ = run_simulated(load(packaged.packaged("exodus"), overrides), out=tmp_path / "run", quiet=True)
    assert [each.expect for each in result.summary.expectations if not each.held] == []
    assert sum(job.aborts for job in result.summary.jobs) == 0
