"""The page of a comparison: one HTML file that opens offline, with every figure beside it."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from testbed.report.comparison import Comparison, unit_of
from testbed.report.comparison_table import ahead, headers, headline, problems, result_cells, verdicts
from testbed.report.figures.comparison import completion_times, delay_split, differences, speed_up, workloads
from testbed.report.figures.drawing import Drawing, save, styled
from testbed.report.figures.worlds import fairness_curve, supply_and_demand, tier_times
from testbed.report.jsonlines import Row, text, texts
from testbed.report.overview import Overview, overview, overview_cells
from testbed.report.page import environment
from testbed.report.words import policy
from venn.wire.files import write_atomic

PAGE = "comparison.html"
FIGURES = "figures"

DRAWN: tuple[tuple[str, str, Callable[[Comparison, str], Drawing | None]], ...] = (
    ("Speed-up", "", speed_up),
    ("Differences, seed by seed", "", differences),
    ("Job completion times", "", completion_times),
    ("Where the time goes", "", delay_split),
    (
        "Fairness and its price",
        "As the knob grows, jobs come closer to the same multiple of what they would take alone.",
        fairness_curve,
    ),
    (
        "Supply and demand over the day",
        "Grey, left axis: eligible devices that check in, an hour. Lines, right axis: devices that requests ask for "
        "which are not filled yet, in the mean.",
        supply_and_demand,
    ),
    (
        "Response times by tier",
        "A task of the jobs' mean workload on each quarter of the sessions, by speed, without noise.",
        tier_times,
    ),
)


@dataclass(frozen=True, slots=True)
class _Figure:
    title: str
    note: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    kind: str  # a class of the style sheet


@dataclass(frozen=True, slots=True)
class _Shown:
    comparison: Comparison
    headline: list[str]
    headers: tuple[str, ...]
    rows: list[list[str]]
    verdicts: list[str]
    ahead: str
    problems: list[str]
    matrix: list[tuple[str, list[_Cell]]]
    figures: list[_Figure]
    whys: list[str]  # runs were not simulated in bulk


def write_comparison(comparisons: Sequence[Comparison], folder: Path, about: Row) -> Path:
    """Write comparison.html and figures/ into a folder; returns the page's path. ``about`` is the manifest."""
    shown = [_shown(one, folder / FIGURES) for one in comparisons]
    whole = overview(comparisons, texts(about, "policies")) if len(comparisons) > 1 else None
    page = (
        environment()
        .get_template("comparison.html.j2")
        .render(
            shown=shown,
            overview=whole,
            overview_rows=_overview_rows(whole) if whole else [],
            overview_figure=_overview_figure(whole, folder / FIGURES) if whole else "",
            short=policy,
            command=shlex.join(texts(about, "command")),
            facts=_facts(about),
        )
    )
    path = folder / PAGE
    write_atomic(path, page.encode())
    return path


def _shown(comparison: Comparison, folder: Path) -> _Shown:
    unit = unit_of(comparison)
    with styled():
        drawings = [
            (title, note, drawing)
            for title, note, draw in DRAWN
            if comparison.policies and (drawing := draw(comparison, comparison.name)) is not None
        ]
    rows = [
        [policy(result.policy), *result_cells(result, unit, first=index == 0)]
        for index, result in enumerate(comparison.policies)
    ]
    return _Shown(
        comparison,
        headline(comparison).split("   "),
        tuple(_unbroken(header) for header in headers(unit)),
        rows,
        verdicts(comparison),
        ahead(comparison),
        problems(comparison),
        _matrix(comparison),
        [_Figure(title, note, Markup(save(drawing, folder))) for title, note, drawing in drawings],
        list(dict.fromkeys(run.why for run in comparison.runs if run.why)),
    )


def _unbroken(header: str) -> str:
    """A column's header breaks before its last word but one, if at all: its unit stays with what it is of."""
    before, space, last = header.replace("-", "\u2011").rpartition(" ")
    return f"{before}\u00a0{last}" if space and len(last) < 3 else before + space + last


def _matrix(comparison: Comparison) -> list[tuple[str, list[_Cell]]]:
    """How many times shorter a row's policy is than a column's; coloured where the difference is real."""
    found: dict[tuple[str, str], _Cell] = {}
    for pair in comparison.pairs:
        real, ahead = comparison.trusted and pair.shorter_s.real, pair.shorter_s.mean > 0
        kinds = ("ok", "bad") if ahead else ("bad", "ok")
        for key, value, kind in (
            ((pair.policy, pair.against), pair.speed_up.mean, kinds[0]),
            ((pair.against, pair.policy), 1 / pair.speed_up.mean, kinds[1]),
        ):
            found[key] = _Cell(f"{value:.2f}", kind if real else "")
    names = [result.policy for result in comparison.policies]
    return [(policy(row), [found.get((row, column), _Cell("", "")) for column in names]) for row in names]


def _overview_rows(whole: Overview) -> list[tuple[str, list[str]]]:
    return [
        (row.workload, [text for each in row.speed_ups for text in overview_cells(each)])
        for row in (*whole.rows, whole.mean)
    ]


def _overview_figure(whole: Overview, folder: Path) -> Markup:
    with styled():
        drawing = workloads(whole)
    return Markup(save(drawing, folder))


def _facts(about: Row) -> list[tuple[str, str]]:
    facts: dict[str, str] = {}
    for group in ("versions", "machine"):
        value = about.get(group)
        if isinstance(value, dict):
            facts |= {str(name).replace("_", " "): str(one) for name, one in value.items()}
    return [(name, value) for name, value in (*facts.items(), ("commit", text(about, "commit"))) if value]
