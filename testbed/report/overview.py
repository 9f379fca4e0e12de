"""Several workloads side by side: how many times better every policy is than one, and its mean over the workloads."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Group, RenderableType

from testbed.report.comparison import MEAN_JCT, PAIRED, Comparison
from testbed.report.comparison_table import CI, POLICY, Sheet, finite, ratio_cells
from testbed.report.statistics import Estimate, geometric_mean, ratio
from testbed.report.words import policy as short

GEOMETRIC_MEAN = "geometric mean"


@dataclass(frozen=True, slots=True)
class OverviewRow:
    policy: str
    speed_ups: tuple[Estimate | None, ...]  # one per workload, of the mean JCT; None: no seed is common
    means: Mapping[str, Estimate | None]  # each of ``PAIRED``: over the workloads, with the interval over seeds


@dataclass(frozen=True, slots=True)
class Overview:
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
    return Group(*(sheet.table() for one in found for sheet in overview_sheets(one)))


def overview_json(found: Overview) -> dict[str, object]:
    """What is infinite (an interval of one run) is null."""
    return {
        "against": found.base,
        "workloads": {
            workload: {row.policy: _plain(row.speed_ups[place]) for row in found.rows}
            for place, workload in enumerate(found.workloads)
        },
        "geometric_mean": {
            row.policy: {measure: _plain(row.means[measure]) for measure in PAIRED} for row in found.rows
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
    """By seed: how many times better one policy is than the other; None where one of them is missing."""
    pair = comparison.pair(policy, base)
    return [pair.by_seed[measure].get(seed) if pair else None for seed in comparison.seeds]


def _plain(found: Estimate | None) -> object:
    return None if found is None else finite(asdict(found))
