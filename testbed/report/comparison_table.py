"""The tables of a comparison, for one workload and for several: on a screen, as JSON and as CSV."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from rich.console import Group, RenderableType
from rich.text import Text

from testbed.report.comparison import (
    ABORTS,
    JAIN,
    MEAN_COLLECT,
    MEAN_DELAY,
    MEAN_JCT,
    P50_JCT,
    P95_JCT,
    P99_JCT,
    PAIRED,
    WASTED,
    Comparison,
    Estimate,
    Pair,
    PolicyResult,
    fairness,
    ratio,
)
from testbed.report.terminal import line, text_table
from testbed.report.words import counted, large
from testbed.report.words import policy as short
from testbed.runfolder.jsonlines import plain

MOST_NAMED = 3  # jobs that did not finish
CI = "95 % CI"
POLICY, CLAIM, BEST = "POLICY", "CLAIM", ""  # headers
WORDS = (POLICY, CLAIM, BEST)
CSV_HEADER = ("scenario", "policy", "seed", "job", "finished", "jct_s", "delay_s", "collect_s", "aborts")
CSV_MORE = ("wasted_device_s", "alone_s", "stragglers", "accuracy", "saturated", "folder")
INTERVALS_HEADER = ("scenario", "policy", "over", "measure", "mean", "low", "high", "seeds", "claim")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of time, chosen so that times have few digits."""

    name: str
    seconds: float
    digits: int

    def text(self, seconds: float) -> str:
        """A time in this unit, without its name."""
        return f"{seconds / self.seconds:.{self.digits}f}"


SECONDS = Unit("s", 1.0, 1)
HOURS = Unit("h", 3600.0, 2)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as text. Columns of words begin on the left, columns of figures end on the right."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def of_words(self, column: int) -> bool:
        """Whether a column holds words."""
        return self.header[column] in WORDS

    def table(self) -> RenderableType:
        """The table for a terminal."""
        rows = [[Text(cell, style="green" if cell == "best" else "") for cell in row] for row in self.rows]
        table = text_table(self.header, rows, right=[name for name in self.header if name not in WORDS])
        return Group(line(self.title, "bold"), table, "")


def unit_of(comparison: Comparison) -> Unit:
    """The unit for the times of a comparison: hours from 10,000 s on, else seconds."""
    longest = max((result.mean_jct_s.mean for result in comparison.policies), default=0.0)
    return HOURS if longest >= 10_000 else SECONDS


def headline(comparison: Comparison) -> str:
    """The headline: what was compared, on which workload."""
    said = [counted(len(comparison.seeds), "seed"), f"backend {comparison.backend}"]
    if comparison.devices:
        said.insert(0, counted(comparison.devices, "device"))
    else:
        most = max(run.check_ins for run in comparison.runs)
        jobs = max(len(run.jobs) for run in comparison.runs)
        said[:0] = [counted(jobs, "job"), f"up to {large(most)} check-ins a run"]
    return "   ".join([*said, "same devices, sessions and jobs for every policy"])


def comparison_table(comparison: Comparison) -> RenderableType:
    """The tables of one workload, with what is wrong with its runs."""
    head = line(comparison.name, "bold")
    head.append(f"   {headline(comparison)}", style="not bold")
    troubles = [line(each, "bold red") for each in problems(comparison)]
    return Group(head, "", *(sheet.table() for sheet in sheets(comparison)), *troubles)


def sheets(comparison: Comparison) -> list[Sheet]:
    """The tables of a comparison: times, one for each policy that the others are held against, and what it took."""
    others = [_speed_ups(comparison, base) for base in comparison.over]
    return [_times(comparison), *(sheet for sheet in others if sheet.rows), _spent(comparison)]


def _times(comparison: Comparison) -> Sheet:
    unit = unit_of(comparison)
    columns = ((MEAN_JCT, "MEAN JCT"), (P50_JCT, "P50"), (P95_JCT, "P95"), (P99_JCT, "P99"))
    names = [text for _, name in columns for text in (f"{name} {unit.name}", CI)]
    rows = []
    for result in comparison.policies:
        own = result.measures
        runs = own[MEAN_JCT].runs
        whole = len(comparison.seeds)
        seeds = f"{runs} of {whole}" if runs < whole else str(runs)
        times = [text for name, _ in columns for text in (unit.text(own[name].mean), _timespan(own[name], unit))]
        fair = (f"{own[JAIN].mean:.2f}", interval(own[JAIN]))
        rows.append((short(result.policy), seeds, *times, *fair, "best" if result.best else ""))
    return Sheet("job completion times and fairness", (POLICY, "RUNS", *names, "JAIN", CI, BEST), tuple(rows))


