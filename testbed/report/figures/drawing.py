"""What a figure is, how all of them look, and how one is saved and put into a page."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#1f2933"
QUIET = "#7b8794"
RULE = "#d9dee3"
LOSS = "#b3382c"
DELAY = "#d9a441"
COLLECT = "#2f6f8f"
GAPS = "#b8c0c8"
JOBS = ("#2f6f8f", "#c8693b", "#5b8a4a", "#8a5a9e", "#b08a2e", "#4c5c96", "#97566b", "#5c6b7a")
WIDTH_IN = 10.4

STYLE: Mapping[Any, Any] = {  # matplotlib types its keys as a literal of 300 names
    "text.parse_math": False,  # a $ in a name is a $
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's font
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": QUIET,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": QUIET,
    "ytick.color": INK,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": INK,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
}

_FONT = re.compile(r"font: ([^;\"]*?)([\d.]+)px [^;\"]+")
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^)"]+)')


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure and the numbers that it shows."""

    name: str  # of its files
    figure: Figure
    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    hovers: Mapping[str, str] = field(default_factory=dict)  # id of an artist -> what a pointer over it says


@contextmanager
def styled(salt: str = "venn") -> Iterator[None]:
    """Every figure is made and saved inside; the same ``salt`` gives the same bytes."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": salt}):
        yield


def job_colours(names: Sequence[str]) -> dict[str, str]:
    """The same colour for a job in every figure."""
    return {name: JOBS[index % len(JOBS)] for index, name in enumerate(names)}


def lanes(axes: Axes, names: Sequence[str], unit: str = "seconds") -> None:
    """A lane per name, from the top down; the x axis is time."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    axes.set_xlabel(unit)


def save(drawing: Drawing, folder: Path) -> str:
    """Write NAME.svg, NAME.pdf and NAME.csv; returns the SVG for a page."""
    folder.mkdir(parents=True, exist_ok=True)
    with styled(drawing.name):
        drawing.figure.savefig(folder / f"{drawing.name}.pdf", bbox_inches="tight", metadata={"CreationDate": None})
        buffer = io.StringIO()
        drawing.figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = _with_hovers(buffer.getvalue(), drawing.hovers)
    (folder / f"{drawing.name}.svg").write_text(svg)
    with (folder / f"{drawing.name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(drawing.header)
        writer.writerows(drawing.rows)
    return _inline(svg, drawing.name)


def _with_hovers(svg: str, hovers: Mapping[str, str]) -> str:
    for artist, said in hovers.items():
        svg = svg.replace(f'<g id="{artist}">', f'<g id="{artist}"><title>{escape(said)}</title>', 1)
    return svg


def _inline(svg: str, name: str) -> str:
    """Without XML's head, in the page's font, and with ids that no other figure of the page has."""
    svg = svg[svg.index("<svg") :]
    svg = _FONT.sub(r"font: \1\2px var(--sans)", svg)
    svg = _ID.sub(rf'id="{name}-\1"', svg)
    return _REFERENCE.sub(rf"\1{name}-\2", svg)
