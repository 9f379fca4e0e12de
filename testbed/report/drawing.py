"""The base of all figures: their style, their files, and their form on a page."""

import csv
import io
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#1f2933"
QUIET = "#66717d"
RULE = "#d9dee3"
LOSS = "#b3382c"
DELAY = "#d9a441"
COLLECT = "#2f6f8f"
GAPS = "#b8c0c8"
JOBS = ("#2f6f8f", "#c8693b", "#5b8a4a", "#8a5a9e", "#b08a2e", "#4c5c96", "#97566b", "#5c6b7a")
PAPER = "#ffffff"
TINTS = ("#dfe9ee", "#b9d0db", "#86aec0")
DARK: Mapping[str, str] = {  # every colour of a figure, and what a page makes of it where the reader prefers dark ones
    INK: "#e4e8ec",
    QUIET: "#a3adb8",
    RULE: "#39424c",
    LOSS: "#ee8578",
    DELAY: "#dcae52",
    COLLECT: "#5fa6cb",
    GAPS: "#727d88",
    PAPER: "#15191e",
    **dict(zip(TINTS, ("#22303a", "#2b4555", "#396179"), strict=True)),
    **dict(zip(JOBS[1:], ("#e2905f", "#86b974", "#b78fcc", "#d3b05c", "#8c9ad8", "#cf8fa4", "#98a7b6"), strict=True)),
}
WIDTH_IN = 8.0
NARROW_IN = 3.45  # the width of a figure that fits a phone of 412 px whole
_NARROW_NAME, _NARROW_LABEL = 13, 44  # characters in a line of a narrow figure
SMALLEST_PT = 8.0  # of any text in a figure
LEAST_PX = 11.0  # of any text in a figure on a page, however narrow: a wider figure scrolls in its own box
MOST_PX = 15.3 / 8.5  # on a page, of a point
MOST_POINTS = 40  # of a line that say something to a pointer

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

_FACE = re.compile(r"'DejaVu Sans'[^;\"]*")
_TAG = re.compile(r"<[^>]+>")
_BETWEEN = re.compile(r">\s+<")
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_SIZE = re.compile(r'width="([\d.]+)pt" height="[\d.]+pt"')
_ID = re.compile(r' id="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^)"]+)')
_MARK = re.compile(r"(<use [^>]*?)/>")
_VARIABLES = {colour: f"--f{index}" for index, colour in enumerate(DARK)}  # of a page's style sheet


class Hovers(dict[str, str | Sequence[str]]):
    """The texts that artists show to a pointer, by the id of the artist; a sequence has one for each of its markers."""

    def say(self, artist: Artist, said: str | Sequence[str]) -> None:
        """Give an artist its text."""
        name = f"tip-{len(self)}"
        artist.set_gid(name)
        self[name] = said

    def points(self, axes: Axes, xs: Sequence[float], ys: Sequence[float], said: Sequence[str]) -> None:
        """Give texts to places that have no mark of their own; of many, to one in so many."""
        step = -(-len(said) // MOST_POINTS) or 1
        look: dict[str, Any] = {
            "linestyle": "",
            "marker": "o",
            "markersize": 9,
            "markeredgewidth": 0,
            "color": INK,
            "alpha": 0,
        }
        (marks,) = axes.plot(xs[::step], ys[::step], zorder=5, **look)
        self.say(marks, said[::step])


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure and the numbers that it shows."""

    name: str  # of its files
    title: str  # what it shows, for those who do not see it
    figure: Figure
    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    hovers: Mapping[str, str | Sequence[str]] = field(default_factory=dict)  # by ``Hovers``


@contextmanager
def styled(salt: str = "venn") -> Iterator[None]:
    """Applies the style of all figures, which are made and saved inside; the same ``salt`` gives the same bytes."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": salt}):
        yield


def canvas(width_in: float, height_in: float) -> Figure:
    """A figure of a width and a height, inches; a narrow one keeps all its text within its width."""
    return Figure(figsize=(width_in, height_in), layout="constrained" if width_in < WIDTH_IN else None)


def _figure_of(axes: Axes) -> Figure:
    assert isinstance(axes.figure, Figure)
    return axes.figure


def _is_narrow(axes: Axes) -> bool:
    return _figure_of(axes).get_figwidth() < WIDTH_IN


