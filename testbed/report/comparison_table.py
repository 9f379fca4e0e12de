"""A comparison on one screen, as one JSON object, and as CSV."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.report.comparison import Comparison, PolicyResult, verdict
from testbed.report.statistics import Estimate
from testbed.report.words import counted

HEADERS = (
    "RUNS",
    "MEAN JCT s",
    "SPREAD",
    "95 % CI",
    "SPEED-UP",
    "95 % CI",
    "P95 JCT",
    "DELAY",
    "COLLECT",
    "ABORTS",
    "JAIN",
)
CSV_HEADER = ("scenario", "policy", "seed", "job", "finished", "jct_s", "delay_s", "collect_s", "aborts")
CSV_MORE = ("stragglers", "accuracy", "saturated", "folder")


def comparison_table(comparison: Comparison) -> RenderableType:
    head = Text(comparison.name, style="bold", no_wrap=True, overflow="ignore")
    head.append(
        f"   {counted(comparison.devices, 'device')}   {counted(len(comparison.seeds), 'seed')}   "
        f"backend {comparison.backend}   same devices, sessions and jobs for every policy",
        style="not bold",
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("POLICY", no_wrap=True)
    for header in HEADERS:
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for index, result in enumerate(comparison.policies):
        table.add_row(
            Text(result.policy),
            *result_cells(result, first=index == 0),
            Text("best", style="green") if result.best else "",
        )
    lines = [Text(line, no_wrap=True, overflow="ignore") for line in verdicts(comparison)]
    troubles = [Text(line, style="bold red", no_wrap=True, overflow="ignore") for line in problems(comparison)]
    return Group(head, "", table, "", *lines, *troubles)


def verdicts(comparison: Comparison) -> list[str]:
    """One line for each policy but the first."""
    return [verdict(comparison, result) for result in comparison.policies[1:]]


def problems(comparison: Comparison) -> list[str]:
    """Why the comparison is not to be trusted, or not whole."""
    lines = []
    busy = [run for run in comparison.runs if run.saturated]
    if busy:
        names = ", ".join(f"{run.policy} at seed {run.seed}" for run in busy)
        lines.append(f"the host was too busy in {len(busy)} of {counted(len(comparison.runs), 'run')}: {names}")
        lines.append(f"  {busy[0].saturated[0]}; run it on a quieter or larger machine, or with fewer devices")
    for run in comparison.runs:
        if run.mean_jct_s is None:
            jobs = ", ".join(job.name for job in run.jobs if not job.finished) or "a job"
            lines.append(
                f"{run.policy} at seed {run.seed}: {jobs} did not finish; the run is left out (see {run.folder})"
            )
    missed = [run for run in comparison.runs if run.expectations_missed]
    for run in missed:
        lines.append(f"{run.policy} at seed {run.seed}: not met: {'; '.join(run.expectations_missed)}")
    return lines


def comparison_json(comparison: Comparison) -> dict[str, object]:
    """What is infinite (an interval of one run) is null."""
    policies = [_finite(asdict(result)) for result in comparison.policies]
    return {
        "name": comparison.name,
        "devices": comparison.devices,
        "backend": comparison.backend,
        "seeds": list(comparison.seeds),
        "policies": policies,
        "verdicts": verdicts(comparison),
        "problems": problems(comparison),
        "trusted": comparison.trusted,
        "complete": comparison.complete,
        "runs": [
            {"policy": run.policy, "seed": run.seed, "mean_jct_s": run.mean_jct_s, "folder": run.folder}
            for run in comparison.runs
        ],
    }


def comparison_csv(comparisons: Sequence[Comparison]) -> str:
    """A line per job of each run."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow((*CSV_HEADER, *CSV_MORE))
    for comparison in comparisons:
        for run in comparison.runs:
            for job in run.jobs:
                times = (job.jct_s, job.delay_s, job.collect_s, job.aborts)
                more = (job.stragglers, job.accuracy, bool(run.saturated), run.folder)
                writer.writerow((comparison.name, run.policy, run.seed, job.name, job.finished, *times, *more))
    return buffer.getvalue()


def result_cells(result: PolicyResult, *, first: bool) -> list[str]:
    return [
        str(result.mean_jct_s.runs),
        f"{result.mean_jct_s.mean:.1f}",
        f"{result.mean_jct_s.spread:.1f}" if result.mean_jct_s.runs > 1 else "-",
        _interval(result.mean_jct_s, 1),
        "1.00" if first else f"{result.speed_up.mean:.2f}" if result.speed_up else "-",
        "" if first else _interval(result.speed_up, 2) if result.speed_up else "-",
        f"{result.p95_jct_s:.1f}",
        f"{result.delay_s:.1f}",
        f"{result.collect_s:.1f}",
        f"{result.aborts:.1f}",
        f"{result.jain:.2f}",
    ]


def _interval(found: Estimate, digits: int) -> str:
    if found.runs < 2:
        return "-"
    between = "-" if found.low >= 0 else " to "
    return f"{found.low:.{digits}f}{between}{found.high:.{digits}f}"


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
