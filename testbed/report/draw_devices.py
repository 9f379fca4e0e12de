"""Figures of devices and their machine: job groups, sessions and tasks, processor and event loops, a population."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, pi, sin
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch

from coordinator.engine.ids import DeviceId, GroupId, JobId
from coordinator.engine.requirements import group_of
from testbed.report.drawing import (
    COLLECT,
    GAPS,
    INK,
    JOBS,
    LOSS,
    QUIET,
    RULE,
    SMALLEST_PT,
    TINTS,
    WIDTH_IN,
    Drawing,
    Hovers,
    job_colours,
    legend_above,
    styled,
)
from testbed.report.explain import end_by
from testbed.report.history import History, SessionHistory
from testbed.report.host import BUSY_FRACTION
from testbed.report.population import Compared, Kind, Row
from testbed.report.record import RunRecord
from testbed.report.words import counted, seconds
from testbed.runfolder.jsonlines import number
from testbed.runfolder.summary import CLOCK, JobFigures
from venn.wire.process import STALL_S


@dataclass(frozen=True, slots=True)
class Group:
    """The jobs with one requirement, and the devices that meet it."""

    group: GroupId  # the canonical text of the requirement
    name: str  # for people
    jobs: tuple[JobId, ...]
    devices: frozenset[DeviceId]  # eligible
    check_ins: int  # of them
    demand: int  # places that its jobs asked for, over all attempts


@dataclass(frozen=True, slots=True)
class Region:
    """The devices that meet exactly these requirements: a cell of the Venn diagram."""

    groups: tuple[str, ...]  # names, in the order of ``Diagram.groups``; empty: no job wants these devices
    devices: tuple[DeviceId, ...]
    check_ins: int
    leases: dict[str, int]  # job name -> leases that these devices had


@dataclass(frozen=True, slots=True)
class Diagram:
    """The Venn diagram of a run: job groups, and the regions that they cut the devices into."""

    groups: tuple[Group, ...]  # the widest first
    regions: tuple[Region, ...]  # by devices, descending
    span_s: float  # that check-ins are counted over


def diagram(history: History) -> Diagram:
    """Cut the devices that were seen into regions."""
    groups = _groups(history)
    region_of = {
        device: tuple(group.name for group in groups if device in group.devices)
        for device in sorted(history.capabilities)
    }
    check_ins = Counter(region_of[session.device] for session in history.sessions.values())
    leases: dict[tuple[str, ...], Counter[str]] = {}
    for lease in history.leases.values():
        leases.setdefault(region_of[lease.device], Counter())[history.jobs[lease.job].name] += 1
    members: dict[tuple[str, ...], list[DeviceId]] = {}
    for device, region in region_of.items():
        members.setdefault(region, []).append(device)
    regions = [
        Region(names, tuple(devices), check_ins[names], dict(leases.get(names, Counter())))
        for names, devices in members.items()
    ]
    regions.sort(key=lambda region: (-len(region.devices), region.groups))
    return Diagram(groups, tuple(regions), history.ended_s)


def _groups(history: History) -> tuple[Group, ...]:
    jobs: dict[GroupId, list[JobId]] = {}
    for key, job in history.jobs.items():
        jobs.setdefault(group_of(job.spec.requirement), []).append(key)
    names = Counter(history.jobs[keys[0]].spec.requirement_name for keys in jobs.values())
    groups = []
    for group, keys in jobs.items():
        first = history.jobs[keys[0]]
        name = first.spec.requirement_name
        devices = frozenset(
            device
            for device, capabilities in history.capabilities.items()
            if first.spec.requirement.matches(device, capabilities)
        )
        check_ins = sum(session.device in devices for session in history.sessions.values())
        demand = sum(attempt.places for key in keys for attempt in history.jobs[key].attempts)
        unique = name if name and names[name] == 1 else str(group)
        groups.append(Group(group, unique, tuple(keys), devices, check_ins, demand))
    groups.sort(key=lambda group: (-len(group.devices), group.group))
    return tuple(groups)


MOST_CIRCLES = 3
MOST_STRIPS = 240  # devices drawn; the CSV has all

Point = tuple[float, float]


def venn(found: Diagram) -> Drawing | None:
    """Draws circles for up to three groups; None for more, or for none."""
    groups = found.groups
    if not 1 <= len(groups) <= MOST_CIRCLES:
        return None
    figure = Figure(figsize=(3.75, 3.5))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_aspect("equal")
    nested = all(wide.devices >= narrow.devices for wide, narrow in pairwise(groups))
    circles = _nested(len(groups)) if nested else _around(len(groups))
    hovers = Hovers()
    for index, (group, (centre, radius)) in enumerate(zip(groups, circles, strict=True)):
        face = TINTS[index] if nested else TINTS[1]
        circle = Circle(centre, radius, facecolor=face, edgecolor=INK, linewidth=0.8, alpha=1 if nested else 0.45)
        axes.add_patch(circle)
        hovers.say(circle, f"{group.name}: {counted(len(group.devices), 'device')}; places asked for: {group.demand}")
    regions = {region.groups: region for region in found.regions}
    names = [group.name for group in groups]
    for members, place in _places(circles, nested).items():
        region = regions.get(tuple(names[index] for index in members))
        _label(axes, place, region, names[members[-1]] if nested or len(members) == 1 else "", found.span_s)
    axes.set_xlim(-1.75 if not nested else -1.05, 1.75 if not nested else 1.05)
    axes.set_ylim(-1.55 if not nested else -1.05, 1.65 if not nested else 1.05)
    rows = [(" & ".join(region.groups) or "none", len(region.devices), region.check_ins) for region in found.regions]
    return Drawing(
        "venn", "Groups of devices that jobs can use", figure, ("groups", "devices", "check_ins"), rows, hovers
    )


def _nested(count: int) -> list[tuple[Point, float]]:
    """Circles, each inside the one before, all touching low, so that a crescent above each is free for its label."""
    radii = {1: (1.0,), 2: (1.0, 0.64), 3: (1.0, 0.7, 0.4)}[count]
    return [((0.0, radius - 1.0 + 0.06 * index), radius) for index, radius in enumerate(radii)]


def _around(count: int) -> list[tuple[Point, float]]:
    if count == 2:
        return [((-0.55, 0.0), 1.0), ((0.55, 0.0), 1.0)]
    angles = [pi / 2 + 2 * pi * index / count for index in range(count)]
    return [((0.6 * cos(angle), 0.6 * sin(angle)), 1.0) for angle in angles]


def _places(circles: Sequence[tuple[Point, float]], nested: bool) -> dict[tuple[int, ...], Point]:
    """The place of the label of each region, by the indexes of its groups."""
    if nested:
        tops = [centre[1] + radius for centre, radius in circles]
        lows = [*tops[1:], circles[-1][0][1] - circles[-1][1]]
        return {
            tuple(range(index + 1)): (0.0, (top + low) / 2)
            for index, (top, low) in enumerate(zip(tops, lows, strict=True))
        }
    places = {}
    for bits in range(1, 2 ** len(circles)):
        members = tuple(index for index in range(len(circles)) if bits >> index & 1)
        x = sum(circles[index][0][0] for index in members) / len(members)
        y = sum(circles[index][0][1] for index in members) / len(members)
        push = {1: 1.75 if len(circles) == 3 else 1.6, 2: 1.9}.get(len(members), 1.0)
        places[members] = (x * push, y * push)
    return places


def _label(axes: Axes, place: Point, region: Region | None, name: str, span_s: float) -> None:
    x, y = place
    devices = len(region.devices) if region else 0
    rate = region.check_ins / span_s if region and span_s > 0 else 0.0
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALLEST_PT}
    if name:
        axes.text(x, y + 0.13, name, fontweight="bold", **look | {"fontsize": 9})
    axes.text(x, y - (0.01 if name else 0), counted(devices, "device"), **look)
    axes.text(x, y - (0.15 if name else 0.13), f"{rate:.1f} check in per s", **look)


def churn(
    history: History, jobs: Sequence[JobFigures], fleets: dict[str, str], injected: Sequence[tuple[str, float]] = ()
) -> Drawing:
    """Draws a strip per device: its sessions, the tasks in them, where it left in mid-task, and what was done to it.

    ``injected`` holds the device and the engine time of each action of the timeline.
    """
    colours = job_colours([job.name for job in jobs])
    order = {fleet: index for index, fleet in enumerate(dict.fromkeys(fleets.values()))}
    devices = sorted(history.capabilities, key=lambda device: (order.get(fleets.get(device, ""), 0), device))
    shown = devices[:MOST_STRIPS]
    start, end = history.window
    figure = Figure(figsize=(WIDTH_IN, 1.0 + 0.06 * len(shown)))
    axes = figure.add_subplot()
    hovers = Hovers()
    rows = _strips(axes, history, shown, colours, hovers)
    _fleet_labels(axes, shown, fleets)
    axes.set_ylim(len(shown) - 0.3, -0.7)
    axes.set_xlim(start, max(end, start + 1.0))
    axes.set_xlabel(CLOCK)
    axes.spines["left"].set_visible(False)
    legend: list[Artist] = [
        Patch(color=RULE, label="in session"),
        *(Patch(color=colour, label=f"works for {name}") for name, colour in colours.items()),
    ]
    legend.append(Line2D([], [], marker="x", linestyle="", color=LOSS, markersize=4, label="left in mid-task"))
    lanes = {str(device): lane for lane, device in enumerate(shown)}
    if marks := [(at, lanes[device]) for device, at in injected if device in lanes]:
        xs, ys = zip(*marks, strict=True)
        axes.scatter(xs, ys, marker="|", s=22, linewidths=1.2, color=INK, zorder=4)
        legend.append(Line2D([], [], marker="|", linestyle="", color=INK, markersize=5, label="by the timeline"))
    legend_above(axes, handles=legend, ncols=4)
    header = ("device", "session", "from_s", "to_s", "end", "in_task")
    return Drawing("churn", "Sessions and tasks of every device over time", figure, header, rows, hovers)


def _strips(
    axes: Axes, history: History, shown: Sequence[DeviceId], colours: dict[str, str], hovers: Hovers
) -> list[tuple[object, ...]]:
    end = history.window[1]
    lane = {device: index for index, device in enumerate(shown)}
    sessions: dict[DeviceId, list[SessionHistory]] = {}
    rows: list[tuple[object, ...]] = []
    for session in history.sessions.values():
        sessions.setdefault(session.device, []).append(session)
        how = session.end.value if session.end else "open"
        rows.append((session.device, session.session, session.started_at, session.ended_at, how, session.in_task))
    for device, index in lane.items():
        mine = sessions.get(device, [])
        spans = [(one.started_at, end_by(one.ended_at, history.ended_s) - one.started_at) for one in mine]
        strip = axes.broken_barh(spans, (index - 0.36, 0.72), facecolors=RULE, linewidth=0)
        lost = sum(one.in_task for one in mine)
        hovers.say(strip, f"{device}: {counted(len(mine), 'session')}, {lost} ended in mid-task")
    work: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for lease in history.leases.values():
        if lease.device in lane:
            spans = [(since, end_by(until, history.ended_s) - since) for since, until in lease.spans]
            work.setdefault((history.jobs[lease.job].name, lane[lease.device]), []).extend(spans)
    for (job, index), spans in work.items():
        strip = axes.broken_barh(spans, (index - 0.36, 0.72), facecolors=colours[job], linewidth=0)
        worked = seconds(sum(length for _, length in spans))
        hovers.say(strip, f"{shown[index]}: {counted(len(spans), 'task')} of {job}, {worked} s")
    left = [one for one in history.sessions.values() if one.in_task and one.device in lane and one.ended_at is not None]
    points = [(one.ended_at, lane[one.device]) for one in left if one.ended_at is not None and one.ended_at <= end]
    if points:
        xs, ys = zip(*points, strict=True)
        axes.scatter(xs, ys, marker="x", s=9, linewidths=0.8, color=LOSS, zorder=3)
    return rows


def _fleet_labels(axes: Axes, shown: Sequence[DeviceId], fleets: dict[str, str]) -> None:
    """Draw the name of a fleet in the middle of its devices, and a line between fleets."""
    members: dict[str, list[int]] = {}
    for index, device in enumerate(shown):
        members.setdefault(fleets.get(device, ""), []).append(index)
    axes.set_yticks([(lanes[0] + lanes[-1]) / 2 for lanes in members.values()], list(members))
    axes.tick_params(axis="y", length=0)
    for lanes in members.values():
        if lanes[0] > 0:
            axes.axhline(lanes[0] - 0.5, color=QUIET, linewidth=0.5)


MOST_PROCESSES = 6  # drawn by name, the latest ones; the CSV has all


def host(record: RunRecord, window: tuple[float, float]) -> Drawing | None:
    """Draws processor and event loops over time; None if neither was recorded."""
    if not record.host_samples and not record.loads:
        return None
    origin = record.journal.wall_ms / 1000
    figure = Figure(figsize=(WIDTH_IN, 2.3))
    left, right = figure.subplots(1, 2)
    cpu = [(number(row, "at") - origin, 100 * number(row, "cpu_fraction")) for row in record.host_samples]
    hovers = Hovers()
    if cpu:
        times, values = zip(*cpu, strict=True)
        left.plot(times, values, color=COLLECT, linewidth=1.2)
        hovers.points(left, times, values, [f"{seconds(at)} s: {value:.0f} % busy" for at, value in cpu])
    left.axhline(100 * BUSY_FRACTION, color=LOSS, linewidth=0.7, linestyle=(0, (3, 3)))
    left.set_ylim(0, 105)
    left.set_title("processor, % of all cores")
    rows: list[tuple[object, ...]] = [("cpu_percent", at, value) for at, value in cpu]
    lags = {
        name: [(number(row, "at") - origin, 1000 * number(row, "lag_p99_s")) for row in rows]
        for name, rows in record.loads.items()
    }
    worst = sorted(lags, key=lambda name: (-max(value for _, value in lags[name]), name))[:MOST_PROCESSES]
    for index, name in enumerate(worst):
        times, values = zip(*lags[name], strict=True)
        right.plot(times, values, color=JOBS[index % len(JOBS)], linewidth=1, label=name)
        hovers.points(right, times, values, [f"{name}, {seconds(at)} s: {value:.0f} ms" for at, value in lags[name]])
    right.axhline(1000 * STALL_S, color=LOSS, linewidth=0.7, linestyle=(0, (3, 3)))
    right.set_ylim(0, None)
    right.set_title("event loops late by, ms (p99 of 5 s)")
    for axes in (left, right):
        axes.set_xlim(window[0], max(window[1], window[0] + 1.0))
        axes.set_xlabel(CLOCK)
        axes.grid(axis="y")
    if worst:
        right.legend(fontsize=SMALLEST_PT, labelcolor=QUIET, loc="upper left", bbox_to_anchor=(1, 1), handlelength=1)
    figure.tight_layout()
    rows += [(f"lag_ms {name}", at, value) for name, points in lags.items() for at, value in points]
    return Drawing("host", "How busy the machine was", figure, ("series", "at_s", "value"), rows, hovers)


ACROSS = 3  # small figures in a row


def drawings(compared: Sequence[Compared]) -> list[Drawing]:
    """Draws a population, a figure for each kind: percentiles of quantities, parts as bars, the hours as a curve."""
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


def _curve(axes: Axes, each: Compared) -> range:
    """Draw what was made as a line and what was asked as dots; returns the places of the rows."""
    places = range(len(each.rows))
    axes.plot(places, [row.made for row in each.rows], color=COLLECT, linewidth=1.4, label="made")
    if each.worst is not None:
        axes.plot(places, [row.asked for row in each.rows], "o", color=LOSS, markersize=4, label="asked")
    axes.grid(axis="y")
    return places


def _percentiles(axes: Axes, each: Compared) -> None:
    places = _curve(axes, each)
    axes.set_xticks(places, [row.at.removesuffix(" %") for row in each.rows])
    axes.set_xlabel("percentile")
    if all(min(row.made, _asked_or_made(row)) > 0 for row in each.rows):
        axes.set_yscale("log")
        axes.minorticks_off()
        marks = dict.fromkeys(_asked_or_made(each.rows[place]) for place in (0, len(each.rows) // 2, -1))
        axes.set_yticks(list(marks), [f"{mark:.4g}" for mark in marks])


def _parts(axes: Axes, each: Compared) -> None:
    places = range(len(each.rows))
    if each.worst is not None:
        axes.barh([place - 0.18 for place in places], [row.asked for row in each.rows], 0.34, color=GAPS, label="asked")
    axes.barh([place + 0.18 for place in places], [row.made for row in each.rows], 0.34, color=COLLECT, label="made")
    axes.set_yticks(places, [row.at for row in each.rows])
    axes.set_ylim(len(each.rows) - 0.5, -0.5)
    axes.grid(axis="x")


def _hours(axes: Axes, each: Compared) -> None:
    places = _curve(axes, each)
    axes.set_xticks(places[::3], [row.at for row in each.rows[::3]])
    axes.set_ylim(0, None)
    axes.set_xlabel("time of day")
