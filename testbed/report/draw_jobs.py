"""Figures of jobs: where their time went, their attempts, what they learned, why they waited."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from coordinator.engine.explain import Why
from coordinator.engine.model import AttemptStatus
from testbed.report.drawing import (
    COLLECT,
    DELAY,
    GAPS,
    INK,
    LOSS,
    PAPER,
    QUIET,
    SMALLEST_PT,
    WIDTH_IN,
    Drawing,
    Hovers,
    canvas,
    job_colours,
    lanes,
    legend_above,
)
from testbed.report.explain import shortened
from testbed.report.history import AttemptHistory, History, JobHistory
from testbed.report.record import RunRecord
from testbed.report.words import duration, metric, percent, seconds, span
from testbed.runfolder.attempts import Attempts
from testbed.runfolder.jsonlines import integer, metrics
from testbed.runfolder.summary import CLOCK, Expected, JobFigures, Summary, Waited
from testbed.scenario.expect import parse_expectation
from venn.wire.notation import parse_number


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric of one job, a point per closed round."""

    job: str
    metric: str
    rounds: tuple[int, ...]
    arrived_s: float
    times_s: tuple[float, ...]  # when each round closed
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A metric that was to reach a value, and when it first did."""

    job: str
    metric: str
    value: float
    reached_s: float | None  # since the job arrived
    reached_round: int | None


MOST_NAMED = 8  # parts of waits with a job's name
_DIGIT = 0.011  # of the width of the axes that a digit of a round's number takes
_SEEN = 0.01  # opacity of what lies over others for a pointer to find
_NUMBER: dict[str, Any] = {
    "ha": "center", "va": "center", "fontsize": SMALLEST_PT, "color": QUIET, "clip_on": True,
}  # fmt: skip


def completion(summary: Summary, width_in: float = WIDTH_IN) -> Drawing:
    """Draws job completion times, split into delay, collection and gaps."""
    jobs = summary.jobs
    figure = canvas(width_in, 0.7 + 0.34 * len(jobs))
    axes = figure.add_subplot()
    parts = (
        ("scheduling delay", DELAY, "delay_s"),
        ("response collection", COLLECT, "collect_s"),
        ("gaps", GAPS, "gaps_s"),
    )
    hovers = Hovers()
    left = [0.0] * len(jobs)
    for label, colour, key in parts:
        values = [getattr(job, key) or 0.0 for job in jobs]
        texts = [f"{job.name}: {label} {duration(value)}" for job, value in zip(jobs, values, strict=True)]
        left = _stack(axes, left, values, texts, hovers, color=colour, label=label)
    for index, (job, end) in enumerate(zip(jobs, left, strict=True)):
        said = f"{seconds(job.jct_s)} s" if job.finished else "unfinished"
        colour = INK if job.finished else LOSS
        axes.annotate(
            said, (end, index), (6, 0), textcoords="offset points", va="center", color=colour, fontweight="bold"
        )
    lanes(axes, [job.name for job in jobs])
    axes.set_xlim(0, max([*left, 1.0]) * (1.12 if width_in == WIDTH_IN else 1.3))
    legend_above(axes)
    rows = [(job.name, job.finished, job.jct_s, job.delay_s, job.collect_s, job.gaps_s) for job in jobs]
    header = ("job", "finished", "jct_s", "delay_s", "collect_s", "gaps_s")
    return Drawing("jct", "Job completion times and their parts", figure, header, rows, hovers)


def _stack(
    axes: Axes, left: Sequence[float], values: Sequence[float], said: Sequence[str], hovers: Hovers, **style: Any
) -> list[float]:
    """Draw a part of a bar in each lane; returns where the bars end now."""
    bars = axes.barh(range(len(values)), values, left=left, height=0.56, **style)
    for bar, text in zip(bars, said, strict=True):
        hovers.say(bar, text)
    return [before + value for before, value in zip(left, values, strict=True)]


def rounds(history: History, jobs: Sequence[JobFigures]) -> Drawing:
    """Draws a lane per job, with each attempt filling and collecting, those that aborted hatched."""
    colours = job_colours([job.name for job in jobs])
    by_name = {job.name: job for job in history.jobs.values()}
    figure = Figure(figsize=(WIDTH_IN, 0.8 + 0.46 * len(jobs)))
    axes = figure.add_subplot()
    hovers = Hovers()
    rows = []
    start, end = history.window
    digit = _DIGIT * max(end - start, 1.0)
    for lane, summary in enumerate(jobs):
        job = by_name[summary.name]
        free = start
        for attempt in job.attempts:
            box = _draw_attempt(axes, lane, attempt, colour=colours[job.name], until=history.ended_s)
            hovers.say(box, _about_attempt(job, attempt, history.ended_s))
            delay, collect = attempt.split(history.ended_s)
            middle, half = attempt.opened_at + (delay + collect) / 2, digit * len(str(attempt.round)) / 2
            if middle - half >= free:
                axes.text(middle, lane + 0.41, str(attempt.round), **_NUMBER)
                free = middle + half + digit / 2
            row = (job.name, attempt.round, attempt.attempt, attempt.status.value, attempt.opened_at, delay, collect)
            rows.append((*row, attempt.responses, attempt.responses_needed, len(attempt.leases)))
        axes.plot(job.arrived_at, lane - 0.42, marker="v", color=QUIET, markersize=4, clip_on=False)
    lanes(axes, [job.name for job in jobs], CLOCK)
    axes.set_xlim(start, max(end, start + 1.0))
    legend = [Patch(color=QUIET, alpha=0.35, label="filling"), Patch(color=QUIET, label="collecting")]
    legend.append(Patch(facecolor=PAPER, edgecolor=LOSS, hatch="/////", label="aborted"))
    legend_above(axes, handles=legend)
    header = ("job", "round", "attempt", "status", "opened_s", "delay_s", "collect_s", "responses", "needed", "leases")
    return Drawing("rounds", "The attempts of every job over time", figure, header, rows, hovers)


def _draw_attempt(axes: Axes, lane: int, attempt: AttemptHistory, *, colour: str, until: float) -> Rectangle:
    """Draws an attempt; returns the box around it, in front of its parts."""
    delay, collect = attempt.split(until)
    x, top, height = attempt.opened_at, lane - 0.28, 0.56
    aborted = attempt.status is AttemptStatus.ABORTED
    if not aborted:
        axes.add_patch(Rectangle((x, top), delay, height, facecolor=colour, alpha=0.3, linewidth=0))
        axes.add_patch(Rectangle((x + delay, top), collect, height, facecolor=colour, linewidth=0))
    box = Rectangle(
        (x, top), delay + collect, height, facecolor=(*to_rgb(PAPER), _SEEN), edgecolor=colour, linewidth=0.6
    )
    if aborted:
        box.set(edgecolor=LOSS, hatch="/////")
    axes.add_patch(box)
    return box


def _about_attempt(job: JobHistory, attempt: AttemptHistory, until: float) -> str:
    delay, collect = attempt.split(until)
    ends = Counter(lease.end.value if lease.end else "live" for lease in attempt.leases)
    leases = " + ".join(f"{count} {end}" for end, count in ends.most_common())
    why = f" ({attempt.reason})" if attempt.reason else ""
    return (
        f"{job.name} round {attempt.round}, attempt {attempt.attempt}: {attempt.status}{why}\n"
        f"{attempt.responses} of {attempt.responses_needed} responses; "
        f"delay {delay:.1f} s, collection {collect:.1f} s\n"
        f"{len(attempt.leases)} leases{' = ' + leases if leases else ''}"
    )


def learning(curves: Sequence[Curve], targets: Sequence[Target], jobs: Sequence[JobFigures]) -> Drawing | None:
    """Draws each metric over time and over rounds, a line per job; None if no job reports any."""
    names = sorted({curve.metric for curve in curves})
    if not names:
        return None
    colours = job_colours([job.name for job in jobs])
    figure = Figure(figsize=(WIDTH_IN, 2.3 * len(names)))
    grid = figure.subplots(len(names), 2, squeeze=False, sharey="row")
    hovers = Hovers()
    for row, name in zip(grid, names, strict=True):
        shown = [curve for curve in curves if curve.metric == name]
        for curve in shown:
            style = {
                "color": colours[curve.job],
                "marker": "o",
                "markersize": 2.6,
                "linewidth": 1.3,
                "label": curve.job,
            }
            said = [
                f"{curve.job}, round {number} at {seconds(at)} s: {name} {metric(value)}"
                for number, at, value in zip(curve.rounds, curve.times_s, curve.values, strict=True)
            ]
            for axes, places in zip(row, (curve.times_s, curve.rounds), strict=True):
                axes.plot(places, curve.values, **style)
                hovers.points(axes, places, curve.values, said)
        for target in targets:
            if target.metric == name:
                for axes in row:
                    axes.axhline(target.value, color=QUIET, linewidth=0.7, linestyle=(0, (3, 3)))
                row[1].annotate(
                    f"{target.value:g}",
                    (1, target.value),
                    xycoords=("axes fraction", "data"),
                    fontsize=SMALLEST_PT,
                    color=QUIET,
                )
        row[0].set_title(f"{name} over time")
        row[1].set_title(f"{name} over rounds")
        row[0].set_xlabel(CLOCK)
        row[1].set_xlabel("round")
        row[1].xaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in row:
            axes.grid()
        row[0].legend(loc="lower right")
    figure.tight_layout()
    rows = [
        (curve.job, curve.metric, number, time, value)
        for curve in curves
        for number, time, value in zip(curve.rounds, curve.times_s, curve.values, strict=True)
    ]
    return Drawing(
        "learning",
        "Metrics over time and over rounds",
        figure,
        ("job", "metric", "round", "at_s", "value"),
        rows,
        hovers,
    )


def waiting(summary: Summary, width_in: float = WIDTH_IN) -> Drawing:
    """Draws seconds of scheduling delay by reason, a bar per job."""
    jobs = summary.jobs
    of_jobs: Counter[str] = Counter()
    for job in jobs:
        of_jobs.update({wait.text: wait.seconds for wait in job.waits if wait.job})
    shown = [shortened(job.waits, dict(of_jobs.most_common(MOST_NAMED))) for job in jobs]
    totals: Counter[str] = Counter()
    for waits in shown:
        totals.update({wait.text: wait.seconds for wait in waits})
    kinds = {wait.text: wait for waits in shown for wait in waits}
    colours = job_colours([job.name for job in jobs])
    figure = canvas(width_in, 0.9 + 0.34 * len(jobs))
    axes = figure.add_subplot()
    left = [0.0] * len(jobs)
    hovers = Hovers()
    for text, _ in totals.most_common():
        values = [sum(wait.seconds for wait in waits if wait.text == text) for waits in shown]
        colour, opacity = look(kinds[text], colours)
        said = [f"{job.name}: {duration(value)}: {text}" for job, value in zip(jobs, values, strict=True)]
        left = _stack(axes, left, values, said, hovers, label=text, color=colour, alpha=opacity, linewidth=0)
    lanes(axes, [job.name for job in jobs])
    if totals:
        legend_above(axes, ncols=2)
    rows = [(job.name, each.why, each.job, each.rule, each.seconds) for job in jobs for each in job.waits]
    return Drawing(
        "waits", "Why jobs waited, in seconds", figure, ("job", "why", "whom", "rule", "delay_s"), rows, hovers
    )


def look(wait: Waited, jobs: dict[str, str]) -> tuple[str, float]:
    """The colour and opacity of a reason: the colour of the job that had the devices, paler if it had them before;
    amber, as a delay, if none was there.
    """
    if wait.job:
        return jobs[wait.job], 1.0 if wait.why is Why.GIVEN else 0.45
    if wait.why in (Why.GIVEN, Why.BUSY):  # other jobs
        return INK, 0.75 if wait.why is Why.GIVEN else 0.3
    return {Why.ABSENT: DELAY, Why.OWN: GAPS, Why.HELD: QUIET}.get(wait.why, INK), 1.0


def describe_target(target: Target) -> str:
    """``accuracy 0.9 after 31.0 s (round 7)``."""
    if target.reached_s is None:
        return f"{target.job}: {target.metric} {metric(target.value)} was not reached"
    reached = f"after {seconds(target.reached_s)} s (round {target.reached_round})"
    return f"{target.job}: {target.metric} {metric(target.value)} {reached}"


_HOUR_S = 3600.0
_SPANS = 120  # that the time is cut into


def completed(summary: Summary, width_in: float = WIDTH_IN) -> Drawing:
    """Draws the share of jobs that had completed so long after they arrived."""
    times = sorted(job.jct_s for job in summary.jobs if job.jct_s is not None)
    shares = [(place + 1) / len(summary.jobs) for place in range(len(times))]
    figure = canvas(width_in, 2.6)
    axes = figure.add_subplot()
    axes.step([0.0, *(time / _HOUR_S for time in times)], [0.0, *shares], where="post", color=COLLECT)
    hovers = Hovers()
    said = [f"{percent(share)} of the jobs in {span(time)}" for time, share in zip(times, shares, strict=True)]
    hovers.points(axes, [time / _HOUR_S for time in times], shares, said)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.set_xlabel("job completion time, hours")
    axes.set_ylabel("share of jobs that are done")
    axes.grid()
    rows = list(zip(times, shares, strict=True))
    return Drawing("completed", "The share of jobs done over time", figure, ("jct_s", "share"), rows, hovers)


def attempts_over_time(attempts: Attempts) -> Drawing:
    """Draws mean delay and collection of the attempts that ended in each span of time, and how many aborted."""
    ended = attempts.ended_s
    delay, collect = attempts.filled_s - attempts.opened_s, ended - attempts.filled_s
    aborted = (~attempts.closed).astype(np.float64)
    edges = np.linspace(0.0, ended.max() if len(ended) else 1.0, _SPANS + 1)
    place = np.clip(np.searchsorted(edges, ended, side="left") - 1, 0, _SPANS - 1)
    counts = np.bincount(place, minlength=_SPANS)
    have = np.flatnonzero(counts)
    means = [np.bincount(place, weights=each, minlength=_SPANS)[have] / counts[have] for each in (delay, collect)]
    lost = np.bincount(place, weights=aborted, minlength=_SPANS)[have]
    hours = edges[have + 1] / _HOUR_S
    figure = Figure(figsize=(WIDTH_IN, 3.6))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.stackplot(hours, means, colors=(DELAY, COLLECT), labels=("scheduling delay", "response collection"))
    above.set_ylabel("mean seconds")
    legend_above(above)
    below.step(hours, counts[have], where="pre", color=QUIET, label="attempts")
    below.step(hours, lost, where="pre", color=DELAY, label="aborted")
    below.set_ylabel("attempts ended")
    below.set_xlabel(CLOCK.replace("seconds", "hours"))
    below.legend(ncols=2, loc="upper right")
    hovers = Hovers()
    texts = [
        f"until {span(until)}: {int(count)} attempts, {int(gone)} aborted, "
        f"delay {seconds(waited)} s, collection {seconds(worked)} s"
        for until, waited, worked, count, gone in zip(edges[have + 1], *means, counts[have], lost, strict=True)
    ]
    for axes, heights in ((above, (means[0] + means[1]) / 2), (below, counts[have])):
        hovers.points(axes, hours.tolist(), heights.tolist(), texts)
    rows = list(zip(edges[have + 1], *means, counts[have], lost, strict=True))
    header = ("until_s", "mean_delay_s", "mean_collect_s", "attempts", "aborted")
    return Drawing("attempts", "Delay and collection of attempts over time", figure, header, rows, hovers)


def curves(record: RunRecord, history: History) -> tuple[Curve, ...]:
    """The curve of each metric of each job, from the logs of drivers."""
    found = []
    for job in history.jobs.values():
        closed = {attempt.round: attempt.ended_at for attempt in job.closed() if attempt.ended_at is not None}
        driver = record.drivers.get(job.name)
        points: dict[str, list[tuple[int, float, float]]] = {}
        for row in driver.rounds if driver else ():
            number = integer(row, "round")
            if row.get("status") == AttemptStatus.CLOSED and number in closed:
                for name, value in metrics(row).items():
                    points.setdefault(name, []).append((number, closed[number], value))
        for name, values in sorted(points.items()):
            numbers, times, heights = zip(*values, strict=True)
            found.append(Curve(job.name, name, numbers, job.arrived_at, times, heights))
    return tuple(found)


def targets(expectations: Sequence[Expected], found: Sequence[Curve]) -> tuple[Target, ...]:
    """A target for each expectation that a metric of a job reaches a value."""
    wanted = []
    for one in expectations:
        asked = parse_expectation(one.expect)
        if len(asked.path) < 3 or asked.path[0] != "jobs" or asked.operator not in (">=", ">"):
            continue
        job, metric, value = asked.path[1], asked.path[-1], parse_number(asked.number)
        curve = next((curve for curve in found if (curve.job, curve.metric) == (job, metric)), None)
        if curve is None:
            continue
        first = next((index for index, height in enumerate(curve.values) if height >= value), None)
        reached = (None, None) if first is None else (curve.times_s[first] - curve.arrived_s, curve.rounds[first])
        wanted.append(Target(job, metric, value, *reached))
    return tuple(wanted)
