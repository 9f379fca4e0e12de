"""How near real runs come to simulations of the same scenarios: those of ``examples/fidelity/``, each on seeds 1, 2, 3.

On each backend that this machine has, every scenario is run for real once with each seed; what is real there
(transfers, aggregation, messages) is in no simulation. A figure of a scenario is the mean over its seeds, live; the
baseline is the same of the simulations. A scenario's ratio is mean JCT, live over simulated, a backend's the geometric
mean over the scenarios. ``ratio`` is the worst of a scenario on a backend, or its inverse where that is less.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, geometric_mean

from testbed.bench.figures import Measured, Say, Untested, folded, in_folder
from testbed.live.run import run_scenario
from testbed.runfolder.summary import JobFigures, Summary
from testbed.scenario import Scenario, load
from testbed.scenario.backends import BUILT_IN, SIM
from testbed.scenario.packaged import packaged
from testbed.simulate.run.scenario import run_simulated
from venn.wire.errors import CannotEnforceError, PeerError, UsageError

SCENARIOS = ("contended", "churning", "slow-links")
SEEDS = (1, 2, 3)
BACKENDS = tuple(name for name in BUILT_IN if name != SIM.name)
COMPARED = ("jct_s", "delay_s", "collect_s", "leases")  # of a job
OVER_SIMULATED = "mean_jct_over_simulated"


def run(say: Say, backends: Sequence[str] = BACKENDS) -> Measured:
    """Measure; about seven minutes for each backend, more for containers."""
    figures, baseline, ratios = dict[str, float](), dict[str, float](), list[float]()
    busy, untested = list[str](), list[Untested]()
    simulated = {name: [_simulated(name, seed, say) for seed in SEEDS] for name in SCENARIOS}
    for backend in backends:
        of_backend: list[float] = []
        for name in SCENARIOS:
            try:
                runs = [_live(backend, name, seed, say) for seed in SEEDS]
            except (CannotEnforceError, UsageError) as error:  # no engine, no image, a package is not installed
                untested.append(Untested(f"{name} on {backend}", str(error)))
                say(str(untested[-1]))
                continue
            prefix = f"{backend}_{name.replace('-', '_')}"
            own, against = compare(prefix, runs, simulated[name])
            figures |= own
            baseline |= against
            of_backend.append(own[f"{prefix}_{OVER_SIMULATED}"])
            for seed, each in zip(SEEDS, runs, strict=True):
                busy += [f"{name} on {backend}, seed {seed}: {why}" for why in each.host.reasons]
        if len(of_backend) == len(SCENARIOS):
            figures[f"{backend}_{OVER_SIMULATED}"] = geometric_mean(of_backend)
        ratios += of_backend
    worst = min((folded(each, 1.0) for each in ratios), default=0.0)
    return Measured("fidelity", figures, baseline, worst, untested=tuple(untested), saturated=tuple(busy))


def compare(
    prefix: str, runs: Sequence[Summary], simulated: Sequence[Summary]
) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of one scenario on one backend, and the simulations' by the same keys; both by seed, in its order."""
    figures: dict[str, float] = {}
    baseline: dict[str, float] = {}
    for seed, live, virtual in zip(SEEDS, runs, simulated, strict=True):
        key = f"{prefix}_seed_{seed}_mean_jct_s"
        figures[key], baseline[key] = _mean(live, "jct_s"), _mean(virtual, "jct_s")
    for key in COMPARED:
        figures[f"{prefix}_mean_{key}"] = fmean(_mean(each, key) for each in runs)
        baseline[f"{prefix}_mean_{key}"] = fmean(_mean(each, key) for each in simulated)
    jct_s, overhead_s = figures[f"{prefix}_mean_jct_s"], fmean(_mean(each, "overhead_s") for each in runs)
    figures[f"{prefix}_mean_overhead_s"] = overhead_s
    figures[f"{prefix}_modelled_fraction"] = 1 - overhead_s / jct_s
    figures[f"{prefix}_{OVER_SIMULATED}"] = jct_s / baseline[f"{prefix}_mean_jct_s"]
    return figures, baseline


def _simulated(name: str, seed: int, say: Say) -> Summary:
    with tempfile.TemporaryDirectory(prefix="venn-bench-") as folder:
        result, _ = run_simulated(_scenario("sim", name, seed), out=Path(folder) / "run", quiet=True)
    return _finished(result.summary, "sim", name, seed, say)


def _live(backend: str, name: str, seed: int, say: Say) -> Summary:
    result = in_folder(lambda folder: run_scenario(_scenario(backend, name, seed), out=folder / "run", quiet=True))
    return _finished(result.summary, backend, name, seed, say)


def _finished(summary: Summary, backend: str, name: str, seed: int, say: Say) -> Summary:
    """The summary, after a line of its JCTs. Raises PeerError if a job did not finish."""
    where = f"{name} on {backend}, seed {seed}"
    if summary.unfinished_jobs:
        raise PeerError("UNFINISHED", f"{summary.unfinished_jobs} jobs did not finish", where=where)
    jcts = ", ".join(f"{job.name} {_figure(job, 'jct_s'):.1f}" for job in summary.jobs)
    busy = "; THE HOST WAS TOO BUSY" if summary.host.saturated else ""
    say(f"{where}: mean JCT {_mean(summary, 'jct_s'):.2f} s ({jcts}){busy}")
    return summary


def _scenario(backend: str, name: str, seed: int) -> Scenario:
    return load(packaged(name), [f"backend={backend}", f"seed={seed}"])


def _mean(summary: Summary, key: str) -> float:
    return fmean(_figure(job, key) for job in summary.jobs)


def _figure(job: JobFigures, key: str) -> float:
    value = getattr(job, key)
    assert value is not None, f"{job.name} has no {key}"
    return float(value)