def job_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each job, the same in every figure."""
    return {name: JOBS[index % len(JOBS)] for index, name in enumerate(names)}


def lanes(axes: Axes, names: Sequence[str], unit: str = "seconds") -> None:
    """Prepare axes with a lane for each name, from the top down; the x axis is time."""
    shown = [textwrap.fill(name, _NARROW_NAME) for name in names] if _is_narrow(axes) else names
    axes.set_yticks(range(len(names)), shown)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    axes.set_xlabel(unit)


def legend_above(axes: Axes, **options: Any) -> None:
    """Put a legend above the axes, on the left; in a narrow figure, an entry in each line, and the figure grows."""
    if _is_narrow(axes):
        handles, labels = axes.get_legend_handles_labels()
        labels = [textwrap.fill(label, _NARROW_LABEL) for label in labels]
        figure = _figure_of(axes)
        figure.set_figheight(figure.get_figheight() + 0.17 * sum(1 + label.count("\n") for label in labels))
        figure.legend(handles, labels, loc="outside upper left", handlelength=1, handleheight=1, labelspacing=0.35)
        return
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    axes.legend(**{"ncols": 3, "handlelength": 1, "handleheight": 1} | place | options)


def save(drawing: Drawing, folder: Path, narrow: Drawing | None = None) -> Markup:
    """Write NAME.svg, NAME.pdf and NAME.csv; returns the figure for a page.

    ``narrow`` shows the same at ``NARROW_IN``: the page has it in place of the other where it is narrow itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with styled(drawing.name):
        drawing.figure.savefig(folder / f"{drawing.name}.pdf", bbox_inches="tight", metadata={"CreationDate": None})
    svg = _svg(drawing)
    (folder / f"{drawing.name}.svg").write_text(svg)
    with (folder / f"{drawing.name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(drawing.header)
        writer.writerows(drawing.rows)
    if narrow is None:
        return _figure(drawing.title, "scroll", _inline(svg, drawing.name))
    small = _inline(_svg(narrow), f"{drawing.name}-narrow")
    broad = _figure(drawing.title, "scroll broad", _inline(svg, drawing.name))
    return broad + _figure(drawing.title, "scroll narrow", small)


def _svg(drawing: Drawing) -> str:
    buffer = io.StringIO()
    with styled(drawing.name):
        drawing.figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return _with_hovers(buffer.getvalue(), drawing.hovers)


def _figure(title: str, look: str, svg: str) -> Markup:
    said = escape(title, quote=True)
    return Markup(f'<figure class="{look}" role="group" tabindex="0" aria-label="{said}">{svg}</figure>')


def palette_css() -> str:
    """The variables of a page's style sheet that its figures are coloured with, light and dark."""
    light = "".join(f"{name}:{colour};" for colour, name in _VARIABLES.items())
    dark = "".join(f"{name}:{DARK[colour]};" for colour, name in _VARIABLES.items())
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"


def colour_of_page(colour: str) -> str:
    """A colour of a figure, as a style sheet of a page has it."""
    return f"var({_VARIABLES[colour]})"


def _with_hovers(svg: str, hovers: Mapping[str, str | Sequence[str]]) -> str:
    for artist, said in hovers.items():
        before, head, after = svg.partition(f'<g id="{artist}">')
        if not head:
            continue
        svg = before + head + (_title(said) + after if isinstance(said, str) else _marked(after, said))
    return svg


def _marked(svg: str, said: Sequence[str]) -> str:
    """Adds a title to each of the first markers."""
    texts = iter(said)
    return _MARK.sub(lambda mark: f"{mark[1]}>{_title(next(texts))}</use>", svg, len(said))


def _title(said: str) -> str:
    return f"<title>{escape(said)}</title>"


def _inline(svg: str, name: str) -> str:
    """A figure for a page: only what a page needs, in its font and colours, with ids that no other figure has."""
    svg = _METADATA.sub("", svg[svg.index("<svg") :])
    svg = _BETWEEN.sub("><", _TAG.sub(_tag, svg))
    used = {found[2] for found in _REFERENCE.finditer(svg)}
    svg = _ID.sub(lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", svg)
    svg = _REFERENCE.sub(rf"\1{name}-\2", svg)
    return _SIZE.sub(_fitting, svg, count=1)


def _tag(found: re.Match[str]) -> str:
    tag = _DECIMALS.sub(r"\1", " ".join(found[0].split()))
    tag = _COLOUR.sub(lambda colour: colour_of_page(colour[0]) if colour[0] in _VARIABLES else colour[0], tag)
    return _FACE.sub("var(--sans)", tag)


def _fitting(found: re.Match[str]) -> str:
    """The style that makes a figure as wide as its place on the page, within what keeps its text readable."""
    points = float(found[1])
    least = math.ceil(points * LEAST_PX / SMALLEST_PT)
    return f'style="min-width: {least}px; max-width: {points * MOST_PX:.0f}px"'
