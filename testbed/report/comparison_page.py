"""The page of a comparison: one HTML file that opens offline, with every figure beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from testbed.report.comparison import Comparison
from testbed.report.comparison_table import HEADERS, problems, result_cells, verdicts
from testbed.report.figures.comparison import completion_times, delay_split, differences, speed_up
from testbed.report.figures.drawing import save, styled
from testbed.report.page import environment
from venn.wire.files import write_atomic

PAGE = "comparison.html"
FIGURES = "figures"


@dataclass(frozen=True, slots=True)
class _Shown:
    comparison: Comparison
    rows: list[list[str]]
    verdicts: list[str]
    problems: list[str]
    figures: dict[str, Markup]


def write_comparison(comparisons: Sequence[Comparison], folder: Path) -> Path:
    """Write comparison.html and figures/ into a folder; returns the page's path."""
    shown = [_shown(one, folder / FIGURES) for one in comparisons]
    page = environment().get_template("comparison.html.j2").render(shown=shown, headers=HEADERS)
    path = folder / PAGE
    write_atomic(path, page.encode())
    return path


def _shown(comparison: Comparison, folder: Path) -> _Shown:
    with styled():
        drawings = {
            draw.__name__: draw(comparison, comparison.name)
            for draw in (speed_up, completion_times, delay_split, differences)
            if comparison.policies
        }
    return _Shown(
        comparison,
        [[result.policy, *result_cells(result, first=index == 0)] for index, result in enumerate(comparison.policies)],
        verdicts(comparison),
        problems(comparison),
        {name: Markup(save(drawing, folder)) for name, drawing in drawings.items()},
    )
