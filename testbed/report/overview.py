"""Several workloads side by side: the speed-up of every policy over the first, and its mean over the workloads."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.report.comparison import Comparison, Pair
from testbed.report.comparison_table import interval
from testbed.report.statistics import Estimate, geometric_mean, ratio
from testbed.report.words import policy as short

MEAN = "geometric mean"


@dataclass(frozen=True, slots=True)
class OverviewRow:
    workload: str
    speed_ups: tuple[Estimate | None, ...]  # one per policy but the first; None: no seed is common


@dataclass(frozen=True, slots=True)
class Overview:
    base: str  # the policy that the others are held against
    policies: tuple[str, ...]  # the others
    rows: tuple[OverviewRow, ...]
    mean: OverviewRow  # over the workloads, with the interval over seeds


def overview(comparisons: Sequence[Comparison], policies: Sequence[str]) -> Overview:
    """``comparisons`` of the same policies, at least one."""
    base, others = policies[0], tuple(policies[1:])
    rows = [
        OverviewRow(one.name, tuple(pair.speed_up if (pair := _pair(one, policy, base)) else None for policy in others))
        for one in comparisons
    ]
    means = tuple(_mean(comparisons, policy, base) for policy in others)
    return Overview(base, others, tuple(rows), OverviewRow(MEAN, means))


def overview_table(found: Overview) -> RenderableType:
    """A row per workload, two columns per policy: speed-up and interval."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("WORKLOAD", no_wrap=True)
    for policy in found.policies:
        table.add_column(Text(short(policy)), justify="right", no_wrap=True)
        table.add_column("95 % CI", justify="right", no_wrap=True)
    for row in (*found.rows, found.mean):
        cells = [text for each in row.speed_ups for text in overview_cells(each)]
        table.add_row(Text(row.workload, style="bold" if row is found.mean else ""), *cells)
    return Group(Text(f"speed-up over {short(found.base)}", style="bold"), "", table)


def overview_cells(found: Estimate | None) -> tuple[str, str]:
    return ("-", "-") if found is None else (f"{found.mean:.2f}", interval(found))


def overview_json(found: Overview) -> dict[str, object]:
    """What is infinite (an interval of one run) is null."""

    def plain(row: OverviewRow) -> dict[str, object]:
        return {policy: _finite(each) for policy, each in zip(found.policies, row.speed_ups, strict=True)}

    return {
        "against": found.base,
        "workloads": {row.workload: plain(row) for row in found.rows},
        "geometric_mean": plain(found.mean),
    }


def _pair(comparison: Comparison, policy: str, base: str) -> Pair | None:
    return next((pair for pair in comparison.pairs if pair.policy == policy and pair.against == base), None)


def _mean(comparisons: Sequence[Comparison], policy: str, base: str) -> Estimate | None:
    """Each workload's n-th seed goes with the n-th of the others; only where each has both policies."""
    columns = [_ratios(one, policy, base) for one in comparisons]
    turns = min((len(column) for column in columns), default=0)
    whole = [
        geometric_mean([value for value in values if value is not None])
        for values in (tuple(column[turn] for column in columns) for turn in range(turns))
        if None not in values
    ]
    return ratio(whole) if whole else None


def _ratios(comparison: Comparison, policy: str, base: str) -> list[float | None]:
    """By seed: how many times longer the first policy's mean JCT was; None where one of them is missing."""
    found = {(run.policy, run.seed): run.mean_jct_s for run in comparison.runs}
    ratios: list[float | None] = []
    for seed in comparison.seeds:
        own, other = found.get((policy, seed)), found.get((base, seed))
        ratios.append(other / own if own and other else None)
    return ratios


def _finite(found: Estimate | None) -> object:
    if found is None:
        return None
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(found).items()
    }
