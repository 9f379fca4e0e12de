"""Figures of a population: what was made, over what was asked."""

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report.figures.drawing import COLLECT, GAPS, LOSS, WIDTH_IN, Drawing, Hovers, styled
from testbed.report.traces import Compared, Kind, Row

ACROSS = 3  # small figures in a row


def drawings(compared: Sequence[Compared]) -> list[Drawing]:
    """One for each kind that there is: quantities by their percentiles, parts as bars, the hours as a curve."""
    found = []
    with styled("population"):
        for kind, draw in ((Kind.PERCENTILES, _percentiles), (Kind.PARTS, _parts), (Kind.HOURS, _hours)):
            these = [each for each in compared if each.kind is kind]
            if these:
                found.append(_drawing(kind, these, draw))
    return found


def _drawing(kind: Kind, these: Sequence[Compared], draw: Callable[[Axes, Compared], None]) -> Drawing:
    across = min(ACROSS, len(these))
    down = -(-len(these) // across)
    figure = Figure(figsize=(WIDTH_IN, 2.6 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    hovers = Hovers()
    for axes, each in zip(grid, these, strict=False):
        draw(axes, each)
        places, made = [float(place) for place in range(len(each.rows))], [row.made for row in each.rows]
        said = [f"{each.name}, {row.at}: {row.made:.4g} made, {row.asked:.4g} asked" for row in each.rows]
        xs, ys = (made, places) if kind is Kind.PARTS else (places, made)
        hovers.points(axes, xs, ys, said)
        axes.set_title(f"{each.name}, {each.unit}" if each.unit else each.name)
    for axes in grid[len(these) :]:
        axes.set_axis_off()
    grid[0].legend(loc="best")
    rows = [(each.name, each.unit, row.at, row.asked, row.made) for each in these for row in each.rows]
    header = ("what", "unit", "at", "asked", "made")
    return Drawing(f"population-{kind}", f"A population by {kind}, made and asked", figure, header, rows, hovers)


def _asked_or_made(row: Row) -> float:
    return row.made if math.isnan(row.asked) else row.asked


def _percentiles(axes: Axes, each: Compared) -> None:
    places = range(len(each.rows))
    axes.plot(places, [row.made for row in each.rows], color=COLLECT, linewidth=1.4, label="made")
    if each.worst is not None:
        axes.plot(places, [row.asked for row in each.rows], "o", color=LOSS, markersize=4, label="asked")
    axes.set_xticks(places, [row.at.removesuffix(" %") for row in each.rows])
    axes.set_xlabel("percentile")
    if all(min(row.made, _asked_or_made(row)) > 0 for row in each.rows):
        axes.set_yscale("log")
        axes.minorticks_off()
        marks = dict.fromkeys(_asked_or_made(each.rows[place]) for place in (0, len(each.rows) // 2, -1))
        axes.set_yticks(list(marks), [f"{mark:.4g}" for mark in marks])
    axes.grid(axis="y")


def _parts(axes: Axes, each: Compared) -> None:
    places = range(len(each.rows))
    if each.worst is not None:
        axes.barh([place - 0.18 for place in places], [row.asked for row in each.rows], 0.34, color=GAPS, label="asked")
    axes.barh([place + 0.18 for place in places], [row.made for row in each.rows], 0.34, color=COLLECT, label="made")
    axes.set_yticks(places, [row.at for row in each.rows])
    axes.set_ylim(len(each.rows) - 0.5, -0.5)
    axes.grid(axis="x")


def _hours(axes: Axes, each: Compared) -> None:
    places = range(len(each.rows))
    axes.plot(places, [row.made for row in each.rows], color=COLLECT, linewidth=1.4, label="made")
    if each.worst is not None:
        axes.plot(places, [row.asked for row in each.rows], "o", color=LOSS, markersize=4, label="asked")
    axes.set_xticks(places[::3], [row.at for row in each.rows[::3]])
    axes.set_ylim(0, None)
    axes.set_xlabel("time of day")
    axes.grid(axis="y")
