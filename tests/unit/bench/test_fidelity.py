"""How runs and their simulation become figures; and the scenario that they are of."""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.bench import fidelity
from testbed.bench.fidelity import compare
from testbed.report.summary import Summary
from testbed.scenario import Scenario
from testbed.scenario.packaged import packaged
from testbed.virtual.run import run_simulated
from venn.wire.errors import CannotEnforceError


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    scenario = Scenario.load(packaged("fidelity"), ["backend=sim"])
    result, _ = run_simulated(scenario, out=tmp_path_factory.mktemp("fidelity") / "sim", quiet=True)
    return result.summary


def slower(summary: Summary, factor: float) -> Summary:
    jobs = (replace(job, jct_s=factor * (job.jct_s or 0.0), overhead_s=1.0) for job in summary.jobs)
    return replace(summary, jobs=tuple(jobs))


def test_the_scenario_has_three_jobs_that_finish(simulated: Summary) -> None:
    assert len(simulated.jobs) == 3
    assert not simulated.unfinished_jobs
    assert all(job.delay_s > 1 for job in simulated.jobs)  # they wait for devices, and for each other


def test_a_backend_that_is_not_there_is_skipped_by_name(simulated: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(backend: str, folder: Path) -> Summary:
        raise CannotEnforceError("ENGINE", f"no engine for {backend}", fix="start one")

    monkeypatch.setattr(fidelity, "_live", refuse)
    monkeypatch.setattr(fidelity, "_simulated", lambda folder: simulated)
    said: list[str] = []
    measured = fidelity.run(said.append)
    assert "process" in fidelity.BACKENDS
    assert measured.skipped == tuple(f"{name}: no engine for {name}; start one" for name in fidelity.BACKENDS)
    assert said[1:] == [f"skipped: {each}" for each in measured.skipped]
    assert (measured.figures, measured.ratio) == ({}, 0.0)


def test_figures_are_means_over_the_runs_with_what_lies_between_them(simulated: Summary) -> None:
    figures, baseline = compare("process", [slower(simulated, factor) for factor in (1.0, 1.02, 1.07)], simulated)
    mean = simulated.mean_jct_s or 0.0
    assert baseline["process_mean_jct_s"] == pytest.approx(mean)
    assert figures["process_mean_jct_s"] == pytest.approx(1.03 * mean)
    assert figures["process_mean_spread_jct_s"] == pytest.approx(0.07 * mean)
    assert figures["process_mean_jct_over_simulated"] == pytest.approx(1.03)
    assert figures["process_modelled_fraction"] == pytest.approx(1 - 1 / (1.03 * mean))
    assert figures["process_tablet_pen_leases"] == baseline["process_tablet_pen_leases"] > 0