def _speed_ups(comparison: Comparison, base: str) -> Sheet:
    """The table of how many times better each other policy is, and whether it may be claimed."""
    names = [text for name in ("MEAN JCT", "P95", "P99", "JAIN") for text in (name, CI)]
    rows = []
    for result in comparison.policies:
        if result.policy == base:
            continue
        pair = comparison.pair(result.policy, base)
        cells = [text for name in PAIRED for text in ratio_cells(pair.ratios[name] if pair else None)]
        rows.append((short(result.policy), str(pair.speed_up.runs if pair else 0), *cells, claim(result, pair)))
    return Sheet(f"times better than {short(base)}, seed by seed", (POLICY, "SEEDS", *names, CLAIM), tuple(rows))


def _spent(comparison: Comparison) -> Sheet:
    unit = unit_of(comparison)
    rows = []
    for result in comparison.policies:
        times = [unit.text(result.measures[name].mean) for name in (MEAN_DELAY, MEAN_COLLECT)]
        counts = (f"{result.measures[ABORTS].mean:.1f}", f"{result.measures[WASTED].mean / unit.seconds:.1f}")
        rows.append((short(result.policy), *times, *counts))
    header = (POLICY, f"DELAY {unit.name}", f"COLLECT {unit.name}", "ABORTS", f"WASTED device-{unit.name}")
    return Sheet("delay and collection of a job, aborts and waste of a run", header, tuple(rows))


def claim(result: PolicyResult, pair: Pair | None) -> str:
    """The claim about a policy's mean JCT against that of another."""
    if pair is None:
        return "no claim: no seed in common"
    if pair.why:
        return f"no claim: {pair.why}"
    return "shorter" if pair.ahead == result.policy else "longer"


def problems(comparison: Comparison) -> list[str]:
    """The reasons why the comparison cannot be trusted, or is not whole."""
    lines = []
    busy = [run for run in comparison.runs if run.saturated]
    if busy:
        names = ", ".join(f"{run.policy} at seed {run.seed}" for run in busy)
        runs = f"{len(busy)} of {counted(len(comparison.runs), 'run')}"
        lines.append(f"the host was too busy in {runs}, which no claim is based on: {names}")
        lines.append(f"  {busy[0].policy} at seed {busy[0].seed}: {busy[0].saturated[0]}")
    for run in comparison.runs:
        if run.mean_jct_s is None and not run.saturated:
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
    """The object that ``--json`` prints of a workload; what is infinite (an interval of one run) is null."""
    return {
        "name": comparison.name,
        "devices": comparison.devices,
        "backend": comparison.backend,
        "seeds": list(comparison.seeds),
        "over": list(comparison.over),
        "policies": [plain(result) for result in comparison.policies],
        "pairs": [plain(pair) for pair in comparison.pairs],
        "problems": problems(comparison),
        "trusted": comparison.trusted,
        "complete": comparison.complete,
        "runs": [
            {name: getattr(run, name) for name in ("policy", "seed", "mean_jct_s")}
            | {"jain": fairness(run) if run.jobs else None}
            | {name: getattr(run, name) for name in ("digest", "check_ins", "wall_s", "path", "why", "folder")}
            for run in comparison.runs
        ],
    }


def comparison_csv(comparisons: Sequence[Comparison]) -> str:
    """Makes CSV with a line for each job of each run."""
    rows: list[tuple[object, ...]] = []
    for comparison in comparisons:
        for run in comparison.runs:
            for job in run.jobs:
                times = (job.jct_s, job.delay_s, job.collect_s, job.aborts)
                worked = (job.wasted_device_s, run.alone_s.get(job.name), job.stragglers)
                more = (*worked, job.accuracy, bool(run.saturated), run.folder)
                rows.append((comparison.name, run.policy, run.seed, job.name, job.finished, *times, *more))
    return _csv((*CSV_HEADER, *CSV_MORE), rows)


def intervals_csv(comparisons: Sequence[Comparison]) -> str:
    """Makes CSV with a line for each measure of each policy, and for each ratio of each policy to each other one."""
    rows: list[tuple[object, ...]] = []
    for comparison in comparisons:
        for result in comparison.policies:
            for name, found in result.measures.items():
                rows.append((comparison.name, result.policy, "", name, *_bounds(found), ""))
            for other in comparison.policies:
                pair = comparison.pair(result.policy, other.policy)
                for name, found in pair.ratios.items() if pair else ():
                    said = claim(result, pair) if name == MEAN_JCT else ""
                    rows.append((comparison.name, result.policy, other.policy, name, *_bounds(found), said))
    return _csv(INTERVALS_HEADER, rows)


