"""How runs and their simulations become figures; and the scenarios that they are of."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from testbed.bench import fidelity
from testbed.bench.fidelity import BACKENDS, SCENARIOS, SEEDS, compare
from testbed.runfolder.summary import Summary
from testbed.scenario import load
from testbed.scenario.packaged import packaged
from testbed.simulate.run.scenario import run_simulated
from venn.wire.errors import CannotEnforceError, PeerError

Simulated = Mapping[str, Sequence[Summary]]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """By scenario, a summary for each seed."""
    folder = tmp_path_factory.mktemp("fidelity")

    def one(name: str, seed: int) -> Summary:
        scenario = load(packaged(name), ["backend=sim", f"seed={seed}"])
        return run_simulated(scenario, out=folder / f"{name}-{seed}", quiet=True)[0].summary

    return {name: [one(name, seed) for seed in SEEDS] for name in SCENARIOS}


def slower(summary: Summary, factor: float) -> Summary:
    jobs = (replace(job, jct_s=factor * (job.jct_s or 0.0), overhead_s=1.0) for job in summary.jobs)
    return replace(summary, jobs=tuple(jobs))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_scenarios_show_what_they_are_for_on_every_seed(simulated: Simulated, name: str) -> None:
    for summary in simulated[name]:
        assert not summary.unfinished_jobs
        if name == "contended":
            assert all(job.delay_s > 1 for job in summary.jobs)  # they wait for devices, and for each other
        elif name == "churning":
            assert summary.leases.lost >= summary.leases.granted / 10
        else:  # 1 MB down at 4 Mbit/s and up at 1: a task of at most 5 s takes 10 s more
            assert max(job.collect_s / job.rounds for job in summary.jobs) > 10


def test_a_backend_that_is_not_there_is_untested_by_name(simulated: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(backend: str, name: str, seed: int, say: fidelity.Say) -> Summary:
        raise CannotEnforceError("ENGINE", f"no engine for {backend}", fix="start one")

    monkeypatch.setattr(fidelity, "_live", refuse)
    monkeypatch.setattr(fidelity, "_simulated", lambda name, seed, say: simulated[name][SEEDS.index(seed)])
    said: list[str] = []
    measured = fidelity.run(said.append)
    assert "process" in BACKENDS
    assert [(each.what, each.why) for each in measured.untested] == [
        (f"{name} on {backend}", f"no engine for {backend}; start one") for backend in BACKENDS for name in SCENARIOS
    ]
    assert said == [str(each) for each in measured.untested]
    assert (measured.figures, measured.ratio) == ({}, 0.0)


def test_a_ratio_for_each_scenario_one_for_all_and_the_worst_counts(
    simulated: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors = {"contended": 1.0, "churning": 1.1, "slow-links": 0.8}

    def live(backend: str, name: str, seed: int, say: fidelity.Say) -> Summary:
        return slower(simulated[name][SEEDS.index(seed)], factors[name])

    monkeypatch.setattr(fidelity, "_live", live)
    monkeypatch.setattr(fidelity, "_simulated", lambda name, seed, say: simulated[name][SEEDS.index(seed)])
    measured = fidelity.run(lambda text: None, ["process"])
    for name, factor in factors.items():
        key = f"process_{name.replace('-', '_')}_mean_jct_over_simulated"
        assert measured.figures[key] == pytest.approx(factor)
    assert measured.figures["process_mean_jct_over_simulated"] == pytest.approx((1.1 * 0.8) ** (1 / 3))
    assert measured.ratio == pytest.approx(0.8)
    assert not any(key.startswith("compose") for key in measured.figures)


def test_figures_are_means_over_the_seeds(simulated: Simulated) -> None:
    of = simulated["contended"]
    runs = [slower(each, factor) for each, factor in zip(of, (1.0, 1.02, 1.07), strict=True)]
    figures, baseline = compare("process_contended", runs, of)
    means = [each.mean_jct_s or 0.0 for each in of]
    assert baseline["process_contended_mean_jct_s"] == pytest.approx(sum(means) / 3)
    assert figures["process_contended_seed_3_mean_jct_s"] == pytest.approx(1.07 * means[2])
    got = (means[0] + 1.02 * means[1] + 1.07 * means[2]) / 3
    assert figures["process_contended_mean_jct_s"] == pytest.approx(got)
    assert figures["process_contended_mean_jct_over_simulated"] == pytest.approx(got / (sum(means) / 3))
    assert figures["process_contended_modelled_fraction"] == pytest.approx(1 - 1 / got)
    assert figures["process_contended_mean_leases"] == baseline["process_contended_mean_leases"] > 0


def test_a_run_that_does_not_finish_is_no_figure(simulated: Simulated) -> None:
    unfinished = replace(simulated["churning"][0], unfinished_jobs=1)
    with pytest.raises(PeerError, match="1 jobs did not finish"):
        fidelity._finished(unfinished, "process", "churning", 1, lambda text: None)
