"""How near a real run comes to a simulation of the same scenario: ``examples/fidelity.yaml``, three jobs on 18 phones.

On each backend that this machine has it is run RUNS times; what is real there (transfers, aggregation, messages) is in
no simulation. A figure of a backend is the mean over its runs, ``..._spread_...`` what lies between the least and the
most of them; the baseline is the simulation's. ``ratio`` is mean JCT, live over simulated or the other way round where
that is less, of the worst backend.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import get_args

from testbed.bench.figures import Benchmark, Measured, folded
from testbed.live.run import run_scenario
from testbed.report.summary import JobSummary, Summary
from testbed.scenario import Scenario
from testbed.scenario.fields import Backend
from testbed.scenario.packaged import packaged
from testbed.virtual.run import run_simulated
from venn.wire.command import run_async
from venn.wire.errors import CannotEnforceError, PeerError, UsageError

NAME = "fidelity"
RUNS = 3
BACKENDS = tuple(name for name in get_args(get_args(Backend)[0]) if name != "sim")
COMPARED = ("jct_s", "delay_s", "collect_s", "leases")  # of a job
SPREAD = "jct_s"
OVER_SIMULATED = "_mean_jct_over_simulated"

Say = Callable[[str], None]


def run(say: Say) -> Measured:
    """Measure; about two minutes for each backend."""
    figures: dict[str, float] = {}
    baseline: dict[str, float] = {}
    busy: list[str] = []
    skipped: list[str] = []
    with tempfile.TemporaryDirectory(prefix="venn-bench-") as folder:
        simulated = _simulated(Path(folder) / "sim")
        say(f"simulated: {_line(simulated)}")
        for backend in BACKENDS:
            runs: list[Summary] = []
            try:
                for turn in range(1, RUNS + 1):
                    runs.append(_live(backend, Path(folder) / f"{backend}-{turn}"))
                    say(f"{backend} {turn} of {RUNS}: {_line(runs[-1])}")
            except (CannotEnforceError, UsageError) as error:  # no engine, no image, a package that is not installed
                skipped.append(f"{backend}: {error}")
                say(f"skipped: {skipped[-1]}")
                continue
            own, against = compare(backend, runs, simulated)
            figures |= own
            baseline |= against
            busy += [f"{backend} {turn}: {why}" for turn, each in enumerate(runs, start=1) for why in each.host.reasons]
    ratios = [ratio for backend in BACKENDS if (ratio := figures.get(f"{backend}{OVER_SIMULATED}"))]
    worst = min((folded(each, 1.0) for each in ratios), default=0.0)
    return Measured(NAME, figures, baseline, worst, skipped=tuple(skipped), saturated=tuple(busy))


def compare(backend: str, runs: Sequence[Summary], simulated: Summary) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of a backend, and the simulation's by the same keys."""
    figures: dict[str, float] = {}
    baseline: dict[str, float] = {}

    def add(key: str, live: Sequence[float], virtual: float) -> None:
        figures[f"{backend}_{key}"], baseline[f"{backend}_{key}"] = fmean(live), virtual
        if key.endswith(SPREAD):
            figures[f"{backend}_{key.removesuffix(SPREAD)}spread_{SPREAD}"] = max(live) - min(live)

    for key in COMPARED:
        add(f"mean_{key}", [_mean(each, key) for each in runs], _mean(simulated, key))
    for index, job in enumerate(simulated.jobs):
        for key in COMPARED:
            name = f"{job.name.replace('-', '_')}_{key}"
            add(name, [_figure(each.jobs[index], key) for each in runs], _figure(job, key))
    jct_s, overhead_s = figures[f"{backend}_mean_jct_s"], fmean(_mean(each, "overhead_s") for each in runs)
    figures[f"{backend}_mean_overhead_s"] = overhead_s
    figures[f"{backend}_modelled_fraction"] = 1 - overhead_s / jct_s
    figures[f"{backend}{OVER_SIMULATED}"] = jct_s / baseline[f"{backend}_mean_jct_s"]
    return figures, baseline


def _simulated(folder: Path) -> Summary:
    return run_simulated(_scenario("sim"), out=folder, quiet=True)[0].summary


def _live(backend: str, folder: Path) -> Summary:
    """Raises PeerError if a job did not finish."""
    found: list[Summary] = []

    async def main() -> int:
        found.append((await run_scenario(_scenario(backend), out=folder, quiet=True)).summary)
        return 0

    run_async(main())
    if found[0].unfinished_jobs:
        raise PeerError("UNFINISHED", f"{found[0].unfinished_jobs} jobs did not finish", where=f"{NAME} on {backend}")
    return found[0]


def _scenario(backend: str) -> Scenario:
    return Scenario.load(packaged(NAME), [f"backend={backend}"])


def _mean(summary: Summary, key: str) -> float:
    return fmean(_figure(job, key) for job in summary.jobs)


def _figure(job: JobSummary, key: str) -> float:
    value = getattr(job, key)
    assert value is not None, f"{job.name} has no {key}"
    return float(value)


def _line(summary: Summary) -> str:
    jcts = ", ".join(f"{job.name} {_figure(job, 'jct_s'):.1f}" for job in summary.jobs)
    busy = "; THE HOST WAS TOO BUSY" if summary.host.saturated else ""
    return f"mean JCT {_mean(summary, 'jct_s'):.2f} s ({jcts}){busy}"


BENCHMARK = Benchmark(NAME, "a scenario of three jobs, run for real, against the same in simulation", run)