def _bounds(found: Estimate) -> tuple[object, ...]:
    """Mean, interval and runs as cells; what is infinite is empty."""
    return found.mean, *(each if math.isfinite(each) else "" for each in (found.low, found.high)), found.runs


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def ratio_cells(found: Estimate | None) -> tuple[str, str]:
    """Two cells: a ratio and its interval."""
    return ("-", "-") if found is None else (f"{found.mean:.2f}", interval(found))


def interval(found: Estimate) -> str:
    """``1.21-1.29``; ``-`` of a single run."""
    return "-" if found.runs < 2 else f"{found.low:.2f}-{found.high:.2f}"


def _timespan(found: Estimate, unit: Unit) -> str:
    """``77.1-90.9``; with a sign, ``-0.2 to 1.3``; ``-`` of a single run."""
    if found.runs < 2:
        return "-"
    return f"{unit.text(found.low)}{'-' if found.low >= 0 else ' to '}{unit.text(found.high)}"


GEOMETRIC_MEAN = "geometric mean"


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One policy against the base, over all workloads."""

    policy: str
    speed_ups: tuple[Estimate | None, ...]  # one per workload, of the mean JCT; None: no seed is common
    means: Mapping[str, Estimate | None]  # each of ``PAIRED``: over the workloads, with the interval over seeds


@dataclass(frozen=True, slots=True)
class Overview:
    """How many times better policies are than one of them, over several workloads."""

    policies: tuple[str, ...]
    base: str  # the one that the others are held against
    workloads: tuple[str, ...]
    rows: tuple[OverviewRow, ...]


def overviews(comparisons: Sequence[Comparison], policies: Sequence[str]) -> list[Overview]:
    """An overview for each policy that the others are compared with; ``comparisons`` is not empty."""
    return [_overview(comparisons, policies, base) for base in comparisons[0].over]


def _overview(comparisons: Sequence[Comparison], policies: Sequence[str], base: str) -> Overview:
    rows = [
        OverviewRow(
            policy,
            tuple(pair.speed_up if (pair := one.pair(policy, base)) else None for one in comparisons),
            {measure: _mean(comparisons, policy, base, measure) for measure in PAIRED},
        )
        for policy in policies
        if policy != base
    ]
    return Overview(tuple(policies), base, tuple(one.name for one in comparisons), tuple(rows))


def overview_sheets(found: Overview) -> list[Sheet]:
    """A row per policy: by workload, and in the mean over the workloads by measure."""
    names = [text for name in (*found.workloads, GEOMETRIC_MEAN) for text in (name, CI)]
    measures = [text for name in ("MEAN JCT", "P95", "P99", "JAIN") for text in (name, CI)]
    by_workload, by_measure = [], []
    for row in found.rows:
        speed_ups = (*row.speed_ups, row.means[MEAN_JCT])
        by_workload.append((short(row.policy), *(cell for each in speed_ups for cell in ratio_cells(each))))
        by_measure.append((short(row.policy), *(cell for each in PAIRED for cell in ratio_cells(row.means[each]))))
    base = short(found.base)
    return [
        Sheet(f"mean JCT: times better than {base}, by workload", (POLICY, *names), tuple(by_workload)),
        Sheet(f"times better than {base}, {GEOMETRIC_MEAN}", (POLICY, *measures), tuple(by_measure)),
    ]


def overview_table(found: Sequence[Overview]) -> RenderableType:
    """The tables over all workloads."""
    return Group(*(sheet.table() for one in found for sheet in overview_sheets(one)))


def overview_json(found: Overview) -> dict[str, object]:
    """The object that ``--json`` prints of an overview; what is infinite (an interval of one run) is null."""
    return {
        "against": found.base,
        "workloads": {
            workload: {row.policy: plain(row.speed_ups[place]) for row in found.rows}
            for place, workload in enumerate(found.workloads)
        },
        "geometric_mean": {
            row.policy: {measure: plain(row.means[measure]) for measure in PAIRED} for row in found.rows
        },
    }


def _mean(comparisons: Sequence[Comparison], policy: str, base: str, measure: str) -> Estimate | None:
    """The mean over workloads, n-th seed with n-th seed, where each workload has both policies."""
    columns = [_ratios(one, policy, base, measure) for one in comparisons]
    turns = min((len(column) for column in columns), default=0)
    whole = [
        geometric_mean([value for value in values if value is not None])
        for values in (tuple(column[turn] for column in columns) for turn in range(turns))
        if None not in values
    ]
    return ratio(whole) if whole else None


def _ratios(comparison: Comparison, policy: str, base: str, measure: str) -> list[float | None]:
    """How many times better one policy is than the other, by seed; None where one of them is missing."""
    pair = comparison.pair(policy, base)
    return [pair.by_seed[measure].get(seed) if pair else None for seed in comparison.seeds]
