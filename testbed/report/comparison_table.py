"""A comparison on one screen, as one JSON object, and as CSV."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.report.comparison import Comparison, PolicyResult, Unit, fairness, unit_of, verdict
from testbed.report.statistics import Estimate
from testbed.report.words import counted, large
from testbed.report.words import policy as short

MOST_NAMED = 3  # jobs that did not finish
CSV_HEADER = ("scenario", "policy", "seed", "job", "finished", "jct_s", "delay_s", "collect_s", "aborts")
CSV_MORE = ("wasted_device_s", "alone_s", "stragglers", "accuracy", "saturated", "folder")


def headers(unit: Unit) -> tuple[str, ...]:
    """Of the columns after the policy's."""
    name = unit.name
    times = (f"MEAN JCT {name}", "95 % CI", "SPEED-UP", "95 % CI", f"P50 {name}", f"P95 {name}", f"P99 {name}")
    return ("RUNS", *times, f"DELAY {name}", f"COLLECT {name}", "ABORTS", f"WASTED device-{name}", "JAIN")


def headline(comparison: Comparison) -> str:
    """What was compared, on what."""
    said = [counted(len(comparison.seeds), "seed"), f"backend {comparison.backend}"]
    if comparison.devices:
        said.insert(0, counted(comparison.devices, "device"))
    else:
        most = max(run.check_ins for run in comparison.runs)
        jobs = max(len(run.jobs) for run in comparison.runs)
        said[:0] = [counted(jobs, "job"), f"up to {large(most)} check-ins a run"]
    return "   ".join([*said, "same devices, sessions and jobs for every policy"])


def comparison_table(comparison: Comparison) -> RenderableType:
    unit = unit_of(comparison)
    head = Text(comparison.name, style="bold", no_wrap=True, overflow="ignore")
    head.append(f"   {headline(comparison)}", style="not bold")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("POLICY", no_wrap=True)
    for header in headers(unit):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for index, result in enumerate(comparison.policies):
        table.add_row(
            Text(short(result.policy)),
            *result_cells(result, unit, first=index == 0),
            Text("best", style="green") if result.best else "",
        )
    lines = [Text(line, no_wrap=True, overflow="ignore") for line in verdicts(comparison)]
    lines += [Text(line, no_wrap=True, overflow="ignore") for line in [ahead(comparison)] if line]
    troubles = [Text(line, style="bold red", no_wrap=True, overflow="ignore") for line in problems(comparison)]
    return Group(head, "", table, "", *lines, *troubles)


def verdicts(comparison: Comparison) -> list[str]:
    """One line for each policy but the first."""
    return [verdict(comparison, result, unit_of(comparison)) for result in comparison.policies[1:]]


def ahead(comparison: Comparison) -> str:
    """Beside what ``verdicts`` say: which of the policies after the first are really ahead of which; empty: none is."""
    if not comparison.trusted:
        return ""
    found: dict[str, list[str]] = {}
    for pair in comparison.pairs:
        if pair.against == comparison.first or not pair.shorter_s.real:
            continue
        both = (pair.policy, pair.against) if pair.shorter_s.mean > 0 else (pair.against, pair.policy)
        found.setdefault(short(both[0]), []).append(short(both[1]))
    said = "; ".join(f"{one} of {', '.join(others)}" for one, others in found.items())
    return f"really ahead as well: {said}" if said else ""


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
            left = [job.name for job in run.jobs if not job.finished]
            jobs = ", ".join(left[:MOST_NAMED]) or "a job"
            more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
            lines.append(
                f"{run.policy} at seed {run.seed}: {jobs}{more} did not finish; the run is left out (see {run.folder})"
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
        "pairs": [_finite(asdict(pair)) for pair in comparison.pairs],
        "verdicts": verdicts(comparison),
        "ahead": ahead(comparison),
        "problems": problems(comparison),
        "trusted": comparison.trusted,
        "complete": comparison.complete,
        "runs": [
            {
                "policy": run.policy,
                "seed": run.seed,
                "mean_jct_s": run.mean_jct_s,
                "jain": fairness(run) if run.jobs else None,
                "digest": run.digest,
                "check_ins": run.check_ins,
                "wall_s": run.wall_s,
                "path": run.path,
                "why": run.why,
                "folder": run.folder,
            }
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
                worked = (job.wasted_device_s, job.alone_s, job.stragglers)
                more = (*worked, job.accuracy, bool(run.saturated), run.folder)
                writer.writerow((comparison.name, run.policy, run.seed, job.name, job.finished, *times, *more))
    return buffer.getvalue()


def result_cells(result: PolicyResult, unit: Unit, *, first: bool) -> list[str]:
    """Of the columns of ``headers``."""
    mean = result.mean_jct_s
    times = (result.p50_jct_s, result.p95_jct_s, result.p99_jct_s, result.delay_s, result.collect_s)
    return [
        str(mean.runs),
        unit.text(mean.mean),
        "-" if mean.runs < 2 else between(unit.text(mean.low), unit.text(mean.high), mean.low),
        "1.00" if first else f"{result.speed_up.mean:.2f}" if result.speed_up else "-",
        "" if first else interval(result.speed_up),
        *(unit.text(each) for each in times),
        f"{result.aborts:.1f}",
        f"{result.wasted_device_s / unit.seconds:.1f}",
        f"{result.jain:.2f}",
    ]


def interval(found: Estimate | None, digits: int = 2) -> str:
    """Of a ratio."""
    if found is None or found.runs < 2:
        return "-"
    return between(f"{found.low:.{digits}f}", f"{found.high:.{digits}f}", found.low)


def between(low: str, high: str, lowest: float) -> str:
    """``1.21-1.29``; with a sign, ``-0.2 to 1.3``."""
    return f"{low}-{high}" if lowest >= 0 else f"{low} to {high}"


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
