"""Figures of jobs: where their completion time went, their rounds, what they learned, why they waited."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from coordinator.engine.model import AttemptStatus
from coordinator.engine.waiting import Why
from testbed.report.figures.drawing import (
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
    job_colours,
    lanes,
    legend_above,
)
from testbed.report.history import AttemptHistory, History, JobHistory
from testbed.report.job_figures import Curve, Target
from testbed.report.waits import in_short
from testbed.report.words import duration, metric, seconds
from testbed.runfolder.summary import CLOCK, JobFigures, Summary, Waited

MOST_NAMED = 8  # parts of waits with a job's name
_DIGIT = 0.011  # of the width of the axes that a digit of a round's number takes
_SEEN = 0.01  # opacity of what lies over others for a pointer to find
_NUMBER: dict[str, Any] = {
    "ha": "center", "va": "center", "fontsize": SMALLEST_PT, "color": QUIET, "clip_on": True,
}  # fmt: skip


def completion(summary: Summary) -> Drawing:
    """Job completion time, split into delay, collection and gaps."""
    jobs = summary.jobs
    figure = Figure(figsize=(WIDTH_IN, 0.7 + 0.34 * len(jobs)))
    axes = figure.add_subplot()
    parts = (
        ("scheduling delay", DELAY, "delay_s"),
        ("response collection", COLLECT, "collect_s"),
        ("gaps", GAPS, "gaps_s"),
    )
    left = [0.0] * len(jobs)
    hovers = Hovers()
    for label, colour, key in parts:
        values = [getattr(job, key) or 0.0 for job in jobs]
        bars = axes.barh(range(len(jobs)), values, left=left, color=colour, label=label, height=0.56)
        for bar, job, value in zip(bars, jobs, values, strict=True):
            hovers.say(bar, f"{job.name}: {label} {duration(value)}")
        left = [before + value for before, value in zip(left, values, strict=True)]
    for index, (job, end) in enumerate(zip(jobs, left, strict=True)):
        said = f"{seconds(job.jct_s)} s" if job.finished else "unfinished"
        colour = INK if job.finished else LOSS
        axes.annotate(
            said, (end, index), (6, 0), textcoords="offset points", va="center", color=colour, fontweight="bold"
        )
    lanes(axes, [job.name for job in jobs])
    axes.set_xlim(0, max([*left, 1.0]) * 1.12)
    legend_above(axes)
    rows = [(job.name, job.finished, job.jct_s, job.delay_s, job.collect_s, job.gaps_s) for job in jobs]
    header = ("job", "finished", "jct_s", "delay_s", "collect_s", "gaps_s")
    return Drawing("jct", "Job completion times and their parts", figure, header, rows, hovers)


def rounds(history: History, jobs: Sequence[JobFigures]) -> Drawing:
    """A lane per job; each attempt filling and collecting, those that aborted hatched."""
    colours = job_colours([job.name for job in jobs])
    stories = {job.name: job for job in history.jobs.values()}
    figure = Figure(figsize=(WIDTH_IN, 0.8 + 0.46 * len(jobs)))
    axes = figure.add_subplot()
    hovers = Hovers()
    rows = []
    start, end = history.window
    digit = _DIGIT * max(end - start, 1.0)
    for lane, summary in enumerate(jobs):
        job = stories[summary.name]
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


def waiting(summary: Summary) -> Drawing:
    """Seconds of scheduling delay by reason, a bar per job."""
    jobs = summary.jobs
    of_jobs: Counter[str] = Counter()
    for job in jobs:
        of_jobs.update({wait.text: wait.seconds for wait in job.waits if wait.job})
    shown = [in_short(job.waits, dict(of_jobs.most_common(MOST_NAMED))) for job in jobs]
    totals: Counter[str] = Counter()
    for waits in shown:
        totals.update({wait.text: wait.seconds for wait in waits})
    kinds = {wait.text: wait for waits in shown for wait in waits}
    colours = job_colours([job.name for job in jobs])
    figure = Figure(figsize=(WIDTH_IN, 0.9 + 0.34 * len(jobs)))
    axes = figure.add_subplot()
    left = [0.0] * len(jobs)
    hovers = Hovers()
    for text, _ in totals.most_common():
        values = [sum(wait.seconds for wait in waits if wait.text == text) for waits in shown]
        colour, opacity = look(kinds[text], colours)
        bars = axes.barh(
            range(len(jobs)), values, left=left, label=text, height=0.56, color=colour, alpha=opacity, linewidth=0
        )
        for bar, job, value in zip(bars, jobs, values, strict=True):
            hovers.say(bar, f"{job.name}: {duration(value)}: {text}")
        left = [before + value for before, value in zip(left, values, strict=True)]
    lanes(axes, [job.name for job in jobs])
    if totals:
        legend_above(axes, ncols=2)
    rows = [(job.name, each.why, each.job, each.rule, each.seconds) for job in jobs for each in job.waits]
    return Drawing(
        "waits", "Why jobs waited, in seconds", figure, ("job", "why", "whom", "rule", "delay_s"), rows, hovers
    )


def look(wait: Waited, jobs: dict[str, str]) -> tuple[str, float]:
    """Colour and opacity of a reason: the colour of the job that had the devices, paler if it had them before; amber,
    as a delay, if none was there.
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
